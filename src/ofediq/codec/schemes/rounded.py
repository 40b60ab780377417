"""`rounded`: the largest size, and the nearest of 2^b equally spaced points for each coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec.arithmetic import block_maxima, symbol_values
from ofediq.codec.norms import norm_bytes
from ofediq.codec.packed import digit_bytes, pack_digits, unpack_digits
from ofediq.codec.schemes.scheme import (
    Encoded,
    Scheme,
    read_norms,
    require_length,
    require_no_tail,
    vector,
)
from ofediq.errors import WireError
from ofediq.randomness import Address
from ofediq.settings import limited

_SCALE_BYTES = 4


@dataclass(frozen=True)
class Rounded(Scheme):
    """LAQ's quantiser: with R the largest size and tau = 1 / (2^b - 1), the nearest point R (2 tau q - 1).

        q_i = floor((u_i + R) / (2 tau R) + 1/2)

    No draws, so it is biased; no error is above tau R. The payload is R and the q, b bits each; nothing for zeros.

    Attributes:
        bits: b, from 1 to 16.

    >>> scheme, address = Rounded(bits=2), Address(seed=0, step=1, client=7)
    >>> encoded = scheme.encode([3.0, -1.2, 0.4], address)
    >>> len(encoded.payload), scheme.decode(encoded, 3, address)
    (4, array([ 3., -1.,  1.], dtype=float32))
    """

    bits: Annotated[int, limited(1, 16)]

    name: ClassVar[str] = "rounded"
    unbiased: ClassVar[bool] = False

    def formula_bits(self, dim: int) -> float:
        """32 + b D."""
        return 32.0 + self.bits * dim

    def points(self, updates: Array) -> tuple[Array, Array]:
        """Which point is nearest to each coordinate, [n, dim] integers, and R, [n, 1]."""
        xp, largest = namespace(updates), block_maxima(updates)
        unit = updates * (np.float32(1) / (largest + (largest == 0)))
        # (unit + 1) / (2 tau) + 1/2 = unit / (2 tau) + 2^(b-1): a product alone, which no compiler fuses with a sum.
        cells = xp.floor(unit * np.float32((2**self.bits - 1) / 2)).astype(np.int32) + np.int32(
            2 ** (self.bits - 1)
        )
        return xp.clip(cells, 0, 2**self.bits - 1), largest

    def values(self, points: Array, largest: Array) -> Array:
        """The numbers that they stand for."""
        symbols = 2 * points.astype(np.int32) - np.int32(2**self.bits - 1)  # odd numbers: 0 is no point
        return symbol_values(symbols * (largest > 0), largest, 2**self.bits - 1)

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes; zeros cost nothing."""
        points, largest = self.points(updates)
        size = np.float32(8 * self._bytes(updates.shape[1]))
        bits = namespace(updates).where(largest[:, 0] > 0, size, np.float32(0))
        return self.values(points, largest), bits

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """R, then the points."""
        points, largest = self.points(vector(update, self)[None])
        if not largest[0, 0]:
            return Encoded(b"")
        data, tail = pack_digits(points[0].astype(np.uint64), 2**self.bits)
        return Encoded(norm_bytes(largest[0], 32).tobytes() + data, tail)

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The update, or `WireError`: the length must fit, and R be above 0."""
        if not encoded.payload:
            require_no_tail(encoded)
            return np.zeros(dim, np.float32)
        require_length(encoded.payload, self._bytes(dim))
        largest = read_norms(encoded.payload[:_SCALE_BYTES], 32)
        if not largest[0]:
            raise WireError("payload: a largest size of 0")
        points = unpack_digits(encoded.payload[_SCALE_BYTES:], encoded.tail, dim, 2**self.bits)
        made: Vector = self.values(points, largest)
        return made

    def _bytes(self, dim: int) -> int:
        return _SCALE_BYTES + digit_bytes(dim, 2**self.bits)
