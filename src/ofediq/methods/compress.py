"""What a sender puts on the wire.

A compressor has two faces. `apply` works on many updates at once, in NumPy or inside the simulator's JAX code, and
returns what the server will decode; `message` makes the one real message of one client. Both take their draws from
(seed, step, client), so they agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ofediq import codec
from ofediq.arrays import Array, namespace
from ofediq.codec import (
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
from ofediq.errors import require_choice, require_integer
from ofediq.randomness import Purpose, stream_key, uniform
from ofediq.theory import quantizer_variance


class Compressor(Protocol):
    """From updates to what the server receives, with a count of bits.

    A compressor that is unbiased may also offer `variance(dim)`: sigma_q^2 with E||Q(u) - u||^2 <= sigma_q^2 ||u||^2
    for every update u of `dim` numbers. Without it no regret bound is claimed.
    """

    @property
    def coding(self) -> Coding:
        """How the codec writes a message: raw, packed or entropy."""

    def formula_bits(self, dim: int) -> float:
        """Bits of one message by the paper's formula."""

    def apply(
        self, updates: Array, seed: Array, step: Array, ids: Array, signal: Array = None
    ) -> tuple[Array, Array]:
        """What the server decodes from `updates` [n, dim] of clients `ids`, and bits of each payload, [n].

        `signal` is the number that the server broadcast with the model, in methods that are steered.
        """

    def message(
        self, update: npt.NDArray[np.float32], seed: int, step: int, client: int, signal: float | None = None
    ) -> Message:
        """The message of one client."""


@dataclass(frozen=True)
class Identity:
    """No compression: D numbers of 32 bits."""

    coding: Coding = "raw"

    def formula_bits(self, dim: int) -> float:
        """32 D."""
        return 32.0 * dim

    def variance(self, dim: int) -> float:
        """sigma_q^2 = 0: what arrives is what was sent."""
        return 0.0

    def apply(
        self, updates: Array, seed: Array, step: Array, ids: Array, signal: Array = None
    ) -> tuple[Array, Array]:
        """The updates themselves."""
        return updates, namespace(updates).full(updates.shape[0], np.float32(32 * updates.shape[1]))

    def message(
        self, update: npt.NDArray[np.float32], seed: int, step: int, client: int, signal: float | None = None
    ) -> Message:
        """A raw message."""
        return Message.raw(update, step=step, client=client)


@dataclass(frozen=True)
class Quantize:
    """The (s, b)-stochastic quantiser of Definition 2.

    Q(u)_i = ||u_block|| sign(u_i) m_i / s, where m_i is |u_i| s / ||u_block|| rounded at random to one of its two
    neighbours so that the mean is right. Unbiased; E||Q(u) - u||^2 <= min(c / s^2, sqrt(c) / s) ||u||^2 for
    blocks of c coordinates.
    """

    levels: int
    blocks: int
    coding: Coding = "packed"
    purpose: Purpose = field(default=Purpose.ROUND, repr=False)  # of the draws: up and down do not share them

    def formula_bits(self, dim: int) -> float:
        """32 b + D (1 + log2(s + 1))."""
        return 32.0 * self.blocks + dim * (1.0 + float(np.log2(self.levels + 1)))

    def variance(self, dim: int) -> float:
        """sigma_q^2 of Assumption 3, as Definition 2 proves it."""
        return quantizer_variance(self.levels, self.blocks, dim)

    def apply(
        self, updates: Array, seed: Array, step: Array, ids: Array, signal: Array = None
    ) -> tuple[Array, Array]:
        """Quantised updates; the bits are the exact packed size, or the ideal length of the entropy code."""
        xp = namespace(updates)
        clients, dim = updates.shape
        key = stream_key(seed, step, ids[:, None], self.purpose)
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

    def message(
        self, update: npt.NDArray[np.float32], seed: int, step: int, client: int, signal: float | None = None
    ) -> Message:
        """A quantised message."""
        key = stream_key(seed, step, client, self.purpose)
        return codec.quantize(
            update, levels=self.levels, blocks=self.blocks, rng=key, step=step, client=client
        )


@dataclass(frozen=True)
class Grid:
    """Round to one common grid: value_i = z m_i, where m_i is u_i / z rounded at random to a neighbouring integer.

    The grid's step z is the server's signal, the same for all clients and coordinates. Unbiased;
    E||Q(u) - u||^2 = z^2 sum f_i (1 - f_i) <= z ||u||_1, with f_i the fraction of |u_i| / z. No norms are sent,
    and a coordinate far below z costs almost nothing in the entropy code. Under a total number of bits, equal
    steps for all are what reverse water-filling asks for: bits go where the energy is, across clients and steps.

    The (s, b) message with s = 2^15, b = 1 and norm s z carries it. An update with a coordinate beyond 2^15 steps
    gets a coarser grid of its own: its norm is its largest coordinate.
    """

    coding: Coding = "entropy"

    def formula_bits(self, dim: int) -> float:
        """NaN: the paper's formula knows no such message; its bits are counted as they are on the wire."""
        return float("nan")

    def apply(
        self, updates: Array, seed: Array, step: Array, ids: Array, signal: Array = None
    ) -> tuple[Array, Array]:
        """Updates on the grid; the bits are the ideal length of the entropy code."""
        xp = namespace(updates)
        dim = updates.shape[1]
        key = stream_key(seed, step, ids[:, None], Purpose.ROUND)
        norms = xp.maximum(np.float32(MAX_LEVELS) * signal, abs(updates).max(-1))[:, None]
        rows = updates[:, None, :]
        draws = uniform(key, xp.arange(dim, dtype=np.uint32))[:, None, :]
        symbols = signed_symbols(rows, norms[..., None], draws, MAX_LEVELS)
        sent = symbol_values(symbols, norms[..., None], MAX_LEVELS)[:, 0]
        return sent, payload_bits(symbols[:, 0], norms, MAX_LEVELS)

    def message(
        self, update: npt.NDArray[np.float32], seed: int, step: int, client: int, signal: float | None = None
    ) -> Message:
        """A message with one norm, s z or the largest coordinate."""
        top = max(np.float32(MAX_LEVELS) * np.float32(signal), np.abs(update).max())
        norm = np.full((1, 1), top, np.float32)
        key = stream_key(seed, step, client, Purpose.ROUND)
        draws = uniform(key, np.arange(update.size, dtype=np.uint32))
        symbols = signed_symbols(update[None], norm, draws[None], MAX_LEVELS)[0]
        return Message(update.size, MAX_LEVELS, 1, symbols, norm[0], step=step, client=client)


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
    require_integer("levels", levels, 1, 2**15)
    require_integer("blocks", blocks, 1)
    require_choice("coding", coding, ("packed", "entropy"))
    return Quantize(levels, blocks, coding)


def grid() -> Grid:
    """Round to the common grid whose step the server broadcasts.

    >>> sent, bits = grid().apply(np.array([[0.5, -4.0]], np.float32), 0, 1, np.array([0]), np.float32(2.0))
    >>> float(sent[0, 1])
    -4.0
    """
    return Grid()
