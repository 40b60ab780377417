"""`bucketed`: QSGD's quantiser, a norm for every bucket of so many coordinates; Euclidean, or the largest size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from ofediq.arrays import Array
from ofediq.codec.arithmetic import MAX_LEVELS, block_maxima, block_norms
from ofediq.codec.blocks import MAX_DIM
from ofediq.codec.draws import stream_draws
from ofediq.codec.quantizer import block_symbols
from ofediq.codec.schemes.blockwise import Blockwise, SymbolCoding
from ofediq.codec.schemes.scheme import short_draws
from ofediq.randomness import Address, Purpose
from ofediq.settings import limited

BucketNorm = Literal["max", "euclidean"]
"""What a bucket is divided by: its largest size, or its Euclidean norm."""


@dataclass(frozen=True)
class Bucketed(Blockwise):
    """As `Quantized`, by the size of the blocks instead of their number, and with a choice of the norm.

        Q(u)_i = N sign(u_i) m_i / s,   m_i = |u_i| s / N rounded at random to a neighbour,   N = max |u_j| or ||u||

    Unbiased. With the largest size every level is used, and E||Q(u) - u||^2 <= c N^2 / (4 s^2) in a bucket of c.

    Attributes:
        levels: s, from 1 to 2^15.
        bucket: the most coordinates of a bucket; there are ceil(D / bucket), as equal as possible.
        norm: `max` or `euclidean`.
        coding: `packed` or `entropy`.
        norm_bits: 32 or 16.

    >>> scheme, address = Bucketed(levels=4, bucket=2), Address(seed=0, step=1, client=7)
    >>> encoded = scheme.encode([3.0, 0.0, -4.0, 2.0], address)
    >>> len(encoded.payload), scheme.decode(encoded, 4, address)
    (9, array([ 3.,  0., -4.,  2.], dtype=float32))
    """

    levels: Annotated[int, limited(1, MAX_LEVELS)]
    bucket: Annotated[int, limited(1, MAX_DIM)]
    norm: BucketNorm = "max"
    coding: SymbolCoding = "entropy"
    norm_bits: int = 32

    name: ClassVar[str] = "bucketed"
    unbiased: ClassVar[bool] = True

    def shape(self, dim: int) -> tuple[int, int]:
        """s and ceil(D / bucket)."""
        return self.levels, -(-dim // self.bucket)

    def formula_bits(self, dim: int) -> float:
        """32 for each bucket (or 16), and D (1 + log2(s + 1))."""
        return float(self.norm_bits * self.shape(dim)[1]) + dim * (1.0 + math.log2(self.levels + 1))

    def quantise(self, updates: Array, address: Address) -> tuple[Array, Array]:
        """Symbols and norms."""
        draws, short = stream_draws(address.key(Purpose.ROUND)), short_draws(address, self.norm_bits)
        norm = block_maxima if self.norm == "max" else block_norms
        return block_symbols(updates, draws, *self.shape(updates.shape[1]), short, norm)
