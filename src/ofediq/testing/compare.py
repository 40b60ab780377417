"""How contracts are judged: arrays beside arrays, counts beside probabilities, calls beside calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from ofediq.arrays import Flags

_CLOSE = 1e-4  # relative distance of two vectors that went through the same arithmetic in float32
_RARE = 1e-9  # probability under which a count is not taken for chance


class BrokenError(Exception):
    """A contract is broken; the message is one sentence."""


class SkipError(Exception):
    """A contract does not apply; the message says why."""


def demand(condition: bool, sentence: str) -> None:
    """Raise `BrokenError` with `sentence` unless `condition` holds.

    >>> demand(1 < 2, "numbers must be in order.")
    """
    if not condition:
        raise BrokenError(sentence)


def agree(one: Any, other: Any) -> bool:
    """Whether the rows of two arrays are the same up to float32 rounding, but for at most one row.

    A draw may fall between the two roundings of a number: then one coordinate goes to the neighbouring level, in
    about one message in a thousand. Two such messages in a handful are no accident.

    >>> agree(np.eye(3), np.eye(3) * 1.000001), agree(np.eye(3), np.eye(3) * 1.01)
    (True, False)
    """
    here, there = (np.asarray(rows, np.float64).reshape(len(rows), -1) for rows in (one, other))
    if here.shape != there.shape:
        return False
    distance = np.linalg.norm(here - there, axis=1)
    far = ~(distance <= _CLOSE * np.linalg.norm(there, axis=1))  # NaN is far
    return int(far.sum()) <= (1 if len(far) > 2 else 0)


def likely(counts: Any, distribution: Any) -> Flags:
    """Whether each count is plausible: both exact tails of its distribution are above one in a billion.

    >>> from scipy import stats
    >>> likely([30, 70], stats.binom(100, [0.3, 0.3])).tolist()
    [True, False]
    """
    below, above = distribution.cdf(counts), distribution.sf(np.asarray(counts) - 1)
    return np.asarray(np.minimum(below, above) > _RARE)


def compiled(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` inside `jax.jit`, with NumPy arrays out; `name` is what a failure is called by."""
    fast = jax.jit(function)

    def call(*arguments: Any) -> Any:
        try:
            result = fast(*arguments)
        except Exception as error:
            raise BrokenError(f"`{name}` fails inside jax.jit: {first_sentence(error)}") from error
        return jax.tree.map(np.asarray, result)

    return call


def repeated(name: str, function: Callable[..., Any], *arguments: Any, between: Callable[[], Any]) -> Any:
    """The result of a call that must be pure: the same again after another call, and no argument changed."""
    given = jax.tree.map(np.array, arguments)
    first = jax.tree.map(np.array, function(*given))
    demand(_same(given, arguments), f"`{name}` changes its arguments in place.")
    between()
    again = function(*given)
    demand(_same(first, again), f"`{name}` keeps a hidden state: the same call gives another result later.")
    return first


@contextmanager
def quiet() -> Iterator[None]:
    """Numbers at the edge of the range may overflow on the way; only results count."""
    with np.errstate(all="ignore"):
        yield


def first_sentence(error: BaseException) -> str:
    """An error's kind and the first sentence of its message.

    >>> first_sentence(ValueError("this is wrong. And here is a page about it."))
    'ValueError: this is wrong.'
    """
    lines = str(error).strip().splitlines()
    sentence, dot, _ = lines[0].partition(". ") if lines else ("", "", "")
    return f"{type(error).__name__}: {sentence}{dot.strip()}" if sentence else type(error).__name__


def _same(one: Any, other: Any) -> bool:
    """Whether two trees hold the same numbers, bit for bit."""
    here, there = (jax.tree.leaves(tree) for tree in (one, other))
    pairs = zip(here, there, strict=False)
    return len(here) == len(there) and all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
