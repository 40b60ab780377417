"""The entropy code in compiled code, symbol for symbol and byte for byte the same, where that is there already."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Numbers, Vector
from ofediq.codec.message import Symbols
from ofediq.codec.tables import Ints, book, magnitude_classes
from ofediq.kernels import library
from ofediq.kernels.structures import structures

Words = NDArray[np.uint32]

_NO_NORMS = np.zeros(1, np.float32)
_NO_CLASSES = np.zeros(1, np.int32)

WORTH = 128
"""Steps below which calling C costs more than it saves."""


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
    kinds = structures("coding.h")
    stack = kinds["stack"](coded.ctypes.data, rest, state)
    sizes = (product.frequencies.size, product.base, product.group, product.lowest)
    alphabet = kinds["alphabet"](starts.ctypes.data, *sizes)
    arguments = (ctypes.byref(stack), ctypes.byref(alphabet), c_int64(steps), c_void_p(symbols.ctypes.data))
    if code.ans_decode(*arguments):
        return None
    top = np.array([stack.state & 0xFFFFFFFF, stack.state >> 32], np.uint32)
    used = (int(stack.state).bit_length() + 31) // 32
    return symbols, np.concatenate([coded[: stack.count], top[:used]])


_ROOM = 16  # symbols that C may write past the end: the padding of a group
_MOST_COORDINATES = 2**31 - 1  # C counts with 32 bits


def read_message(
    payload: bytes, dim: int, levels: int, blocks: int = 1, norm_bits: int = 0
) -> tuple[Symbols, Vector] | None:
    """`entropy.decode_entropy` of a payload that is in order; None where it is not, or there is no compiled code.

    With norms of 0 bits there are none in the payload, and all symbols are.
    """
    code = library.find()
    if code is None:
        return None
    symbols, norms = np.empty(dim + _ROOM, np.int32), np.empty(blocks, np.float32)
    message = _message(payload, levels, symbols, norms, norm_bits)
    message.dim = dim
    return None if code.read_message(ctypes.byref(message)) else (symbols[:dim], norms)


def write_stack(
    models: bytes,
    symbols: Symbols,
    levels: int,
    norms: Vector = _NO_NORMS,
    norm_bits: int = 0,
    classes: Symbols = _NO_CLASSES,
) -> bytes | None:
    """What stands behind the `models` of an entropy-coded payload; None where there is no compiled code.

    Args:
        models: of norms and symbols, as the payload begins.
        symbols: of the coordinates in nonzero blocks.
        levels: s.
        norms: of all blocks, if they are said.
        norm_bits: of them.
        classes: of the norms, if they are not plain.
    """
    code = library.find()
    if code is None or symbols.size > _MOST_COORDINATES:
        return None
    symbols = np.ascontiguousarray(symbols)
    words = np.empty(symbols.size + norms.size * (1 + norm_bits // 8) + 2, np.uint32)  # one for each step
    message = _message(models, levels, symbols, norms, norm_bits)
    message.dim = symbols.size
    if code.write_message(ctypes.byref(message), _address(classes), _address(words)):
        return None
    return words.view(np.uint8)[: message.bytes].tobytes()


def magnitude_counts(symbols: Symbols, levels: int) -> Ints | None:
    """How often each class of magnitudes occurs in a vector; None where there is no compiled code."""
    code = library.find()
    if code is None or not 0 < symbols.size <= _MOST_COORDINATES:
        return None
    symbols, counts = np.ascontiguousarray(symbols), np.empty(magnitude_classes(levels)[1].size, np.int32)
    code.count_symbols(_address(symbols), c_int64(symbols.size), c_int32(counts.size), _address(counts))
    return counts.astype(np.int64)


def _message(payload: bytes, levels: int, symbols: Symbols, norms: Vector, norm_bits: int) -> Any:
    """C's `struct message`; it holds addresses, so its arguments must live as long."""
    widths, known = _models(levels)
    return structures("message.h")["message"](
        ctypes.cast(ctypes.c_char_p(payload), c_void_p),
        widths.ctypes.data,
        known.ctypes.data,
        len(payload),
        0,
        norms.size,
        widths.size,
        norm_bits // 8,
        symbols.ctypes.data,
        norms.ctypes.data,
    )


def _address(array: Numbers) -> c_void_p:
    return c_void_p(array.ctypes.data)


@lru_cache(maxsize=64)
def _models(levels: int) -> tuple[Ints, Ints]:
    """The widths of the classes of magnitudes, and the book of known tables, as C reads them."""
    return np.ascontiguousarray(magnitude_classes(levels)[1]), np.ascontiguousarray(book(levels))
