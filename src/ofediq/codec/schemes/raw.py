"""`raw`: no compression, D numbers of 32 bits. What FedOGD sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec.schemes.scheme import Encoded, Scheme, read_floats, vector, write_floats
from ofediq.randomness import Address


@dataclass(frozen=True)
class Raw(Scheme):
    """The float32 values, little-endian.

    >>> Raw().formula_bits(34826)
    1114432.0
    """

    name: ClassVar[str] = "raw"
    unbiased: ClassVar[bool] = True

    def formula_bits(self, dim: int) -> float:
        """32 D."""
        return 32.0 * dim

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """The updates themselves."""
        return updates, namespace(updates).full(updates.shape[0], np.float32(32 * updates.shape[1]))

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """4 D bytes."""
        return write_floats(vector(update, self))

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The values; they must be finite."""
        return read_floats(encoded, dim)
