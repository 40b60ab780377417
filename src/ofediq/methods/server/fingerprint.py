"""Telling two optax transformations apart: by what they do, and by the numbers that they hold.

Neither is enough alone. Two rules may move alike for a few steps and differ later (a schedule, a limit that is seldom
reached); and the same numbers mean another thing in another function.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ofediq.errors import extra

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def fingerprint(transformation: Any) -> str:
    """A digest of the first five moves, to 5 digits, and of the constants inside; the same in every process."""
    said = " ".join([*_moves(transformation), *_constants(transformation, set())])
    return hashlib.blake2b(said.encode(), digest_size=6).hexdigest()


def _moves(transformation: Any) -> Iterator[str]:
    """Along gradients that grow, shrink and change their sign."""
    numpy = extra("jax.numpy", "sim")
    params = numpy.asarray([1.0, -0.5, 2.0, 0.0], np.float32)
    state = transformation.init(params)
    for scale in (1.0, 3.0, -0.1, 1e-3, 30.0):
        gradient = np.float32(scale) * numpy.asarray([1.0, -2.0, 0.5, 1e-2], np.float32)
        move, state = transformation.update(gradient, state, params)
        params = params + move
        yield from (f"{float(one):.4e}" for one in move)


def _constants(value: Any, seen: set[int]) -> Iterator[str]:
    """What a function and the functions inside it were made with, in their order."""
    if isinstance(value, _PLAIN):
        yield repr(value)
        return
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        yield hashlib.blake2b(np.asarray(value).tobytes(), digest_size=6).hexdigest()
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    for part in _parts(value):
        yield from _constants(part, seen)


def _parts(value: Any) -> tuple[Any, ...]:
    if isinstance(value, (tuple, list)):
        return tuple(value)
    if isinstance(value, Mapping):
        return tuple(part for pair in value.items() for part in pair)
    if isinstance(value, functools.partial):
        return (value.func, value.args, value.keywords)
    if hasattr(value, "__self__") and hasattr(value, "__func__"):
        return (
            value.__func__,
            vars(value.__self__) if hasattr(value.__self__, "__dict__") else value.__self__,
        )
    if hasattr(value, "__wrapped__"):
        return (value.__wrapped__,)
    if hasattr(value, "__code__"):
        kept = [_held(cell) for cell in value.__closure__ or ()]
        return (value.__qualname__, value.__defaults__, value.__kwdefaults__, *kept, *_written(value))
    if isinstance(value, (type, types.ModuleType)):
        return (value.__name__,)
    return (
        type(value).__qualname__,
        type(value).__call__ if callable(value) else None,
        getattr(value, "__dict__", None),
    )


def _written(function: Any) -> Iterator[Any]:
    """Numbers in the text of a user's own function, and what it takes from its module."""
    module = function.__module__ or ""
    if module.partition(".")[0] in ("jax", "optax"):
        return
    code = function.__code__
    yield [one for one in code.co_consts if isinstance(one, (int, float, complex))]
    for name in code.co_names:
        one = function.__globals__.get(name)
        if isinstance(one, _PLAIN) or hasattr(one, "dtype") or getattr(one, "__module__", None) == module:
            yield one


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
