"""What authors of schemes build with: blocks, norms, symbols, draws, models, stacks, and counts of bits.

>>> import numpy as np
>>> rows = np.array([[3.0, -4.0]], np.float32)
>>> symbols = signed_symbols(rows, block_norms(rows), np.full((1, 2), 0.5, np.float32), levels=5)
>>> symbols, symbol_values(symbols, block_norms(rows), levels=5)
(array([[ 3, -4]], dtype=int32), array([[ 3., -4.]], dtype=float32))
"""

from ofediq.codec.arithmetic import MAX_LEVELS as MAX_LEVELS
from ofediq.codec.arithmetic import MAX_NORM as MAX_NORM
from ofediq.codec.arithmetic import TINY as TINY
from ofediq.codec.arithmetic import block_maxima as block_maxima
from ofediq.codec.arithmetic import block_norms as block_norms
from ofediq.codec.arithmetic import row_means as row_means
from ofediq.codec.arithmetic import short_norms as short_norms
from ofediq.codec.arithmetic import signed_symbols as signed_symbols
from ofediq.codec.arithmetic import stochastic_levels as stochastic_levels
from ofediq.codec.arithmetic import symbol_values as symbol_values
from ofediq.codec.blocks import Run as Run
from ofediq.codec.blocks import block_layout as block_layout
from ofediq.codec.draws import Source as Source
from ofediq.codec.draws import stream_draws as stream_draws
from ofediq.codec.entropy import decode_entropy as decode_entropy
from ofediq.codec.entropy import encode_entropy as encode_entropy
from ofediq.codec.entropy import pop_symbols as pop_symbols
from ofediq.codec.entropy import push_symbols as push_symbols
from ofediq.codec.norms import norm_bytes as norm_bytes
from ofediq.codec.norms import norm_classes as norm_classes
from ofediq.codec.norms import norms_from_bytes as norms_from_bytes
from ofediq.codec.packed import digit_bytes as digit_bytes
from ofediq.codec.packed import fixed_bytes as fixed_bytes
from ofediq.codec.packed import pack as pack
from ofediq.codec.packed import pack_digits as pack_digits
from ofediq.codec.packed import packed_payload_bytes as packed_payload_bytes
from ofediq.codec.packed import packed_symbol_bytes as packed_symbol_bytes
from ofediq.codec.packed import unpack as unpack
from ofediq.codec.packed import unpack_digits as unpack_digits
from ofediq.codec.quantizer import block_symbols as block_symbols
from ofediq.codec.quantizer import rotated_blocks as rotated_blocks
from ofediq.codec.rotated import CENTROIDS as CENTROIDS
from ofediq.codec.rotated import DITHER_STEPS as DITHER_STEPS
from ofediq.codec.rotated import ROTATIONS as ROTATIONS
from ofediq.codec.rotated import rotated_levels as rotated_levels
from ofediq.codec.rotated import rotated_symbols as rotated_symbols
from ofediq.codec.rotated import rotated_values as rotated_values
from ofediq.codec.rotation import rotate_rows as rotate_rows
from ofediq.codec.rotation import rotate_rows_back as rotate_rows_back
from ofediq.codec.rotation import rotation_blocks as rotation_blocks
from ofediq.codec.schemes.additive import bits_for as bits_for
from ofediq.codec.schemes.blockwise import Blockwise as Blockwise
from ofediq.codec.schemes.grid import grid_bits as grid_bits
from ofediq.codec.schemes.scheme import read_floats as read_floats
from ofediq.codec.schemes.scheme import read_norms as read_norms
from ofediq.codec.schemes.scheme import require_length as require_length
from ofediq.codec.schemes.scheme import require_signal as require_signal
from ofediq.codec.schemes.scheme import write_floats as write_floats
from ofediq.codec.schemes.sparse import largest as largest
from ofediq.codec.schemes.sparse import position_bits as position_bits
from ofediq.codec.sizes import class_bits as class_bits
from ofediq.codec.sizes import class_counts as class_counts
from ofediq.codec.sizes import payload_bits as payload_bits
from ofediq.codec.sizes import symbol_bits as symbol_bits
from ofediq.codec.stack import Stack as Stack
from ofediq.codec.tables import magnitude_classes as magnitude_classes
from ofediq.codec.tables import read_model as read_model
from ofediq.codec.values import block_values as block_values
from ofediq.codec.values import rotated_block_values as rotated_block_values
from ofediq.lazy import public

__all__ = public(globals())
