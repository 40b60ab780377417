"""A random rotation of blocks: signs and Walsh-Hadamard transforms, for NumPy arrays and for JAX arrays inside `jit`.

A rotated vector looks Gaussian whatever the vector was, so one small alphabet fits all of them. Nothing is padded. A
vector is cut into ceil(D / 2^13) blocks of nearly equal size c. With n the largest power of two up to c, a block is
rotated in windows of n coordinates: the first n, the last n, the first n again; one window if n = c. A window is

    y = H (sign * x) / sqrt(n),      H the n x n Hadamard matrix of natural order

which is orthogonal, so the whole is, and the way back is the same steps in reverse. Only sums, differences and
products in a fixed order: any two machines with float32 get the same bits from NumPy.
"""

from __future__ import annotations

import numpy as np

from ofediq.arrays import Array, faster, namespace

MAX_ROTATED = 2**13
"""Coordinates in the largest rotated block. Its norm costs 32 / 2^13 bits per coordinate."""


def rotation_blocks(dim: int) -> int:
    """How many blocks a vector of `dim` coordinates is rotated in.

    >>> rotation_blocks(34826)
    5
    """
    return -(-dim // MAX_ROTATED)


def rotate_rows(rows: Array, words: Array) -> Array:
    """Rotate each row at random; norms stay.

    Args:
        rows: float32 [..., c], one block per row.
        words: 32 random bits for each coordinate, uint32 of the same shape. Window w uses bit 31 - w as its signs.

    >>> row, words = np.array([[3, 4, 0, 0]], np.float32), np.zeros((1, 4), np.uint32)
    >>> rotate_rows(row, words)
    array([[ 3.5, -0.5,  3.5, -0.5]], dtype=float32)
    """
    for number, window in enumerate(_windows(rows.shape[-1])):
        part = rows[..., window] * _signs(words[..., window], number)
        rows = _with(rows, window, _hadamard(part))
    return rows


def rotate_rows_back(rows: Array, words: Array) -> Array:
    """The inverse of `rotate_rows`, up to float32 rounding.

    >>> words = np.arange(5, dtype=np.uint32)[None] << np.uint32(29)
    >>> row = np.array([[1, 2, 3, 4, 5]], np.float32)
    >>> bool(abs(rotate_rows_back(rotate_rows(row, words), words) - row).max() < 1e-5)
    True
    """
    for number, window in reversed(list(enumerate(_windows(rows.shape[-1])))):
        part = _hadamard(rows[..., window]) * _signs(words[..., window], number)
        rows = _with(rows, window, part)
    return rows


def _windows(size: int) -> tuple[slice, ...]:
    width = 1 << (size.bit_length() - 1)
    first, last = slice(0, width), slice(size - width, size)
    return (first,) if width == size else (first, last, first)


def _signs(words: Array, number: int) -> Array:
    negative = (words >> np.uint32(31 - number)) & np.uint32(1)
    return np.float32(1) - np.float32(2) * negative.astype(np.float32)


def _with(rows: Array, window: slice, part: Array) -> Array:
    pieces = (rows[..., : window.start], part, rows[..., window.stop :])
    return namespace(rows).concatenate(pieces, axis=-1)


def _hadamard(rows: Array) -> Array:
    """The orthonormal Walsh-Hadamard transform of each row, of natural order.

    Each stage joins the two halves and deals the results out in turn. That moves every bit of the index up by one,
    and after log2(n) stages each is back in its place.
    """
    xp = namespace(rows)
    shape, size = rows.shape, rows.shape[-1]
    found = faster("hadamard", rows)
    if found is not None:
        return found
    for _ in range(size.bit_length() - 1):
        low, high = rows[..., : size // 2], rows[..., size // 2 :]
        rows = xp.stack((low + high, low - high), axis=-1).reshape(shape)
    return rows * np.float32(size**-0.5)
