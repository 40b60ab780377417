"""Models of symbols that travel with the message: a table of a byte per class, or one byte that names a known table.

A table states how dense each class is, as a float of 8 bits: 0, or (8 + mantissa) * 2^exponent with 3 bits of
mantissa and 5 of exponent. Rounding costs about 0.0005 bits per symbol. The receiver turns the densities into
frequencies that add up to 2^24, in integers only, so that every machine gets the same ones.

Magnitudes below 32 have a class each. Above, an octave has eight classes, and inside a class all magnitudes are
equally likely: any smooth distribution is followed closely, and 113 bytes describe the largest one.

Short messages cannot pay for a table. The book has 120 of them, for symbols that fall off by half every h
magnitudes, h from 1/4 to 2^12, with zeros 1 to 2^11 times as dense as the others would have it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Floats, Vector
from ofediq.errors import WireError

Ints = NDArray[np.int64]

PRECISION = 24
"""The frequencies of a model add up to 2^24, the fixed point that the coder works with."""

_DENSITIES: Ints = np.array([0, *((8 + code % 8) << code // 8 for code in range(1, 256))], np.int64)
_MIDPOINTS: Floats = (_DENSITIES[1:] + _DENSITIES[:-1]) / 2
_EDGES: Ints = np.array(
    [*range(32), *(mantissa << e for e in range(2, 12) for mantissa in range(8, 16)), 2**15]
)

_HALVINGS = 15  # h = 1/4, 1/2, ..., 2^12
_ZERO_OCTAVES = (0, 1, 2, 3, 4, 6, 8, 11)
_BOOK_SIZE = _HALVINGS * len(_ZERO_OCTAVES)
_BOOK_FIRST = 128  # lengths of tables end at 113
_DEPTH = 24  # octaves after which the tables of the book end
_NEVER = np.float32(1e6)  # bits of a symbol that a table does not have

_FRACTION = 16  # bits after the point of a logarithm in whole numbers
_PIECES = 64  # straight pieces of an octave of it
_KNOTS: Ints = np.array(
    [round(2**_FRACTION * math.log2(1 + i / _PIECES)) for i in range(_PIECES + 1)], np.int64
)


@lru_cache(maxsize=64)
def magnitude_classes(levels: int) -> tuple[Ints, Ints]:
    """First magnitude and number of magnitudes of each class, up to `levels`.

    >>> firsts, widths = magnitude_classes(40)
    >>> firsts[-3:], widths[-3:]
    (array([32, 36, 40]), array([4, 4, 1]))
    """
    firsts = _EDGES[: np.searchsorted(_EDGES, levels, side="right")]
    widths = np.diff(firsts, append=levels + 1)
    widths.flags.writeable = False
    return firsts, widths


def signed_widths(widths: Ints) -> Ints:
    """Symbols in each class of magnitudes: two signs each, but zero has none."""
    doubled = 2 * widths
    doubled[..., 0] = 1
    return doubled


def write_table(counts: Ints, widths: Ints) -> bytes:
    """A table that fits classes with these counts, each `widths` symbols wide: length - 1, then a byte per class.

    >>> write_table(np.array([900, 90, 0, 10]), np.array([1, 2, 2, 2])).hex(" ")
    '03 ff dc 00 c3'
    """
    density = counts / widths
    scaled = density * (_DENSITIES[-1] / max(density.max(), 1e-9))
    codes = np.searchsorted(_MIDPOINTS, scaled)
    codes[(counts > 0) & (codes == 0)] = 1
    if not codes.any():
        codes[0] = 255  # nothing was counted: any model will do
    return bytes([len(codes) - 1, *codes.tolist()])


def read_table(data: bytes, start: int, most: int) -> tuple[Ints, int]:
    """The densities of the table at `start`, and where it ends.

    Raises:
        WireError: the table is cut off, has more than `most` classes, or is all zero.

    >>> read_table(bytes([1, 8, 0]), 0, most=2)
    (array([16,  0]), 3)
    """
    count = data[start] + 1 if start < len(data) else 0
    stop = start + 1 + count
    if not 0 < count <= most or stop > len(data):
        raise WireError(f"entropy table: it must have 1 to {most} classes and lie inside the payload")
    densities = _DENSITIES[np.frombuffer(data, np.uint8, count, start + 1)]
    if not densities.any():
        raise WireError("entropy table: all classes are empty")
    return densities, stop


def frequencies(weights: Ints) -> Ints:
    """Integers >= 1 that add up to 2^24, as nearly proportional to `weights` as whole numbers below them can be.

        f_i = 1 + floor(w_i (2^24 - n) / sum w),   the remainder goes to the first of the largest

    >>> frequencies(np.array([3, 1, 0]))
    array([12582911,  4194304,        1])
    """
    spare = 2**PRECISION - weights.size
    shares: Ints = weights * spare // weights.sum()
    shares[weights.argmax()] += spare - shares.sum()
    return shares + 1


@lru_cache(maxsize=64)
def book(levels: int) -> Ints:
    """The densities of the known tables, [120, classes]; 0 behind the end of a table.

    >>> book(3)[17]  # half as dense every magnitude, and zeros twice as dense as that
    array([32212254720,  8053063680,  4026531840,  2013265920])
    """
    firsts, widths = magnitude_classes(levels)
    middles = 2 * firsts + widths - 1  # twice the middle of each class
    codes = np.zeros((_BOOK_SIZE, firsts.size), np.int64)
    for entry in range(_BOOK_SIZE):
        halving, octaves = divmod(entry, len(_ZERO_OCTAVES))
        first = 255 - 8 * _ZERO_OCTAVES[octaves]
        codes[entry] = first - (16 * middles >> halving)
        codes[entry, codes[entry] < max(1, first - 8 * _DEPTH)] = 0
    codes[:, 0] = 255
    return _DENSITIES[codes]


@lru_cache(maxsize=64)
def book_bits(levels: int) -> Vector:
    """Bits of one symbol of each class, sign included, with each table of the book: [classes, 120]."""
    densities = book(levels)
    total = (densities * signed_widths(magnitude_classes(levels)[1])).sum(1, keepdims=True)
    bits = np.where(densities > 0, np.log2(total / np.maximum(densities, 1)), _NEVER)
    return np.ascontiguousarray(bits.T.astype(np.float32))


def whole_log2(numbers: Ints) -> Ints:
    """2^16 log2 of integers from 1 to 2^53, in whole numbers: straight between 65 knots of each octave.

    The error is below 1e-4. A choice that is made with it is the same on every machine.

    >>> whole_log2(np.array([1, 2, 3, 1024])) / 2**16
    array([ 0.        ,  1.        ,  1.58496094, 10.        ])
    """
    octave = np.frexp(numbers.astype(np.float64))[1].astype(np.int64) - 1
    part = (numbers << np.maximum(_FRACTION - octave, 0) >> np.maximum(octave - _FRACTION, 0)) - 2**_FRACTION
    piece, rest = part // (2**_FRACTION // _PIECES), part % (2**_FRACTION // _PIECES)
    knots = _KNOTS[piece]
    rise = (_KNOTS[piece + 1] - knots) * rest * _PIECES >> _FRACTION
    logarithms: Ints = (octave << _FRACTION) + knots + rise
    return logarithms


@lru_cache(maxsize=64)
def _whole_book_bits(levels: int) -> Floats:
    """`book_bits` in units of 2^-16, whole numbers: their sums are exact in any order."""
    densities = book(levels)
    total = (densities * signed_widths(magnitude_classes(levels)[1])).sum(1, keepdims=True)
    bits = whole_log2(total) - whole_log2(np.maximum(densities, 1))
    return np.ascontiguousarray(np.where(densities > 0, bits, 2.0**40).T)


@lru_cache(maxsize=64)
def _width_logarithms(levels: int) -> Ints:
    """`whole_log2` of the symbols in each class."""
    return whole_log2(signed_widths(magnitude_classes(levels)[1]))


def write_model(counts: Ints, levels: int) -> bytes:
    """A table for classes with these counts, or the best one of the book where that is shorter, code included.

    >>> len(write_model(np.array([7, 2, 0, 1]), 3)), len(write_model(np.array([7000, 2100, 0, 100]), 3))
    (1, 5)
    """
    used = int(counts.nonzero()[0].max(initial=0)) + 1
    said = np.append(counts[:used], counts.sum())
    logarithms = said * whole_log2(np.maximum(said, 1))
    ideal = int(counts[:used] @ _width_logarithms(levels)[:used] + 2 * logarithms[-1] - logarithms.sum())
    known = counts.astype(np.float64) @ _whole_book_bits(levels)
    if known.min() <= ideal + (8 * used << _FRACTION):
        return bytes([_BOOK_FIRST + int(known.argmin())])
    return write_table(counts[:used], signed_widths(magnitude_classes(levels)[1])[:used])


def read_model(data: bytes, start: int, levels: int) -> tuple[Ints, int]:
    """A weight for each symbol from -top to top, and where the model ends.

    Raises:
        WireError: as `read_table`, and for a table that is not in the book.
    """
    widths = magnitude_classes(levels)[1]
    if start < len(data) and data[start] >= _BOOK_FIRST:
        if data[start] >= _BOOK_FIRST + _BOOK_SIZE:
            raise WireError("entropy table: not in the book")
        densities, stop = book(levels)[data[start] - _BOOK_FIRST], start + 1
        densities = densities[: int(densities.nonzero()[0][-1]) + 1]
    else:
        densities, stop = read_table(data, start, widths.size)
    magnitudes = np.repeat(densities, widths[: densities.size])
    return np.concatenate([magnitudes[:0:-1], magnitudes]), stop
