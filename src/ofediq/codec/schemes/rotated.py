"""`rotated`: a random rotation, then about 1 to 4 bits per coordinate. Not in the paper; `codec.rotated` explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ofediq.arrays import Array
from ofediq.codec.quantizer import rotated_blocks
from ofediq.codec.rotated import MAX_ROTATED_NORM, ROTATIONS, Rotation, rotated_levels
from ofediq.codec.rotation import rotation_blocks
from ofediq.codec.schemes.blockwise import Blockwise, SymbolCoding
from ofediq.codec.schemes.scheme import short_draws
from ofediq.codec.values import rotated_block_values
from ofediq.errors import require_choice, require_integer
from ofediq.randomness import Address


@dataclass(frozen=True)
class Rotated(Blockwise):
    """Rotate blocks of up to 2^13 coordinates at random, then round them.

    Both sides draw the rotation and the dither from the address, so nothing of them is sent.

    Attributes:
        bits: 1 to 4: bits per coordinate of the entropy-coded symbols of a Gaussian vector.
        rotation: `dither`, exactly unbiased, or `nearest`, DRIVE's and EDEN's quantiser.
        coding: how symbols are written.
        norm_bits: 32 or 16.

    >>> import numpy as np
    >>> update = np.random.default_rng(0).standard_normal((1, 8192)).astype(np.float32)
    >>> sent, bits = Rotated(bits=2).apply(update, Address(0, 1, np.array([0])))
    >>> float(bits[0]) / 8192 < 2.05, float(((sent - update) ** 2).sum() / (update**2).sum()) < 0.12
    (True, True)
    """

    bits: int
    rotation: Rotation = "dither"
    coding: SymbolCoding = "entropy"
    norm_bits: int = 32

    name: ClassVar[str] = "rotated"
    most_norm: ClassVar[float] = MAX_ROTATED_NORM

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("bits", self.bits, 1, 4)
        require_choice("rotation", self.rotation, ROTATIONS[1:])

    @property
    def unbiased(self) -> bool:
        """With dither."""
        return self.rotation == "dither"

    def shape(self, dim: int) -> tuple[int, int]:
        """The levels that give `bits`, and ceil(D / 2^13) blocks."""
        blocks = rotation_blocks(dim)
        return rotated_levels(-(-dim // blocks), self.bits, self.rotation), blocks

    def quantise(self, updates: Array, address: Address) -> tuple[Array, Array]:
        """Symbols and norms (or scales)."""
        levels, _ = self.shape(updates.shape[1])
        return rotated_blocks(updates, address, levels, self.rotation, short_draws(address, self.norm_bits))

    def values(self, symbols: Array, norms: Array, address: Address) -> Array:
        """Rotated back."""
        levels, _ = self.shape(symbols.shape[1])
        return rotated_block_values(symbols, norms, address, levels, self.rotation)
