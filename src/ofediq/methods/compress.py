"""What a sender puts on the wire.

A compressor has two faces. `apply` works on many updates at once, in NumPy or inside the simulator's JAX code, and
returns what the server will decode; `encode` and `decode` are the one real message of one client. Both take their
draws from (seed, step, client), so they agree.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ofediq import codec
from ofediq.arrays import Array, namespace
from ofediq.codec import (
    HEADER_BYTES,
    MAX_LEVELS,
    Coding,
    Message,
    block_layout,
    block_norms,
    packed_payload_bytes,
    payload_bits,
    signed_symbols,
    symbol_values,
)
from ofediq.errors import WireError, require_choice, require_integer, require_positive
from ofediq.methods.loudness import best_spread, length, own_step
from ofediq.methods.pieces import piece
from ofediq.randomness import Address, Purpose, uniform
from ofediq.theory import quantizer_variance

Vector = npt.NDArray[np.float32]

_TINY = 2  # parameters up to which 32 bits for each are less than 17 and a norm


class Encoded(NamedTuple):
    """One message in bytes; the frame that carries it comes on top."""

    payload: bytes
    head: bytes = b""

    @property
    def bits(self) -> int:
        """Of the payload."""
        return 8 * len(self.payload)


class Compressor(abc.ABC):
    """From updates to what the server receives, with a count of bits.

    One that is unbiased may also offer `variance(dim)`: sigma_q^2 with E||Q(u) - u||^2 <= sigma_q^2 ||u||^2 for
    every update u of `dim` numbers. Without it no regret bound is claimed.

    Attributes:
        coding: how the codec writes a message: raw, packed or entropy.
        unbiased: whether the mean of what is decoded is the update, for every update.
        head: bytes of `Encoded.head`.
        signal: name of the broadcast number that it rounds to, see `Down.scalars`; None for none.
    """

    coding: Coding
    unbiased: bool = True
    head: int = HEADER_BYTES
    signal: str | None = None

    def check(self, dim: int) -> None:  # noqa: B027  # most work for every size
        """Raise `InputError` unless it works for vectors of `dim` coordinates."""

    @abc.abstractmethod
    def formula_bits(self, dim: int) -> float:
        """Bits of one message by the paper's formula; NaN if it knows no such message."""

    @abc.abstractmethod
    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes from `updates` [n, dim] of the clients at `address`, and payload bits, [n]."""

    @abc.abstractmethod
    def message(self, update: Vector, address: Address, signal: float | None = None) -> Message:
        """The message of one client."""

    def encode(self, update: Vector, address: Address, signal: float | None = None) -> Encoded:
        """The message of one client in bytes."""
        frame = codec.encode(self.message(update, address, signal), coding=self.coding)
        return Encoded(frame[HEADER_BYTES:], frame[:HEADER_BYTES])

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """What the server reads, or `WireError`."""
        message = codec.decode(encoded.head + encoded.payload, max_dim=dim)
        like = self.message(np.ones(dim, np.float32), address, signal)
        for name in ("dim", "levels", "blocks", "norm_bits", "rotation", "seed", "step", "client"):
            if getattr(message, name) != getattr(like, name):
                raise WireError(f"frame: its {name} is not {getattr(like, name)}")
        return message.dequantize()


@piece
@dataclass(frozen=True)
class Identity(Compressor):
    """No compression: D numbers of 32 bits."""

    coding = "raw"

    def formula_bits(self, dim: int) -> float:
        """32 D."""
        return 32.0 * dim

    def variance(self, dim: int) -> float:
        """sigma_q^2 = 0: what arrives is what was sent."""
        return 0.0

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """The updates themselves."""
        return updates, namespace(updates).full(updates.shape[0], np.float32(32 * updates.shape[1]))

    def message(self, update: Vector, address: Address, signal: float | None = None) -> Message:
        """A raw message."""
        return Message.raw(update, step=address.step, client=address.client)


@piece
@dataclass(frozen=True)
class Quantize(Compressor):
    """The (s, b)-stochastic quantiser of Definition 2.

    Q(u)_i = ||u_block|| sign(u_i) m_i / s, where m_i is |u_i| s / ||u_block|| rounded at random to one of its two
    neighbours so that the mean is right. Unbiased; E||Q(u) - u||^2 <= min(c / s^2, sqrt(c) / s) ||u||^2 for
    blocks of c coordinates.
    """

    levels: int
    blocks: int
    coding: Coding = "packed"
    purpose: Purpose = Purpose.ROUND  # of the draws: up and down do not share them

    def __post_init__(self) -> None:
        require_integer("levels", self.levels, 1, MAX_LEVELS)
        require_integer("blocks", self.blocks, 1)
        require_choice("coding", self.coding, ("packed", "entropy"))

    def check(self, dim: int) -> None:
        """A block has at least one coordinate."""
        require_integer("blocks", self.blocks, 1, dim)

    def formula_bits(self, dim: int) -> float:
        """32 b + D (1 + log2(s + 1))."""
        return 32.0 * self.blocks + dim * (1.0 + float(np.log2(self.levels + 1)))

    def variance(self, dim: int) -> float:
        """sigma_q^2 of Assumption 3, as Definition 2 proves it."""
        return quantizer_variance(self.levels, self.blocks, dim)

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """Quantised updates; the bits are the exact packed size, or the ideal length of the entropy code."""
        xp = namespace(updates)
        clients, dim = updates.shape
        key = rows_of(address).key(self.purpose)
        draws = uniform(key, xp.arange(dim, dtype=np.uint32))
        values, symbols, norms = [], [], []
        for run in block_layout(dim, self.blocks):
            rows = run.rows(updates)
            column = block_norms(rows)
            signed = signed_symbols(rows, column, run.rows(draws), self.levels)
            values.append(symbol_values(signed, column, self.levels).reshape(clients, -1))
            symbols.append(signed.reshape(clients, -1))
            norms.append(column[..., 0])
        sent = xp.concatenate(values, axis=1)
        if self.coding == "packed":
            bits = 8 * packed_payload_bytes(dim, self.levels, self.blocks)
            return sent, xp.full(clients, np.float32(bits))
        return sent, payload_bits(xp.concatenate(symbols, axis=1), xp.concatenate(norms, axis=1), self.levels)

    def message(self, update: Vector, address: Address, signal: float | None = None) -> Message:
        """A quantised message."""
        key = address.key(self.purpose)
        return codec.quantize(
            update, levels=self.levels, blocks=self.blocks, rng=key, step=address.step, client=address.client
        )


@piece
@dataclass(frozen=True)
class Grid(Compressor):
    """Round to one common grid: value_i = z m_i, where m_i is u_i / z rounded at random to a neighbouring integer.

    The grid's step z is the server's signal, the same for all clients and coordinates. Unbiased;
    E||Q(u) - u||^2 = z^2 sum f_i (1 - f_i) <= z ||u||_1, with f_i the fraction of |u_i| / z. No norms are sent,
    and a coordinate far below z costs almost nothing in the entropy code. Under a total number of bits, equal
    steps for all are what reverse water-filling asks for: bits go where the energy is, across clients and steps.

    The (s, b) message with s = 2^15, b = 1 and norm s z carries it. An update that is longer than the server can pay
    for gets a coarser grid of its own (`loudness.own_step`), and one with a coordinate beyond 2^15 steps has that
    coordinate as its norm. One or two parameters are sent as they are: that is shorter than a norm and symbols.

    Attributes:
        spread: norm of a sampled update in grid steps, as in `NormProportional`.
    """

    spread: float = best_spread()
    coding = "entropy"
    signal = "grid_step"

    def __post_init__(self) -> None:
        require_positive("spread", self.spread)

    def formula_bits(self, dim: int) -> float:
        """NaN: the paper's formula knows no such message; its bits are counted as they are on the wire."""
        return float("nan")

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """Updates on the grid; the bits are the ideal length of the entropy code."""
        xp = namespace(updates)
        dim = updates.shape[1]
        if dim <= _TINY:
            return Identity().apply(updates, address)
        key = rows_of(address).key(Purpose.ROUND)
        steps = own_step(length(updates), signal, self.spread)
        norms = xp.maximum(np.float32(MAX_LEVELS) * steps, abs(updates).max(-1))[:, None]
        rows = updates[:, None, :]
        draws = uniform(key, xp.arange(dim, dtype=np.uint32))[:, None, :]
        symbols = signed_symbols(rows, norms[..., None], draws, MAX_LEVELS)
        sent = symbol_values(symbols, norms[..., None], MAX_LEVELS)[:, 0]
        return sent, payload_bits(symbols[:, 0], norms, MAX_LEVELS)

    def message(self, update: Vector, address: Address, signal: float | None = None) -> Message:
        """A message with one norm, s z or the largest coordinate."""
        if update.size <= _TINY:
            return Identity().message(update, address)
        step = own_step(length(update), np.float32(signal), self.spread)
        top = max(np.float32(MAX_LEVELS) * step, np.abs(update).max())
        norm = np.full((1, 1), top, np.float32)
        key = address.key(Purpose.ROUND)
        draws = uniform(key, np.arange(update.size, dtype=np.uint32))
        symbols = signed_symbols(update[None], norm, draws[None], MAX_LEVELS)[0]
        return Message(update.size, MAX_LEVELS, 1, symbols, norm[0], step=address.step, client=address.client)

    def encode(self, update: Vector, address: Address, signal: float | None = None) -> Encoded:
        """The message of one client in bytes."""
        small = update.size <= _TINY
        return Identity().encode(update, address) if small else super().encode(update, address, signal)


