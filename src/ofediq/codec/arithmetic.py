"""The arithmetic of the (s, b)-stochastic quantiser, for NumPy arrays and for JAX arrays inside `jit`.

Both give the same bits, because the source uses only operators and methods that they share, and because no array
is divided by a broadcast one: XLA turns that into a product with the reciprocal, which rounds differently.

    norm    = sqrt(sum of squares of the block)                        Definition 2
    scaled  = |u| * (s / norm)                                         s |u_i| / ||u_I||, in [0, s]
    level   = floor(scaled) + [draw < scaled - floor(scaled)]          at most s
    symbol  = sign(u) * level
    value   = symbol * (norm * (1 / s))                                what the receiver adds up

All in float32, evaluated in this order, 1/s rounded to float32 first. A block is a row; `norms` is a column.
"""

from __future__ import annotations

import numpy as np

from ofediq.arrays import Array

MAX_LEVELS = 2**15
"""Largest number of levels: a symbol and its sign then fit the frame's fields."""

MAX_NORM = float(np.float32(2.0**128 * (1 - 2.0**-20)))
"""Norms stop here, so close to the largest float32 (3.4028e38) that no value of a block overflows."""

SHORT_NORM_SHIFT = 15
"""A 16-bit norm is a float32 without its sign and without its lowest 15 bits."""

_MAX_SHORT_NORM = 0xFEFF  # the pattern above is infinity


def block_norms(rows: Array) -> Array:
    """The Euclidean norm of each row, as a float32 column.

    NumPy sums in float64: the result is exact to one rounding, no row overflows on the way, and a row with a nonzero
    entry never gets 0. A norm beyond `MAX_NORM` becomes `MAX_NORM`: the quantiser stays unbiased with any norm that
    is not below the largest coordinate. JAX sums in float32, good for norms from 1e-18 to 1e18.

    Args:
        rows: float32, one block per row.

    >>> block_norms(np.array([[3e38, 0], [-3e-30, 4e-30]], np.float32))
    array([[3.e+38],
           [5.e-30]], dtype=float32)
    """
    if isinstance(rows, np.ndarray):
        wide = rows.astype(np.float64)
        squares = np.einsum("...i,...i->...", wide, wide)[..., None]
    else:
        squares = (rows * rows).sum(axis=-1, keepdims=True)
    return (squares**0.5).clip(max=MAX_NORM).astype(np.float32)


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
