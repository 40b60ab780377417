"""`signs`: one bit per coordinate and one magnitude for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec.arithmetic import row_means, short_norms
from ofediq.codec.message import require_norm_bits
from ofediq.codec.norms import norm_bytes
from ofediq.codec.schemes.scheme import (
    Encoded,
    Scheme,
    read_norms,
    require_length,
    require_no_tail,
    short_draws,
    vector,
)
from ofediq.errors import WireError
from ofediq.randomness import Address


@dataclass(frozen=True)
class Signs(Scheme):
    """value_i = mean(|u|) sign(u_i), 0 counting as positive: the nearest vector of equal sizes. Biased.

    The payload is the mean, then a bit per coordinate, 1 if negative, the first one lowest.

    Attributes:
        norm_bits: 32 or 16, of the mean.

    >>> scheme, address = Signs(), Address(seed=0, step=1, client=7)
    >>> encoded = scheme.encode([3.0, -1.0, 2.0], address)
    >>> len(encoded.payload), scheme.decode(encoded, 3, address)
    (5, array([ 2., -2.,  2.], dtype=float32))
    """

    norm_bits: int = 32

    name: ClassVar[str] = "signs"
    unbiased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_norm_bits(self.norm_bits)

    def means(self, updates: Array, address: Address) -> Array:
        """The magnitude of each update, [n, 1]."""
        means, short = row_means(updates), short_draws(address, self.norm_bits)
        return means if short is None else short_norms(means, short(0, 1))

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes; zeros cost nothing."""
        xp, means = namespace(updates), self.means(updates, address)
        size = np.float32(self.norm_bits + 8 * -(-updates.shape[1] // 8))
        live = means > 0  # a tiny update decodes to zeros without a sign
        sent = xp.where((updates < 0) & live, -means, means)
        return sent, xp.where(live[:, 0], size, np.float32(0))

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """Mean and bits; nothing for zeros."""
        values = vector(update, self)
        mean = self.means(values[None], address)[0]
        if not mean[0]:
            return Encoded(b"")
        bits = np.packbits(values < 0, bitorder="little")
        return Encoded(norm_bytes(mean, self.norm_bits).tobytes() + bits.tobytes())

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The update, or `WireError`: the length must fit, the mean be above 0, spare bits be 0."""
        require_no_tail(encoded)
        if not encoded.payload:
            return np.zeros(dim, np.float32)
        width = self.norm_bits // 8
        require_length(encoded.payload, width - (-dim // 8))
        mean = read_norms(encoded.payload[:width], self.norm_bits)
        bits = np.unpackbits(np.frombuffer(encoded.payload, np.uint8)[width:], bitorder="little")
        if not mean[0] or bits[dim:].any():
            raise WireError("payload: a mean of 0, or bits behind the last coordinate")
        return np.where(bits[:dim], -mean, mean)
