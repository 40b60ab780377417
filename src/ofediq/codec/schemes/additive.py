"""`additive`: whole numbers on a common support and grid, modulo 2^m: messages that can be added up unread."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec.arithmetic import block_norms, signed_symbols, symbol_values
from ofediq.codec.blocks import MAX_DIM
from ofediq.codec.draws import stream_draws
from ofediq.codec.schemes.scheme import Encoded, Scheme, put, require_length, require_no_tail, vector
from ofediq.codec.skellam import MAX_VARIANCE, secret_skellam, skellam
from ofediq.errors import WireError, require
from ofediq.randomness import Address, Purpose, stream_key, words
from ofediq.settings import Count, NonNegative, Positive, limited

Residues = npt.NDArray[np.uint32]

_RARE = 0.01  # how often rounding at random may exceed the sensitivity, and is replaced by rounding down
_ROOM = 6  # standard deviations of the sum's noise that must fit into the modulus
_EVERYONE = 2**32 - 1  # the address of what all clients draw alike; nobody has this number


@dataclass(frozen=True)
class Additive(Scheme):
    """k coordinates that all clients draw alike, clipped, on one grid, with noise: whole numbers modulo 2^m.

        S_t     k of the D coordinates, drawn from (seed, step): no bit says which
        v       = sqrt(D / k) u_S, cut to the norm C
        x       = v / z rounded at random, z = C / ceil(sqrt(k)); its norm is at most `sensitivity`
        symbol  = x + Skellam noise, modulo 2^m
        value   = sqrt(D / k) z symbol on S, 0 elsewhere

    Without clipping and noise unbiased. Everything is known beforehand but the symbols, and sums of symbols are
    symbols of sums: a server can add up what it cannot read. They have m bits each and no entropy code.

    Attributes:
        keep: k.
        clip: C.
        senders: n, how many messages are added up at most; their sum fits into m bits.
        bits: m, up to 31.
        noise: variance of a client's noise, in steps of the grid.
        secret: whether the noise comes from the operating system. With False anybody who knows the seed can
            repeat it, as a simulation must.

    >>> scheme, address = Additive(keep=2, clip=1.0, senders=10, bits=8), Address(seed=0, step=1, client=7)
    >>> encoded = scheme.encode([0.5, -4.0, 0.0, 2.0], address)
    >>> len(encoded.payload), float(np.linalg.norm(scheme.decode(encoded, 4, address)).round(2)) <= 2
    (2, True)
    """

    keep: Annotated[int, limited(1, MAX_DIM)]
    clip: Positive
    senders: Count
    bits: Annotated[int, limited(1, 31)]
    noise: NonNegative = 0.0
    secret: bool = field(default=False, repr=False, compare=False)

    name: ClassVar[str] = "additive"
    unbiased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.noise <= MAX_VARIANCE, "noise", f"must be at most {MAX_VARIANCE:g}", self.noise)
        rule = f"must hold sums of {self.senders} messages, so it must be at least {self.least_bits}"
        require(self.bits >= self.least_bits, "bits", rule, self.bits)

    @property
    def levels(self) -> int:
        """C / z: the norm of a clipped update in steps of the grid."""
        return math.isqrt(self.keep - 1) + 1

    @property
    def least_bits(self) -> int:
        """The least m at which a coordinate of every message may be 1."""
        return bits_for(1, self.senders, self.noise)

    @property
    def largest(self) -> int:
        """The largest size of a coordinate before noise, in steps of the grid: n of them fit."""
        return ((1 << (self.bits - 1)) - 1 - _noise_room(self.senders, self.noise)) // self.senders

    @property
    def sensitivity(self) -> int:
        """The largest sum of squares of x, whatever the update is; its root is the l2 sensitivity."""
        spread = math.sqrt(2 * math.log(1 / _RARE)) * (self.levels + math.sqrt(self.keep) / 2)
        return math.floor(self.levels**2 + self.keep / 4 + spread)

    def longest_sum(self, messages: int) -> float:
        """The norm of a sum of so many messages, in steps of the grid, that honest ones do not exceed.

        >>> Additive(keep=4, clip=1.0, senders=10, bits=8).longest_sum(10) < 10 * 2**7
        True
        """
        return messages * math.sqrt(self.sensitivity) + 6 * math.sqrt(self.keep * messages * self.noise)

    def check(self, dim: int) -> None:
        """There must be k coordinates."""
        super().check(dim)
        require(self.keep <= dim, "keep", f"must be at most the {dim} coordinates", self.keep)

    def support(self, dim: int, address: Address) -> Array:
        """S_t: which coordinates are sent, [k], ascending."""
        drawn = words(
            stream_key(address.seed, address.step, _EVERYONE, Purpose.SUPPORT),
            np.arange(dim, dtype=np.uint32),
        )
        order = namespace(drawn).argsort(drawn, stable=True)[: self.keep]
        return namespace(order).sort(order)

    def rounded(self, updates: Array, address: Address) -> Array:
        """x, [n, k]: what is sent before noise."""
        xp, stretch = namespace(updates), np.float32(math.sqrt(updates.shape[1] / self.keep))
        kept = updates[:, self.support(updates.shape[1], address)]
        norms = xp.maximum(block_norms(kept), np.float32(self.clip) / stretch)
        draws = stream_draws(address.key(Purpose.ROUND))(0, self.keep)
        made = signed_symbols(kept, norms, draws, self.levels)
        down = signed_symbols(kept, norms, xp.ones_like(draws), self.levels)
        fits = (made * made).sum(-1, keepdims=True) <= self.sensitivity
        return xp.where(fits, made, down).clip(-self.largest, self.largest)

    def symbols(self, updates: Array, address: Address) -> Array:
        """What is sent, [n, k]: whole numbers that may be negative."""
        made = self.rounded(updates, address)
        if not self.noise:
            return made
        if self.secret:
            return made + secret_skellam(made.size, self.noise).reshape(made.shape)
        return made + skellam(address.key(Purpose.NOISE), self.keep, self.noise)

    def residues(self, update: Any, address: Address) -> Residues:
        """The symbols of one client modulo 2^m, [k]."""
        made = self.symbols(vector(update, self)[None], address)[0].astype(np.uint32)
        return np.asarray(made & np.uint32(2**self.bits - 1), np.uint32)

    def lift(self, residues: Array) -> Array:
        """The whole numbers from -2^(m-1) to 2^(m-1) - 1 that these are modulo 2^m."""
        shift = np.int32(32 - self.bits)
        return (residues.astype(np.int32) << shift) >> shift

    def values(self, symbols: Array, dim: int, address: Address) -> Array:
        """The vectors [n, dim] of symbols, or of sums of them, [n, k]."""
        stretch = np.float32(math.sqrt(dim / self.keep))
        values = symbol_values(symbols, np.float32(self.clip) * stretch, self.levels)
        return put(values, self.support(dim, address)[None], dim)

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes; every message has the same number of bits."""
        xp, symbols = namespace(updates), self.symbols(updates, address)
        lifted = self.lift(symbols.astype(np.uint32))
        each = np.float32(8 * self.payload_bytes)
        return self.values(lifted, updates.shape[1], address), xp.full(updates.shape[0], each, np.float32)

    @property
    def payload_bytes(self) -> int:
        """Length of every payload."""
        return -(-self.keep * self.bits // 8)

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """The symbols, m bits each."""
        return Encoded(self.write(self.residues(update, address)))

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The update, or `WireError`."""
        require_no_tail(encoded)
        made: Vector = self.values(self.lift(self.read(encoded.payload))[None], dim, address)[0]
        return made

    def write(self, residues: Residues) -> bytes:
        """k numbers below 2^m as bytes: m bits each, the lowest first."""
        columns = np.unpackbits(residues.astype("<u4").view(np.uint8), bitorder="little").reshape(-1, 32)
        return np.packbits(columns[:, : self.bits].ravel(), bitorder="little").tobytes()

    def read(self, payload: bytes) -> Residues:
        """The inverse of `write`, or `WireError`."""
        require_length(payload, self.payload_bytes)
        bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
        if bits[self.keep * self.bits :].any():
            raise WireError("payload: bits behind the last coordinate")
        columns = np.zeros((self.keep, 32), np.uint8)
        columns[:, : self.bits] = bits[: self.keep * self.bits].reshape(self.keep, self.bits)
        return np.packbits(columns, axis=1, bitorder="little").view("<u4").ravel().astype(np.uint32)


def bits_for(largest: int, senders: int, noise: float = 0.0) -> int:
    """m at which `senders` coordinates of this size can be added up, with noise of this variance each.

    >>> bits_for(largest=3, senders=10)
    6
    """
    return (senders * largest + _noise_room(senders, noise)).bit_length() + 1


def _noise_room(senders: int, noise: float) -> int:
    return math.ceil(_ROOM * math.sqrt(senders * noise))
