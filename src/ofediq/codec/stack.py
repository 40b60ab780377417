"""A stack of symbols in few bits: asymmetric numeral systems, by constriction; short ones begin with `exact`.

Symbols with the same model are coded several at a time, as one symbol of the product alphabet, which takes the
coder fewer steps. Frequencies of the product are products of integers, normalised again, so that every machine gets
the same ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import constriction
import numpy as np
from numpy.typing import NDArray

from ofediq.codec.exact import read_exact, write_exact
from ofediq.codec.message import Symbols
from ofediq.codec.numerals import WORTH, Product, decode
from ofediq.codec.tables import PRECISION, Ints, frequencies
from ofediq.errors import WireError

_MOST_SYMBOLS = 1024  # of a product alphabet: larger ones cost the coder more than they save
_BOTTOM = 64  # steps at the bottom of a short stack
_LEAST_USE = 16  # as many steps for each symbol of a product alphabet, or its table costs more than it saves

SHORT = 2048
"""Up to so many symbols, the last steps of the code are written by `exact`."""


class Stack:
    """Symbols that come out in the reverse order of the pushes. Each content has exactly one code.

    >>> weights = np.array([5, 2, 1])
    >>> stack = Stack()
    >>> stack.push(np.array([0, 1, 0, 0, 2], np.int32), weights, first=True)
    >>> received = Stack(stack.to_bytes())
    >>> received.pop(5, weights, last=True)
    array([0, 1, 0, 0, 2], dtype=int32)
    """

    def __init__(self, coded: bytes = b"") -> None:
        # The coder refuses a last word of 0. `to_bytes` leaves no last byte of 0, so refuse that instead.
        if coded.endswith(b"\0"):
            raise WireError("entropy code: the last byte is 0")
        self._coder = _coder(coded)

    def push(self, symbols: Symbols, weights: Ints, lowest: int = 0, first: bool = False) -> None:
        """Push symbols from `lowest` to `lowest` + len(weights) - 1 that are as frequent as `weights` says.

        `first` puts them at the bottom of an empty stack in fewer bits; `pop` must know that they are the last.
        """
        if symbols.size == 0 or weights.size == 1:
            return
        group = _group(symbols.size, weights.size)
        steps = -(-symbols.size // group)
        padded = np.empty(steps * group, np.int32)
        np.subtract(symbols, np.int32(lowest), out=padded[: symbols.size])
        padded[symbols.size :] = weights.argmax()
        rows = padded.reshape(group, steps)
        joint_weights = _joint(weights, group)
        joint = rows[0]
        for row in rows[1:]:
            joint *= np.int32(weights.size)
            joint += row
        if first and symbols.size <= SHORT:
            self._coder = _coder(write_exact(joint[-_BOTTOM:], joint_weights))
            joint = joint[:-_BOTTOM]
        self._coder.encode_reverse(joint, _model(joint_weights))

    def pop(self, count: int, weights: Ints, lowest: int = 0, last: bool = False) -> Symbols:
        """The inverse of `push`; `last` for what was pushed as the first. Any bytes give symbols of the alphabet.

        Raises:
            WireError: the padding of the last group is not what `push` wrote, or something is left of the last one.
        """
        if count == 0 or weights.size == 1:
            if last:
                self.require_empty()
            return np.full(count, lowest, np.int32)
        group = _group(count, weights.size)
        steps = -(-count // group)
        joint_weights = _joint(weights, group)
        bottom = min(steps, _BOTTOM) if last and count <= SHORT else 0
        found = None if bottom else self._popped(Product(joint_weights, weights.size, group, lowest), steps)
        if found is not None:
            return self._whole(found.reshape(-1), count, weights, lowest, last)
        joint: Symbols = self._coder.decode(_model(joint_weights), steps - bottom)
        if bottom:
            joint = np.concatenate([joint, read_exact(self.to_bytes(), bottom, joint_weights)])
        rows = np.empty((group, steps), np.int32)
        for row in rows[:0:-1]:
            quotient = joint // np.int32(weights.size)
            row[...] = joint - quotient * np.int32(weights.size)
            joint = quotient
        rows[0] = joint
        if lowest:
            rows += np.int32(lowest)
        return self._whole(rows.reshape(-1), count, weights, lowest, last and not bottom)

    def _whole(self, symbols: Symbols, count: int, weights: Ints, lowest: int, last: bool) -> Symbols:
        """The symbols without their padding."""
        if last:
            self.require_empty()
        if (symbols[count:] != weights.argmax() + lowest).any():
            raise WireError("entropy code: the padding is not what it must be")
        return symbols[:count]

    def push_bytes(self, data: NDArray[np.uint8]) -> None:
        """Push bytes at 8 bits each."""
        if data.size:
            self._coder.encode_reverse(data.astype(np.int32), _any_byte())

    def pop_bytes(self, count: int) -> NDArray[np.uint8]:
        """The inverse of `push_bytes`."""
        if count == 0:
            return np.zeros(0, np.uint8)
        found = self._popped(_BYTES, count)
        popped: Symbols = self._coder.decode(_any_byte(), count) if found is None else found[0]
        return popped.astype(np.uint8)

    def _popped(self, product: Product, steps: int) -> Symbols | None:
        """`steps` groups by compiled code, as columns; None where there is none."""
        found = decode(self._coder.get_compressed(), product, steps) if steps >= WORTH else None
        if found is not None:
            self._coder = _from_words(found[1])
        return None if found is None else found[0]

    def require_empty(self) -> None:
        """Raise `WireError` unless every bit is used up."""
        if not self._coder.is_empty():
            raise WireError("entropy code: bytes are left over")

    def to_bytes(self) -> bytes:
        """The code: little-endian words without zeros at the end."""
        words: bytes = self._coder.get_compressed().astype("<u4").tobytes()
        return words.rstrip(b"\0")


def _group(count: int, alphabet: int) -> int:
    """How many symbols make one of the product alphabet."""
    group = 1
    while alphabet ** (group + 1) <= min(_MOST_SYMBOLS, count // _LEAST_USE):
        group += 1
    return group


def _coder(coded: bytes) -> Any:
    padded = coded + bytes(-len(coded) % 4)
    return _from_words(np.frombuffer(padded, "<u4").astype(np.uint32))


def _from_words(words: NDArray[np.uint32]) -> Any:
    return constriction.stream.stack.AnsCoder(words)


_BYTES = Product(frequencies(np.ones(256, np.int64)), 256, 1, 0)


@lru_cache(maxsize=1)
def _any_byte() -> Any:
    return _model(_BYTES.frequencies)


def _joint(weights: Ints, group: int) -> Ints:
    """The frequencies of groups of symbols."""
    joint = single = frequencies(weights)
    for _ in range(group - 1):
        joint = (joint[:, None] * single >> PRECISION).reshape(-1)
    return frequencies(joint) if group > 1 else joint


def _model(joint: Ints) -> Any:
    """The coder's model.

    The coder gives each symbol 1/2^24 and shares the rest in proportion to floats. With integers that already add
    up to the rest its scale factor is 1.0, so nothing is rounded and no machine can differ.
    """
    return constriction.stream.model.Categorical((joint - 1).astype(np.float64), perfect=False)
