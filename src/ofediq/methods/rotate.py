"""Rotated quantisers at 1 to 4 bits as compressors. Not in the paper; `codec.rotated` has the equations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.codec import (
    ROTATIONS,
    Message,
    Rotation,
    block_layout,
    block_norms,
    payload_bits,
    quantize_rotated,
    rotated_levels,
    rotated_symbols,
    rotated_values,
    rotation_blocks,
)
from ofediq.errors import require_choice, require_integer
from ofediq.methods.compress import Compressor, Vector, rows_of
from ofediq.methods.pieces import piece
from ofediq.randomness import Address, Purpose, uniform, words

_SEED_BITS = 32  # the seed that goes with every rotated message


@piece
@dataclass(frozen=True)
class Rotate(Compressor):
    """A random rotation, then about `bits` bits per coordinate.

    Attributes:
        bits: 1 to 4.
        rotation: `dither`, exactly unbiased, or `nearest`, DRIVE's and EDEN's quantiser.
    """

    bits: int
    rotation: Rotation = "dither"
    coding = "entropy"

    def __post_init__(self) -> None:
        require_integer("bits", self.bits, 1, 4)
        require_choice("rotation", self.rotation, ROTATIONS[1:])

    @property
    def unbiased(self) -> bool:  # type: ignore[override]  # it depends on the rotation
        """Whether the mean of what is decoded is the update, for every update."""
        return self.rotation == "dither"

    def formula_bits(self, dim: int) -> float:
        """NaN: the paper's formula knows no such message; its bits are counted as they are on the wire."""
        return float("nan")

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes; the bits are the ideal length of the entropy code, seed included."""
        xp = namespace(updates)
        clients, dim = updates.shape
        index = xp.arange(dim, dtype=np.uint32)
        random_bits = words(rows_of(address).key(Purpose.ROTATE), index)
        draws = uniform(rows_of(address).key(Purpose.ROUND), index)
        runs = block_layout(dim, rotation_blocks(dim))
        levels = rotated_levels(runs[0].size, self.bits, self.rotation)
        values, symbols, norms = [], [], []
        for run in runs:
            rows, drawn = run.rows(updates), (run.rows(random_bits), run.rows(draws))
            column = block_norms(rows)
            signed, scales = rotated_symbols(rows, column, *drawn, levels, self.rotation)
            sent = rotated_values(signed, scales, *drawn, levels, self.rotation)
            values.append(sent.reshape(clients, -1))
            symbols.append(signed.reshape(clients, -1))
            norms.append(scales[..., 0])
        bits = payload_bits(xp.concatenate(symbols, axis=1), xp.concatenate(norms, axis=1), levels)
        return xp.concatenate(values, axis=1), bits + np.float32(_SEED_BITS)

    def message(self, update: Vector, address: Address, signal: float | None = None) -> Message:
        """A rotated message."""
        return quantize_rotated(
            update,
            bits=self.bits,
            seed=address.seed,
            rotation=self.rotation,
            step=address.step,
            client=address.client,
        )


def rotate(bits: int, rotation: Rotation = "dither") -> Rotate:
    """Rotate at random, then quantise to about `bits` bits per coordinate, from 1 to 4.

    >>> update = np.random.default_rng(0).standard_normal((1, 8192)).astype(np.float32)
    >>> sent, bits = rotate(2).apply(update, Address(0, 1, np.array([0])))
    >>> float(bits[0]) / 8192 < 2.05, float(((sent - update) ** 2).sum() / (update**2).sum()) < 0.12
    (True, True)
    """
    return Rotate(bits, rotation)
