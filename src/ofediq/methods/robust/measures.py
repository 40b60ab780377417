"""Lengths, sketches and sums of many updates, in compiled code where that is there, with the same bits without it."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int64, c_void_p

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Floats, Numbers, Vector
from ofediq.errors import InputError
from ofediq.kernels import library

SKETCH = 64
"""Numbers that a direction is kept in, at least."""


def measured(vectors: Sequence[Vector], signs: Vector, width: int = SKETCH) -> tuple[Floats, Floats]:
    """Lengths [n] of vectors of one size, and sketches [n, width] that keep lengths and angles about as they are.

    A sketch is the sum of all groups of `width` neighbours, with random signs; the width is a power of two, SKETCH at
    least. What is huge does not overflow.

    >>> lengths, sketches = measured([np.float32([3, 4])], np.float32([1, -1]))
    >>> lengths.tolist(), sketches[0, :3].tolist()
    ([5.0], [3.0, -4.0, 0.0])
    """
    code = library.find()
    lengths, sketches = np.empty(len(vectors)), np.empty((len(vectors), width))
    if code is not None:
        signs = np.ascontiguousarray(signs, np.float32)
        rows, kept = _addresses(vectors, signs.size)
        places = (c_void_p(array.ctypes.data) for array in (lengths, sketches))
        sizes = (c_int64(one) for one in (len(kept), signs.size, width))
        code.measure_rows(*_given(rows, signs), *sizes, *places)
        return lengths, sketches
    padded = np.zeros(-(-signs.size // width) * width)
    signed = np.zeros_like(padded)
    signed[: signs.size] = signs
    for place, vector in enumerate(vectors):
        padded[: signs.size] = vector
        squares = (padded * padded).reshape(-1, SKETCH).sum(0)
        while squares.size > 1:
            squares = squares[: squares.size // 2] + squares[squares.size // 2 :]
        lengths[place] = np.sqrt(squares[0])
        sketches[place] = (padded * signed).reshape(-1, width).sum(0)
    return lengths, sketches


def folded(sketches: Numbers, width: int) -> Numbers:
    """Wide sketches as narrow ones, [n, width].

    >>> folded(np.array([[1.0, 2.0, 3.0, 4.0]]), 2).tolist()
    [[4.0, 6.0]]
    """
    if sketches.shape[1] == width:
        return sketches
    found: Numbers = sketches.reshape(len(sketches), sketches.shape[1] // width, width).sum(1)
    return found


def added(vectors: Sequence[Vector], factors: Sequence[float], dim: int) -> Vector:
    """The sum of vectors, each times its factor, one after another; it may overflow.

    >>> added([np.float32([1, 2]), np.float32([4, 4])], [1.0, 0.5], dim=2).tolist()
    [3.0, 4.0]
    """
    code, total = library.find(), np.zeros(dim, np.float32)
    if code is not None:
        rows, kept = _addresses(vectors, dim)
        weights = np.array(factors, np.float64)
        code.add_rows(*_given(rows, weights), c_int64(len(kept)), c_int64(dim), c_void_p(total.ctypes.data))
        return total
    with np.errstate(over="ignore", invalid="ignore"):
        for vector, factor in zip(vectors, factors, strict=True):
            total += vector if factor == 1 else (vector.astype(np.float64) * factor).astype(np.float32)
    return total


def _addresses(vectors: Sequence[Vector], dim: int) -> tuple[npt.NDArray[np.uintp], list[Vector]]:
    """Where vectors of `dim` numbers lie, and what must be kept as long as they are read there."""
    kept = [np.ascontiguousarray(vector, np.float32) for vector in vectors]
    for vector in kept:  # C would read on
        if vector.shape != (dim,):
            raise InputError(f"`vectors` must have {dim} numbers each, got {vector.size}")
    return np.array([vector.__array_interface__["data"][0] for vector in kept], np.uintp), kept


def _given(*arrays: Numbers) -> tuple[c_void_p, ...]:
    return tuple(c_void_p(array.ctypes.data) for array in arrays)
