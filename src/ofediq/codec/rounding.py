"""The (s, b)-stochastic quantiser in compiled code, where that is there already: the symbols of `quantizer`."""

from __future__ import annotations

from ctypes import c_int32, c_int64, c_void_p

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Numbers, Vector
from ofediq.kernels import library
from ofediq.randomness import Key

_ROOM = 16  # numbers that C may touch past the end of a row


def symbols_and_norms(
    updates: Vector, key: Key, levels: int, blocks: int
) -> tuple[NDArray[np.int32], Vector] | None:
    """Symbols [n, dim] and norms [n, blocks] of `updates` [n, dim]; None where there is no compiled code.

    Args:
        updates: float32.
        key: the stream of each row's draws, coordinate i at index i; or one for all.
        levels: s.
        blocks: b.
    """
    code = library.find()
    if code is None or updates.dtype != np.float32 or updates.ndim != 2 or not updates.size:
        return None
    count, dim = updates.shape
    stride = dim + _ROOM
    rows, symbols = np.empty((count, stride), np.float32), np.empty((count, stride), np.int32)
    rows[:, :dim], rows[:, dim:] = updates, 0
    keys = np.empty((count, 2), np.uint32)
    keys[:, 0], keys[:, 1] = np.ravel(key.first), np.ravel(key.second)
    norms, scratch = np.empty((count, blocks), np.float32), np.empty(blocks + _ROOM, np.float32)
    code.quantize_rows(
        _address(rows),
        c_int64(count),
        c_int64(stride),
        c_int64(dim),
        c_int32(levels),
        c_int64(blocks),
        *map(_address, (keys, scratch, symbols, norms)),
    )
    return symbols[:, :dim], norms


def _address(array: Numbers) -> c_void_p:
    return c_void_p(array.ctypes.data)