@piece
@dataclass(frozen=True)
class KeepLargest(Compressor):
    """The k largest coordinates, positions and values as they are; of equals the first."""

    keep: int
    coding = "raw"
    unbiased = False
    head = 0

    def __post_init__(self) -> None:
        require_integer("keep", self.keep, 1)

    def check(self, dim: int) -> None:
        """It cannot keep more than there is."""
        require_integer("keep", self.keep, 1, dim)

    def formula_bits(self, dim: int) -> float:
        """NaN: the paper's formula knows no such message."""
        return float("nan")

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """All others become zero."""
        xp = namespace(updates)
        order = xp.argsort(-abs(updates), axis=-1, stable=True)[:, : self.keep]
        kept = xp.take_along_axis(updates, order, axis=-1)
        rows = xp.arange(updates.shape[0])[:, None]
        if hasattr(updates, "at"):
            sent = xp.zeros_like(updates).at[rows, order].set(kept)
        else:
            sent = xp.zeros_like(updates)
            sent[rows, order] = kept
        return sent, xp.full(updates.shape[0], np.float32(64 * self.keep))

    def message(self, update: Vector, address: Address, signal: float | None = None) -> Message:
        """Not an (s, b) message."""
        raise NotImplementedError

    def encode(self, update: Vector, address: Address, signal: float | None = None) -> Encoded:
        """Positions, then values."""
        order = np.sort(np.argsort(-abs(update), stable=True)[: self.keep])
        return Encoded(order.astype("<u4").tobytes() + update[order].astype("<f4").tobytes())

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """Zeros but for the kept ones."""
        if len(encoded.payload) != 8 * self.keep:
            raise WireError("sparse: the length is not what it must be")
        order = np.frombuffer(encoded.payload, "<u4", self.keep)
        values = np.frombuffer(encoded.payload, "<f4", self.keep, 4 * self.keep)
        if (np.diff(order.astype(np.int64)) <= 0).any() or order[-1] >= dim or not np.isfinite(values).all():
            raise WireError("sparse: positions out of order or out of range")
        sent = np.zeros(dim, np.float32)
        sent[order] = values
        return sent


