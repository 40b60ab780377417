"""`eden`: coordinates drawn from the address, rotated, as nearest centroids: any number of bits, also below one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec.arithmetic import MAX_NORM
from ofediq.codec.rotation import rotation_blocks
from ofediq.codec.schemes.rotated import Rotated
from ofediq.codec.schemes.scheme import Encoded, Scheme, put, vector
from ofediq.errors import require, require_nonnegative
from ofediq.randomness import Address, Key, Purpose, uniform

_MODEL_BITS = 40.0  # at most what the entropy code's model and its last byte take


@dataclass(frozen=True)
class Eden(Scheme):
    """R bits per coordinate: all of them rotated and rounded to the nearest of 2^R centroids; below one bit, some.

        R >= 1   value = scale  rotated back of the centroids, see `codec.rotated`
        R < 1    the same with one bit, for k = R D coordinates drawn from the address, times the D / k that each of
                 them stands for: one of each of k nearly equal runs, so nothing says which

    Declared biased, because with Hadamard's matrix it is unbiased for vectors that look like noise and not for all.

    Attributes:
        bits: R, in (0, 1), or 1, 2, 3 or 4.
        norm_bits: 32 or 16, of the scale.

    >>> update = np.random.default_rng(0).standard_normal(8000).astype(np.float32)
    >>> scheme, address = Eden(0.1), Address(seed=0, step=1, client=7)
    >>> encoded = scheme.encode(update, address)
    >>> 100 <= len(encoded.payload) <= 110, int((scheme.decode(encoded, 8000, address) != 0).sum())
    (True, 800)
    """

    bits: float
    norm_bits: int = 32

    name: ClassVar[str] = "eden"
    unbiased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require(
            0 < require_nonnegative("bits", self.bits) < 1 or self.bits in (1, 2, 3, 4),
            "bits",
            "must lie in (0, 1), or be 1, 2, 3 or 4",
            self.bits,
        )
        self.values.check(1)

    @property
    def values(self) -> Rotated:
        """How the drawn coordinates are sent."""
        return Rotated(max(1, int(self.bits)), "nearest", "entropy", self.norm_bits)

    def kept(self, dim: int) -> int:
        """k."""
        return dim if self.bits >= 1 else max(1, round(self.bits * dim))

    def check(self, dim: int) -> None:
        """Any size will do."""
        super().check(dim)
        self.values.check(self.kept(dim))

    def formula_bits(self, dim: int) -> float:
        """R for each coordinate, a scale for each rotated block, and the code's model; or the values themselves."""
        kept = self.kept(dim)
        return min(
            32.0 * kept, self.norm_bits * rotation_blocks(kept) + max(1.0, self.bits) * kept + _MODEL_BITS
        )

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes; the bits are the ideal length of the entropy code."""
        kept = self.kept(updates.shape[1])
        if kept == updates.shape[1]:
            return self.values.apply(updates, address)
        where, stands_for = drawn(updates.shape[1], kept, address.key(Purpose.SUPPORT))
        sent, bits = self.values.apply(_stretched(updates, where, stands_for), address)
        return put(sent, where, updates.shape[1]), bits

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """The message of the drawn coordinates."""
        values = vector(update, self)
        kept = self.kept(values.size)
        if kept < values.size:
            where, stands_for = drawn(values.size, kept, address.key(Purpose.SUPPORT))
            values = _stretched(values[None], where, stands_for)[0]
        return self.values.encode(values, address)

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The update, or `WireError`."""
        kept = self.kept(dim)
        values = self.values.decode(encoded, kept, address)
        if kept == dim:
            return values
        made: Vector = put(values[None], drawn(dim, kept, address.key(Purpose.SUPPORT))[0], dim)[0]
        return made


def drawn(dim: int, keep: int, key: Key) -> tuple[Array, Vector]:
    """One coordinate of each of `keep` nearly equal runs, [n, keep] ascending, and how many each stands for.

    Every coordinate of a run is as likely, so what is drawn, times what it stands for, is unbiased.

    >>> from ofediq.randomness import stream_key
    >>> where, stands_for = drawn(10, 5, stream_key(0, 1, 2, Purpose.SUPPORT))
    >>> (where // 2).tolist(), stands_for.tolist()
    ([[0, 1, 2, 3, 4]], [2.0, 2.0, 2.0, 2.0, 2.0])
    """
    edges = np.arange(keep + 1, dtype=np.int64) * dim // keep
    lengths = np.diff(edges).astype(np.int32)
    draws = uniform(Key(key.first[..., None], key.second[..., None]), np.arange(keep, dtype=np.uint32))
    inside = namespace(draws).minimum((draws * lengths.astype(np.float32)).astype(np.int32), lengths - 1)
    return edges[:-1].astype(np.int32) + inside, lengths.astype(np.float32)


def _stretched(updates: Array, where: Array, stands_for: Array) -> Array:
    xp = namespace(updates)
    kept = xp.take_along_axis(updates, where, axis=1)
    most = np.float32(MAX_NORM) / stands_for  # a product must not overflow
    return xp.clip(kept, -most, most) * stands_for
