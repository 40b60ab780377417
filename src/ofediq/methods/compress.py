"""What a sender puts on the wire.

A compressor has two faces. `apply` works on many updates at once, in NumPy or inside the simulator's JAX code, and
returns what the server will decode; `message` makes the one real message of one client. Both take their draws from
(seed, step, client), so they agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ofediq import codec
from ofediq.arrays import Array, namespace
from ofediq.codec import (
    Coding,
    Message,
    block_layout,
    packed_payload_bytes,
    payload_bits,
    signed_symbols,
    symbol_values,
)
from ofediq.errors import require_choice, require_integer
from ofediq.randomness import Purpose, stream_key, uniform


class Compressor(Protocol):
    """From updates to what the server receives, with a count of bits."""

    @property
    def coding(self) -> Coding:
        """How the codec writes a message: raw, packed or entropy."""

    def formula_bits(self, dim: int) -> float:
        """Bits of one message by the paper's formula."""

    def apply(self, updates: Array, seed: Array, step: Array, ids: Array) -> tuple[Array, Array]:
        """What the server decodes from `updates` [n, dim] of clients `ids`, and bits of each payload, [n]."""

    def message(self, update: npt.NDArray[np.float32], seed: int, step: int, client: int) -> Message:
        """The message of one client."""


@dataclass(frozen=True)
class Identity:
    """No compression: D numbers of 32 bits."""

    coding: Coding = "raw"

    def formula_bits(self, dim: int) -> float:
        """32 D."""
        return 32.0 * dim

    def apply(self, updates: Array, seed: Array, step: Array, ids: Array) -> tuple[Array, Array]:
        """The updates themselves."""
        return updates, namespace(updates).full(updates.shape[0], np.float32(32 * updates.shape[1]))

    def message(self, update: npt.NDArray[np.float32], seed: int, step: int, client: int) -> Message:
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

    def formula_bits(self, dim: int) -> float:
        """32 b + D (1 + log2(s + 1))."""
        return 32.0 * self.blocks + dim * (1.0 + float(np.log2(self.levels + 1)))

    def apply(self, updates: Array, seed: Array, step: Array, ids: Array) -> tuple[Array, Array]:
        """Quantised updates; the bits are the exact packed size, or the ideal length of the entropy code."""
        xp = namespace(updates)
        clients, dim = updates.shape
        key = stream_key(seed, step, ids[:, None], Purpose.ROUND)
        draws = uniform(key, xp.arange(dim, dtype=np.uint32))
        values, symbols, norms = [], [], []
        for run in block_layout(dim, self.blocks):
            rows = run.rows(updates)
            column = xp.sqrt((rows * rows) @ xp.ones((run.size, 1), np.float32))
            signed = signed_symbols(rows, column, run.rows(draws), self.levels)
            values.append(symbol_values(signed, column, self.levels).reshape(clients, -1))
            symbols.append(signed.reshape(clients, -1))
            norms.append(column[..., 0])
        sent = xp.concatenate(values, axis=1)
        if self.coding == "packed":
            bits = 8 * packed_payload_bytes(dim, self.levels, self.blocks)
            return sent, xp.full(clients, np.float32(bits))
        return sent, payload_bits(xp.concatenate(symbols, axis=1), xp.concatenate(norms, axis=1), self.levels)

    def message(self, update: npt.NDArray[np.float32], seed: int, step: int, client: int) -> Message:
        """A quantised message."""
        key = stream_key(seed, step, client, Purpose.ROUND)
        return codec.quantize(
            update, levels=self.levels, blocks=self.blocks, rng=key, step=step, client=client
        )


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
