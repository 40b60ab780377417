"""`quantized`: the (s, b)-stochastic quantiser of Definition 2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ofediq.arrays import Array
from ofediq.codec.arithmetic import MAX_LEVELS
from ofediq.codec.draws import stream_draws
from ofediq.codec.quantizer import block_symbols
from ofediq.codec.schemes.blockwise import Blockwise, SymbolCoding
from ofediq.codec.schemes.scheme import short_draws
from ofediq.randomness import Address, Purpose
from ofediq.settings import Count, limited


@dataclass(frozen=True)
class Quantized(Blockwise):
    """One norm per block and one symbol from -s to s per coordinate.

        Q(u)_i = ||u_block|| sign(u_i) m_i / s,   m_i = |u_i| s / ||u_block|| rounded at random to a neighbour

    so that the mean is right. E||Q(u) - u||^2 <= min(c / s^2, sqrt(c) / s) ||u||^2 for blocks of c coordinates.

    Attributes:
        levels: s, from 1 to 2^15.
        blocks: b, from 1 to D.
        coding: `packed`, never above the paper's formula and always of one size; or `entropy`, shorter.
        norm_bits: 32 as in the paper, or 16: norms rounded at random, again without bias.

    >>> scheme, address = Quantized(levels=5, blocks=2), Address(seed=0, step=1, client=7)
    >>> encoded = scheme.encode([3.0, 0.0, -4.0, 0.0], address)
    >>> len(encoded.payload), scheme.decode(encoded, 4, address)
    (9, array([ 3.,  0., -4.,  0.], dtype=float32))
    """

    levels: Annotated[int, limited(1, MAX_LEVELS)]
    blocks: Count
    coding: SymbolCoding = "packed"
    norm_bits: int = 32

    name: ClassVar[str] = "quantized"
    unbiased: ClassVar[bool] = True

    def shape(self, dim: int) -> tuple[int, int]:
        """s and b."""
        return self.levels, self.blocks

    def formula_bits(self, dim: int) -> float:
        """32 b + D (1 + log2(s + 1)), with 16 b for norms of 16 bits."""
        return float(self.norm_bits * self.blocks) + dim * (1.0 + math.log2(self.levels + 1))

    def quantise(self, updates: Array, address: Address) -> tuple[Array, Array]:
        """Symbols and norms."""
        draws, short = stream_draws(address.key(Purpose.ROUND)), short_draws(address, self.norm_bits)
        return block_symbols(updates, draws, self.levels, self.blocks, short)
