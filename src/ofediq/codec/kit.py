"""What authors of schemes build with: blocks, norms, symbols, draws, models, stacks, and counts of bits.

>>> import numpy as np
>>> rows = np.array([[3.0, -4.0]], np.float32)
>>> symbols = signed_symbols(rows, block_norms(rows), np.full((1, 2), 0.5, np.float32), levels=5)
>>> symbols, symbol_values(symbols, block_norms(rows), levels=5)
(array([[ 3, -4]], dtype=int32), array([[ 3., -4.]], dtype=float32))
"""

from ofediq.codec.arithmetic import (
    MAX_LEVELS,
    MAX_NORM,
    TINY,
    block_maxima,
    block_norms,
    row_means,
    short_norms,
    signed_symbols,
    stochastic_levels,
    symbol_values,
)
from ofediq.codec.blocks import Run, block_layout
from ofediq.codec.draws import Rng, Source, stream_draws
from ofediq.codec.entropy import decode_entropy, encode_entropy, pop_symbols, push_symbols
from ofediq.codec.norms import norm_bytes, norm_classes, norms_from_bytes
from ofediq.codec.packed import (
    digit_bytes,
    fixed_bytes,
    pack,
    pack_digits,
    packed_payload_bytes,
    packed_symbol_bytes,
    unpack,
    unpack_digits,
)
from ofediq.codec.quantizer import block_symbols, rotated_blocks
from ofediq.codec.rotated import (
    CENTROIDS,
    DITHER_STEPS,
    ROTATIONS,
    rotated_levels,
    rotated_symbols,
    rotated_values,
)
from ofediq.codec.rotation import rotate_rows, rotate_rows_back, rotation_blocks
from ofediq.codec.schemes.additive import bits_for
from ofediq.codec.schemes.blockwise import Blockwise
from ofediq.codec.schemes.grid import grid_bits
from ofediq.codec.schemes.scheme import (
    UsualScheme,
    decode_each,
    read_floats,
    read_norms,
    require_length,
    require_signal,
    write_floats,
)
from ofediq.codec.schemes.sparse import largest, position_bits
from ofediq.codec.sizes import class_bits, class_counts, payload_bits, symbol_bits
from ofediq.codec.stack import Stack
from ofediq.codec.tables import magnitude_classes, read_model
from ofediq.codec.values import block_values, rotated_block_values

__all__ = [
    "CENTROIDS",
    "DITHER_STEPS",
    "MAX_LEVELS",
    "MAX_NORM",
    "ROTATIONS",
    "TINY",
    "Blockwise",
    "Rng",
    "Run",
    "Source",
    "Stack",
    "UsualScheme",
    "bits_for",
    "block_layout",
    "block_maxima",
    "block_norms",
    "block_symbols",
    "block_values",
    "class_bits",
    "class_counts",
    "decode_each",
    "decode_entropy",
    "digit_bytes",
    "encode_entropy",
    "fixed_bytes",
    "grid_bits",
    "largest",
    "magnitude_classes",
    "norm_bytes",
    "norm_classes",
    "norms_from_bytes",
    "pack",
    "pack_digits",
    "packed_payload_bytes",
    "packed_symbol_bytes",
    "payload_bits",
    "pop_symbols",
    "position_bits",
    "push_symbols",
    "read_floats",
    "read_model",
    "read_norms",
    "require_length",
    "require_signal",
    "rotate_rows",
    "rotate_rows_back",
    "rotated_block_values",
    "rotated_blocks",
    "rotated_levels",
    "rotated_symbols",
    "rotated_values",
    "rotation_blocks",
    "row_means",
    "short_norms",
    "signed_symbols",
    "stochastic_levels",
    "stream_draws",
    "symbol_bits",
    "symbol_values",
    "unpack",
    "unpack_digits",
    "write_floats",
]