def keep_largest(keep: int) -> KeepLargest:
    """Send the `keep` largest coordinates.

    >>> keep_largest(1).apply(np.array([[0.5, -4.0]], np.float32), Address(0, 1, np.array([0])))[0]
    array([[ 0., -4.]], dtype=float32)
    """
    return KeepLargest(keep)


def rows_of(address: Address) -> Address:
    """One stream per row: clients down the first axis, coordinates along the second."""
    return address._replace(client=address.client[:, None])


def identity() -> Identity:
    """Send the update as it is.

    >>> identity().formula_bits(34826)
    1114432.0
    """
    return Identity()


def quantize(levels: int, blocks: int, coding: Coding = "packed") -> Quantize:
    """The (s, b)-stochastic quantiser with s = `levels` and b = `blocks`.

    >>> quantize(levels=3, blocks=777).formula_bits(34826)
    129342.0
    """
    return Quantize(levels, blocks, coding)


def grid(spread: float | None = None) -> Grid:
    """Round to the common grid whose step the server broadcasts; `spread` as in `norm_proportional`.

    >>> from ofediq.methods.loudness import pack
    >>> update, address = np.array([[0.5, -4.0]], np.float32), Address(0, 1, np.array([0]))
    >>> sent, bits = grid().apply(update, address, pack(2.0))
    >>> float(sent[0, 1])
    -4.0
    """
    return Grid() if spread is None else Grid(float(spread))
