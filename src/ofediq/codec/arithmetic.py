"""The arithmetic of the (s, b)-stochastic quantiser, for NumPy arrays and for JAX arrays inside `jit`.

Both give the same bits, because the source uses only operators and methods that they share, and because no array
is divided by a broadcast one: XLA turns that into a product with the reciprocal, which rounds differently.

    norm    = sqrt(sum of squares of the block)                        Definition 2; `block_norms` has the details
    scaled  = |u| * (s / norm)                                         s |u_i| / ||u_I||, in [0, s]
    level   = floor(scaled) + [draw < scaled - floor(scaled)]          at most s
    symbol  = sign(u) * level
    value   = symbol * (norm * (1 / s))                                what the receiver adds up

All in float32, evaluated in this order, 1/s rounded to float32 first. A block is a row; `norms` is a column.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ofediq.arrays import Array, namespace

MAX_LEVELS = 2**15
"""Largest number of levels: a symbol and its sign then fit the frame's fields."""

MAX_NORM = float(np.float32(2.0**128 * (1 - 2.0**-20)))
"""Norms stop here, so close to the largest float32 (3.4028e38) that no value of a block overflows."""

TINY = 2.0**-80
"""A block whose largest size is below this (8e-25) counts as zeros: nothing then comes near float32's subnormal
numbers, which some machines flush to 0, and `levels / norm` never overflows."""

SHORT_NORM_SHIFT = 15
"""A 16-bit norm is a float32 without its sign and without its lowest 15 bits."""

_MAX_SHORT_NORM = 0xFEFF  # the pattern above is infinity
_PIECE = 2**13  # sums of halves of squares fit 31 bits
_LEAST_EXPONENT = 47  # of `TINY`, as float32 has it


def block_norms(rows: Array) -> Array:
    """The Euclidean norm of each row, as a float32 column, by one rule for NumPy, JAX and the kernels in C.

    With m the largest size in the row and 2^e <= m < 2^(e+1):

        q_i    = floor(|x_i| 2^(14-e) + 1/2),  whole numbers up to 2^15
        square = sum over pieces of 2^13 coordinates of  2^16 float32(h) + float32(l),  h, l = divmod(sum q_i^2, 2^16)
        root   = sqrt(square) 2^(e-14)
        norm   = root if root > m (1 + 2^-14), else m;  at most `MAX_NORM`;  0 if m < `TINY`

    Sums of whole numbers do not depend on the order, products by powers of two are exact: every machine gets the same
    bits. The norm is never below m, so the quantiser is unbiased, and a lone coordinate is its own norm. It is that
    of the exact sum to 1e-4 at worst and to 1e-6 on average, in blocks of thousands to one rounding.

    Args:
        rows: float32, one block per row.

    >>> block_norms(np.array([[3e38, 0], [-3, 4], [1e-30, 0]], np.float32)).ravel()
    array([3.e+38, 5.e+00, 0.e+00], dtype=float32)
    """
    square, largest, unit = _added(rows, _square)
    xp = namespace(rows)
    with np.errstate(over="ignore"):  # cut in the end
        root = xp.sqrt(square) * unit
        return _column(xp.where(root > largest * np.float32(1 + 2.0**-14), root, largest), largest, rows)


def block_maxima(rows: Array) -> Array:
    """The largest size in each row, as a float32 column, with the limits of `block_norms`.

    >>> block_maxima(np.array([[3, -4], [0, 1e-30]], np.float32)).ravel()
    array([4., 0.], dtype=float32)
    """
    return _column(abs(rows).max(-1), abs(rows).max(-1), rows)


def row_means(rows: Array) -> Array:
    """The mean size of the entries of each row, as a float32 column; from sums of the q of `block_norms`.

    >>> row_means(np.array([[3, -1, 2]], np.float32))
    array([[2.]], dtype=float32)
    """
    total, largest, unit = _added(rows, _total)
    return _column(total * np.float32(1 / rows.shape[-1]) * unit, largest, rows)


def _column(made: Array, largest: Array, rows: Array) -> Array:
    """One number for each of `rows`: at most `MAX_NORM`, and 0 for what counts as zeros."""
    xp = namespace(rows)
    kept = xp.where(largest < np.float32(TINY), np.float32(0), xp.minimum(made, np.float32(MAX_NORM)))
    return kept.reshape(*rows.shape[:-1], 1)


