"""The arithmetic of rotated quantisers at 1 to 4 bits, for NumPy arrays and for JAX arrays inside `jit`.

With x a block of c coordinates, R the random rotation of `rotation.py` and y = R x / ||x||:

**dither** (Roberts 1962; Zamir and Feder 1992). With draws u_i uniform on (0, 1), known to both sides,

    symbol = floor(s y + u),     value = ||x|| R^-1 ((symbol - u + 1/2) / s)

The error s y - (symbol - u + 1/2) is uniform on (-1/2, 1/2) whatever y is: exactly unbiased for every vector, and
E||value - x||^2 = c / (12 s^2) ||x||^2, exactly, half of what rounding at random to a neighbour costs when s y has
several cells. The alphabet covers the range (|s y| <= s), so nothing is cut; large symbols are rare and the entropy
code makes them dear. s = sqrt(c) / DITHER_STEPS[bits] gives about `bits` bits per coordinate after the entropy code.

**nearest** (DRIVE, Vargaftik et al. 2021; EDEN, 2022). Each sqrt(c) y_i becomes the nearest centroid q_i of the
Lloyd-Max quantiser for Gaussians, and the block's scale makes the mean right:

    scale = ||x|| / <y, q / sqrt(c)>,     value = scale R^-1 q / sqrt(c)

Unbiased if R is uniform over all rotations: <x, value> = ||x||^2 always, and what is orthogonal to x has a symmetric
distribution; the error is 0.57, 0.13, 0.036, 0.0096 ||x||^2 at 1, 2, 3, 4 bits. With Hadamard's matrix it holds for
vectors that look like noise (no bias found for Gaussian ones of 4096 coordinates), not for all: (1, 1/2, 0, ..., 0)
has the mean (5/4, 0, ..., 0) at 1 bit, because the larger coordinate decides all signs.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.codec.rotation import rotate_rows, rotate_rows_back

Rotation = Literal["none", "dither", "nearest"]
"""How symbols stand for coordinates: not rotated; rotated with a common dither; rotated, as nearest centroids."""

ROTATIONS: tuple[str, ...] = get_args(Rotation)

MAX_ROTATED_NORM = 2.0**120
"""Norms of rotated blocks stop here: no symbols then give a value that float32 cannot hold."""

DITHER_STEPS = {1: 3.5154948, 2: 1.1394984, 3: 0.52847784, 4: 0.25974385}
"""Cell width, in standard deviations, at which dithered symbols of a Gaussian have 1, 2, 3, 4 bits of entropy."""

CENTROIDS = {
    1: (0.797884561,),
    2: (0.452780035, 1.510417608),
    3: (0.245094179, 0.756005281, 1.343909279, 2.151945705),
    4: (
        0.128395030,
        0.388048299,
        0.656759119,
        0.942340456,
        1.256231197,
        1.618046386,
        2.069017227,
        2.732589571,
    ),
}
"""The positive centroids of the Lloyd-Max quantisers for a standard Gaussian with 1, 2, 3, 4 bits."""

CENTROID_LEVELS = tuple(2 ** (bits - 1) for bits in CENTROIDS)
"""The levels of a message of nearest centroids: symbols are +-1 to +-levels."""


def rotated_levels(size: int, bits: int, rotation: Rotation) -> int:
    """The levels s of a rotated message at `bits` bits per coordinate.

    Args:
        size: coordinates in the longest block.
        bits: 1 to 4.
        rotation: `dither` or `nearest`.

    >>> rotated_levels(8192, 2, "dither"), rotated_levels(8192, 2, "nearest")
    (79, 2)
    """
    if rotation == "nearest":
        return len(CENTROIDS[bits])
    return max(1, round(math.sqrt(size) / DITHER_STEPS[bits]))


def rotated_symbols(
    rows: Array, norms: Array, words: Array, draws: Array, levels: int, rotation: Rotation
) -> tuple[Array, Array]:
    """The symbols of each block and the number that goes with it: its norm, or its scale.

    Args:
        rows: float32 [..., c], one block per row.
        norms: float32 column, the rows' norms, from 1e-30 to `MAX_ROTATED_NORM`, or 0.
        words: 32 random bits per coordinate, for the rotation.
        draws: float32, uniform on (0, 1), for the dither.
        levels: s, from `rotated_levels`.
        rotation: `dither` or `nearest`.
    """
    xp = namespace(rows)
    unit = rotate_rows(rows * (np.float32(1) / (norms + (norms == 0))), words)
    if rotation == "dither":
        cells = xp.floor(unit * np.float32(levels) + draws).astype(np.int32)
        return xp.clip(cells, -levels, levels) * (norms > 0), norms
    signs = xp.where(unit < 0, np.int32(-1), np.int32(1)) * (norms > 0)
    symbols = signs * _nearest(abs(unit) * np.float32(rows.shape[-1] ** 0.5), levels)
    match = (unit * _centroids(symbols, levels)).sum(axis=-1, keepdims=True)
    scales = norms / (match + (norms == 0))
    return symbols, scales.clip(max=np.float32(MAX_ROTATED_NORM)).astype(np.float32)


def rotated_values(
    symbols: Array, norms: Array, words: Array, draws: Array, levels: int, rotation: Rotation
) -> Array:
    """The float32 values that symbols and norms (or scales) of `rotated_symbols` stand for.

    >>> row, norms = np.array([[3, 0, 0, 4]], np.float32), np.array([[5]], np.float32)
    >>> words, draws = np.zeros((1, 4), np.uint32), np.full((1, 4), 0.5, np.float32)
    >>> symbols, norms = rotated_symbols(row, norms, words, draws, 10, "dither")
    >>> rotated_values(symbols, norms, words, draws, 10, "dither").round(3)
    array([[3., 0., 0., 4.]], dtype=float32)
    """
    if rotation == "dither":
        unit = (symbols.astype(np.float32) - (draws - np.float32(0.5))) * np.float32(1 / levels)
    else:
        unit = _centroids(symbols, levels)
    return rotate_rows_back(unit, words) * norms


def _nearest(magnitudes: Array, levels: int) -> Array:
    """1 for the smallest centroid, 2 for the next, ..."""
    centroids = CENTROIDS[levels.bit_length()]
    nearest = (magnitudes >= 0).astype(np.int32)
    for low, high in pairwise(centroids):
        nearest = nearest + (magnitudes > np.float32((low + high) / 2)).astype(np.int32)
    return nearest


def _centroids(symbols: Array, levels: int) -> Array:
    """The centroid of each symbol over sqrt(c); symbol 0 stands for 0."""
    xp = namespace(symbols)
    positive = np.array(CENTROIDS[levels.bit_length()], np.float32)
    table = xp.asarray(np.concatenate((-positive[::-1], [0], positive)).astype(np.float32))
    return table[symbols + levels] * np.float32(symbols.shape[-1] ** -0.5)
