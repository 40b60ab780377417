"""A stack of symbols in few bits: asymmetric numeral systems, by constriction.

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

from ofediq.codec.message import Symbols
from ofediq.codec.tables import PRECISION, Ints, frequencies
from ofediq.errors import WireError

_MOST_SYMBOLS = 1024  # of a product alphabet: larger ones cost the coder more than they save
_LEAST_USE = 16  # as many steps for each symbol of a product alphabet, or its table costs more than it saves


class Stack:
    """Symbols that come out in the reverse order of the pushes. Each content has exactly one code.

    >>> weights = np.array([5, 2, 1])
    >>> stack = Stack()
    >>> stack.push(np.array([0, 1, 0, 0, 2], np.int32), weights)
    >>> received = Stack(stack.to_bytes())
    >>> received.pop(5, weights), received.is_empty
    (array([0, 1, 0, 0, 2], dtype=int32), True)
    """

    def __init__(self, coded: bytes = b"") -> None:
        # The coder refuses a last word of 0. `to_bytes` leaves no last byte of 0, so refuse that instead.
        if coded.endswith(b"\0"):
            raise WireError("entropy code: the last byte is 0")
        padded = coded + bytes(-len(coded) % 4)
        self._coder = constriction.stream.stack.AnsCoder(np.frombuffer(padded, "<u4").astype(np.uint32))

    def push(self, symbols: Symbols, weights: Ints, lowest: int = 0) -> None:
        """Push symbols from `lowest` to `lowest` + len(weights) - 1 that are as frequent as `weights` says."""
        if symbols.size == 0 or weights.size == 1:
            return
        group = _group(symbols.size, weights.size)
        steps = -(-symbols.size // group)
        padded = np.empty(steps * group, np.int32)
        np.subtract(symbols, np.int32(lowest), out=padded[: symbols.size])
        padded[symbols.size :] = weights.argmax()
        rows = padded.reshape(group, steps)
        joint = rows[0]
        for row in rows[1:]:
            joint *= np.int32(weights.size)
            joint += row
        self._coder.encode_reverse(joint, _model(weights, group))

    def pop(self, count: int, weights: Ints, lowest: int = 0) -> Symbols:
        """The inverse of `push`. Any bytes give symbols of the alphabet.

        Raises:
            WireError: the padding of the last group is not what `push` wrote.
        """
        if count == 0 or weights.size == 1:
            return np.full(count, lowest, np.int32)
        group = _group(count, weights.size)
        steps = -(-count // group)
        joint: Symbols = self._coder.decode(_model(weights, group), steps)
        rows = np.empty((group, steps), np.int32)
        for row in rows[:0:-1]:
            quotient = joint // np.int32(weights.size)
            row[...] = joint - quotient * np.int32(weights.size)
            joint = quotient
        rows[0] = joint
        symbols = rows.reshape(-1)
        if (symbols[count:] != weights.argmax()).any():
            raise WireError("entropy code: the padding is not what it must be")
        if lowest:
            symbols += np.int32(lowest)
        return symbols[:count]

    def push_bytes(self, data: NDArray[np.uint8]) -> None:
        """Push bytes at 8 bits each."""
        if data.size:
            self._coder.encode_reverse(data.astype(np.int32), _any_byte())

    def pop_bytes(self, count: int) -> NDArray[np.uint8]:
        """The inverse of `push_bytes`."""
        if count == 0:
            return np.zeros(0, np.uint8)
        popped: Symbols = self._coder.decode(_any_byte(), count)
        return popped.astype(np.uint8)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left: the last `pop` has used up every bit."""
        return bool(self._coder.is_empty())

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


@lru_cache(maxsize=1)
def _any_byte() -> Any:
    return _model(np.ones(256, np.int64), 1)


def _model(weights: Ints, group: int) -> Any:
    """The coder's model for groups of symbols.

    The coder gives each symbol 1/2^24 and shares the rest in proportion to floats. With integers that already add
    up to the rest its scale factor is 1.0, so nothing is rounded and no machine can differ.
    """
    joint = single = frequencies(weights)
    for _ in range(group - 1):
        joint = (joint[:, None] * single >> PRECISION).reshape(-1)
    if group > 1:
        joint = frequencies(joint)
    return constriction.stream.model.Categorical((joint - 1).astype(np.float64), perfect=False)
