"""`codebook`: a norm for each group, and the nearest of 2^Q trained codewords for every few coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec.arithmetic import block_norms, short_norms
from ofediq.codec.blocks import MAX_DIM, block_layout
from ofediq.codec.norms import norm_bytes
from ofediq.codec.packed import digit_bytes, pack_digits, unpack_digits
from ofediq.codec.rotated import MAX_ROTATED_NORM
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
from ofediq.settings import limited

_NORM_BITS = 16
_SAMPLES, _ROUNDS = 20_000, 60  # of the training


@dataclass(frozen=True)
class Codebook(Scheme):
    """Vector quantisation as for Gaussian noise: groups are scaled to mean squares of 1, then taken l at a time.

    The codewords are trained on Gaussian vectors by Lloyd's rounds, the same everywhere. Biased. Norms have 16 bits,
    rounded at random; the indices of the codewords Q bits each. No bytes for zeros.

    Attributes:
        length: l, the coordinates that a codeword stands for, 1 to 8.
        bits: Q, 1 to 8.
        group: the most coordinates that share a norm.

    >>> update = np.random.default_rng(0).standard_normal((1, 4096)).astype(np.float32)
    >>> sent, bits = Codebook(length=2, bits=4, group=512).apply(update, Address(0, 1, np.array([0])))
    >>> float(bits[0]) / 4096 < 2.04, float(((sent - update) ** 2).mean()) < 0.12
    (True, True)
    """

    length: Annotated[int, limited(1, 8)]
    bits: Annotated[int, limited(1, 8)]
    group: Annotated[int, limited(1, MAX_DIM)]

    name: ClassVar[str] = "codebook"
    unbiased: ClassVar[bool] = False

    def formula_bits(self, dim: int) -> float:
        """16 for each group, and Q ceil(D / l)."""
        return float(_NORM_BITS * self._groups(dim) + self.bits * -(-dim // self.length))

    def quantise(self, updates: Array, address: Address) -> tuple[Array, Array]:
        """Indices of codewords, [n, ceil(dim / l)], and norms, [n, groups]."""
        xp, (clients, dim) = namespace(updates), updates.shape
        runs = block_layout(dim, self._groups(dim))
        norms = xp.concatenate([block_norms(run.rows(updates))[..., 0] for run in runs], axis=1)
        draws = short_draws(address, _NORM_BITS)
        norms = norms if draws is None else short_norms(norms, draws(0, norms.shape[1]))
        norms = xp.minimum(norms, np.float32(MAX_ROTATED_NORM))  # codewords reach farther than 1
        unit = updates * self._spread(np.float32(1) / (norms + (norms == 0)), dim, inverse=True)
        words = xp.pad(unit, ((0, 0), (0, -dim % self.length))).reshape(clients, -1, self.length)
        book = xp.asarray(codewords(self.length, self.bits))
        closeness = words @ book.T - np.float32(0.5) * (book * book).sum(-1)
        return closeness.argmax(-1).astype(np.int32), norms

    def values(self, indices: Array, norms: Array, dim: int) -> Array:
        """The numbers that they stand for."""
        book = namespace(norms).asarray(codewords(self.length, self.bits))
        flat = book[indices].reshape(len(norms), -1)[:, :dim]
        return flat * self._spread(norms, dim, inverse=False)

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes; zeros cost nothing."""
        indices, norms = self.quantise(updates, address)
        size = np.float32(8 * self._bytes(updates.shape[1]))
        bits = namespace(updates).where((norms > 0).any(-1), size, np.float32(0))
        sent = self.values(indices, norms, updates.shape[1])
        return namespace(updates).where(bits[:, None] > 0, sent, np.float32(0)), bits

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """Norms, then indices."""
        indices, norms = self.quantise(vector(update, self)[None], address)
        if not norms.any():
            return Encoded(b"")
        data, tail = pack_digits(indices[0].astype(np.uint64), 2**self.bits)
        return Encoded(norm_bytes(norms[0], _NORM_BITS).tobytes() + data, tail)

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The update, or `WireError`: the length must fit, and some norm be above 0."""
        if not encoded.payload:
            require_no_tail(encoded)
            return np.zeros(dim, np.float32)
        require_length(encoded.payload, self._bytes(dim))
        split = self._groups(dim) * _NORM_BITS // 8
        norms = read_norms(encoded.payload[:split], _NORM_BITS)
        if not norms.any():
            raise WireError("payload: all norms are 0")
        indices = unpack_digits(encoded.payload[split:], encoded.tail, -(-dim // self.length), 2**self.bits)
        with np.errstate(over="ignore"):
            made: Vector = self.values(indices[None].astype(np.int32), norms[None], dim)[0]
        if not np.isfinite(made).all():
            raise WireError("payload: a norm that is too large for its codewords")
        return made

    def _spread(self, per_group: Array, dim: int, inverse: bool) -> Array:
        """A number for each coordinate: norm / sqrt(size), or from 1 / norm the inverse of that."""
        parts = []
        for run in block_layout(dim, self._groups(dim)):
            root = np.float32(run.size ** (0.5 if inverse else -0.5))
            column = namespace(per_group).repeat(run.column(per_group) * root, run.size, axis=-1)
            parts.append(column.reshape(len(per_group), -1))
        return namespace(per_group).concatenate(parts, axis=1)

    def _groups(self, dim: int) -> int:
        return -(-dim // self.group)

    def _bytes(self, dim: int) -> int:
        indices = -(-dim // self.length)
        return self._groups(dim) * _NORM_BITS // 8 + digit_bytes(indices, 2**self.bits)


@lru_cache(maxsize=16)
def codewords(length: int, bits: int) -> Vector:
    """2^Q codewords for vectors of l independent standard Gaussians, [2^Q, l].

    >>> bool(abs(codewords(1, 1)[1, 0] - np.sqrt(2 / np.pi)) < 0.02)
    True
    """
    rng = np.random.default_rng([length, bits])
    samples = rng.standard_normal((_SAMPLES, length))
    samples = np.concatenate([samples, -samples])  # as symmetric as what they stand for
    book = samples[rng.choice(_SAMPLES, 2**bits, replace=False)]
    for _ in range(_ROUNDS):
        nearest = (samples @ book.T - 0.5 * (book**2).sum(1)).argmax(1)
        counts = np.maximum(np.bincount(nearest, minlength=len(book)), 1)[:, None]
        sums = [np.bincount(nearest, column, minlength=len(book)) for column in samples.T]
        book = np.array(sums).T / counts
    order = np.lexsort(book.T[::-1])
    found: Vector = np.round(book[order], 3).astype(np.float32)  # so few digits that machines agree
    return found