def _added(rows: Array, add: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
    """For each row: what `add` says of its q, piece by piece; its largest size; the unit of its q.

    Coordinates come first inside, because NumPy is slow along short rows; and it takes few rows at a time, because
    temporary arrays should stay in the cache.
    """
    xp, (size, flat) = namespace(rows), (rows.shape[-1], rows.reshape(-1, rows.shape[-1]))
    together = max(1, 2 * _PIECE // size) if xp is np else len(flat)
    parts = [flat[start : start + together].T for start in range(0, len(flat), together)]
    if xp is np and size <= _PIECE:
        parts = [np.abs(part, order="C") for part in parts]
        largest = np.concatenate([part.max(0) for part in parts])
    else:
        largest = xp.concatenate([xp.maximum(part.max(0), -part.min(0)) for part in parts])
    exponent = largest.view(np.uint32) >> np.uint32(23)
    exponent = xp.minimum(xp.maximum(exponent, np.uint32(_LEAST_EXPONENT)), np.uint32(254))
    scales = ((np.uint32(268) - exponent) << np.uint32(23)).view(np.float32)
    unit = ((exponent - np.uint32(14)) << np.uint32(23)).view(np.float32)
    sums = []
    with np.errstate(over="ignore", invalid="ignore"):  # what has diverged may stay infinite
        for number, part in enumerate(parts):
            scale = scales[number * together : (number + 1) * together]
            pieces = (abs(part[start : start + _PIECE]) * scale for start in range(0, size, _PIECE))
            sums.append(sum(add((piece + np.float32(0.5)).astype(np.int32)) for piece in pieces))
    return xp.concatenate(sums), largest, unit


def _square(whole: Array) -> Array:
    """The sum of squares of each column: exact, then rounded to float32."""
    squares = whole * whole
    low = (squares & np.int32(0xFFFF)).sum(0, dtype=np.int32)
    high = (squares >> np.int32(16)).sum(0, dtype=np.int32) + (low >> np.int32(16))
    return high.astype(np.float32) * np.float32(2**16) + (low & np.int32(0xFFFF)).astype(np.float32)


def _total(whole: Array) -> Array:
    """The sum of each column: exact, then rounded to float32."""
    return whole.sum(0, dtype=np.int32).astype(np.float32)


def stochastic_levels(scaled: Array, draws: Array, levels: int) -> Array:
    """Round each `scaled` >= 0 up with probability equal to its fraction, else down; never above `levels`.

    Args:
        scaled: float32 in [0, levels], up to rounding.
        draws: float32, uniform on (0, 1), of the same shape.
        levels: s.

    >>> scaled, draws = np.array([0.25, 0.25, 3], np.float32), np.array([0.2, 0.3, 0.1], np.float32)
    >>> stochastic_levels(scaled, draws, levels=3)
    array([1, 0, 3], dtype=int32)
    """
    base = scaled.astype(np.int32)  # truncation is floor here
    up = (draws < scaled - base.astype(np.float32)) & (base < levels)
    return base + up.astype(np.int32)


def signed_symbols(rows: Array, norms: Array, draws: Array, levels: int) -> Array:
    """The symbol of each coordinate, an integer from -s to s. A row of norm 0 gives zeros.

    Args:
        rows: float32, one block per row.
        norms: float32 column, from `block_norms`.
        draws: float32, uniform on (0, 1), of the shape of `rows`.
        levels: s.

    >>> rows = np.array([[3, -4], [0, 0]], np.float32)
    >>> signed_symbols(rows, block_norms(rows), np.full((2, 2), 0.5, np.float32), levels=5)
    array([[ 3, -4], [ 0,  0]], dtype=int32)
    """
    scaled = abs(rows)
    scaled *= np.float32(levels) / (norms + (norms == 0))
    symbols = stochastic_levels(scaled, draws, levels)
    sign = rows.view(np.int32) >> np.int32(31)  # -1 or 0, and in two's complement -x = (x ^ -1) - -1
    symbols ^= sign
    symbols -= sign
    return symbols


def symbol_values(symbols: Array, norms: Array, levels: int) -> Array:
    """The float32 value of each symbol.

    Args:
        symbols: int32, one block per row.
        norms: float32 column, at most `MAX_NORM`.
        levels: s.

    >>> symbol_values(np.array([[3, -4]], np.int32), np.array([[5]], np.float32), levels=5)
    array([[ 3., -4.]], dtype=float32)
    """
    values = symbols.astype(np.float32)
    values *= norms * np.float32(1 / levels)
    return values


def short_norms(norms: Array, draws: Array) -> Array:
    """Round each norm to one of its two neighbours with 16 bits, up or down at random, without bias.

    Floats between two neighbours lie on a line in their bit pattern, across powers of two as well, so the low 15
    bits over 2^15 are exactly the probability of rounding up. Above the largest 16-bit norm, 3.396e38, the result
    is that norm.

    Args:
        norms: float32, not negative.
        draws: float32, uniform on (0, 1), of the same shape, independent of the draws for the levels.

    >>> short_norms(np.array([1.0, 1.001953125], np.float32), np.array([0.4, 0.4], np.float32))
    array([1.       , 1.0039062], dtype=float32)
    """
    bits = norms.view(np.uint32)
    low = bits & np.uint32(2**SHORT_NORM_SHIFT - 1)
    up = draws * np.float32(2**SHORT_NORM_SHIFT) < low.astype(np.float32)
    short = (bits >> np.uint32(SHORT_NORM_SHIFT)) + up.astype(np.uint32)
    return (short.clip(max=np.uint32(_MAX_SHORT_NORM)) << np.uint32(SHORT_NORM_SHIFT)).view(np.float32)
