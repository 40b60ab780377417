"""The kernels' quantisers, one update at a time."""

from __future__ import annotations

from ctypes import c_int32, c_int64, c_uint32, c_void_p

import numpy as np

from ofediq.arrays import Vector
from ofediq.simulation.native.layout import FORMS, ROOM, address_of, load


def quantized(
    update: Vector, levels: int, blocks: int, seed: int, step: int, client: int, form: str = "quantized"
) -> Vector:
    """What the server decodes from `update`, by the kernels' quantisers; equal to `codec.Quantized` or `Rotated`."""
    dim = update.size
    padded, total, *scratch = np.zeros((6, -(-(dim + 2 * ROOM) // ROOM) * ROOM), np.float32)
    padded[:dim] = update
    places = (c_void_p * len(scratch))(*(array.ctypes.data for array in scratch))
    load().quantize_add(
        c_int32(FORMS.index(form)),
        address_of(padded),
        c_int64(dim),
        c_int32(levels),
        c_int64(blocks),
        c_uint32(seed),
        c_uint32(step),
        c_uint32(client),
        places,
        address_of(total),
    )
    return total[:dim]
