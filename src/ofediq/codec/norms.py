"""Norms as bytes: 4 each, or 2 for norms that were rounded to 16 bits. Little-endian, the top byte last."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Array, Vector
from ofediq.codec.arithmetic import SHORT_NORM_SHIFT

Bytes = NDArray[np.uint8]


def norm_bytes(norms: Vector, norm_bits: int) -> Bytes:
    """The bytes of each norm, one norm per row.

    >>> norm_bytes(np.array([1.0], np.float32), 32)
    array([[  0,   0, 128,  63]], dtype=uint8)
    >>> norm_bytes(np.array([1.0], np.float32), 16)
    array([[  0, 127]], dtype=uint8)
    """
    bits = norms.view(np.uint32)
    whole = bits.astype("<u4") if norm_bits == 32 else (bits >> np.uint32(SHORT_NORM_SHIFT)).astype("<u2")
    return whole.view(np.uint8).reshape(norms.size, norm_bits // 8)


def norms_from_bytes(rows: Bytes, norm_bits: int) -> Vector:
    """The inverse of `norm_bytes`. Any bytes give floats; `Message` refuses those that are no norms.

    >>> norms_from_bytes(np.array([[0, 127]], np.uint8), 16)
    array([1.], dtype=float32)
    """
    whole = np.ascontiguousarray(rows).reshape(-1).view("<u4" if norm_bits == 32 else "<u2").astype(np.uint32)
    return (whole if norm_bits == 32 else whole << np.uint32(SHORT_NORM_SHIFT)).view(np.float32)


def norm_classes(norms: Array, norm_bits: int) -> Array:
    """The top byte of each norm, from 0 (norm 0) to 255: what the entropy code models. NumPy or JAX arrays.

    >>> norm_classes(np.array([0.0, 1.0], np.float32), 16)
    array([  0, 127], dtype=int32)
    """
    return (norms.view(np.uint32) >> np.uint32(24 if norm_bits == 32 else 23)).astype(np.int32)
