"""The decoder of `stack` in compiled code, symbol for symbol the same, where that is there already.

Encoding stays with constriction, which is as fast: it divides, and that takes longer than all else.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint64, c_void_p
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ofediq.codec.message import Symbols
from ofediq.codec.tables import Ints
from ofediq.kernels import library

Words = NDArray[np.uint32]

WORTH = 128
"""Steps below which calling C costs more than it saves."""


class _Stack(ctypes.Structure):
    _fields_ = [("words", c_void_p), ("count", c_int64), ("state", c_uint64)]


class _Alphabet(ctypes.Structure):
    _fields_ = [
        ("starts", c_void_p),
        ("size", c_int32),
        ("base", c_int32),
        ("group", c_int32),
        ("lowest", c_int32),
    ]


@dataclass(frozen=True)
class Product:
    """Groups of symbols as one of a product alphabet.

    Attributes:
        frequencies: of the groups; they add up to 2^24.
        base: number of symbols.
        group: symbols in a group.
        lowest: the first symbol.
    """

    frequencies: Ints
    base: int
    group: int
    lowest: int


def decode(coded: Words, product: Product, steps: int) -> tuple[Symbols, Words] | None:
    """[group, steps] symbols off the top of a stack, and what is left of it; None where there is no compiled code."""
    code = library.find()
    if code is None:
        return None
    symbols = np.empty((product.group, steps), np.int32)
    rest = max(0, coded.size - 2)
    state = sum(int(word) << 32 * place for place, word in enumerate(coded[rest:]))
    starts = np.zeros(product.frequencies.size + 1, np.uint32)
    np.cumsum(product.frequencies, out=starts[1:])
    stack = _Stack(coded.ctypes.data, rest, state)
    sizes = (product.frequencies.size, product.base, product.group, product.lowest)
    alphabet = _Alphabet(starts.ctypes.data, *sizes)
    arguments = (ctypes.byref(stack), ctypes.byref(alphabet), c_int64(steps), c_void_p(symbols.ctypes.data))
    if code.ans_decode(*arguments):
        return None
    top = np.array([stack.state & 0xFFFFFFFF, stack.state >> 32], np.uint32)
    used = (int(stack.state).bit_length() + 31) // 32
    return symbols, np.concatenate([coded[: stack.count], top[:used]])
