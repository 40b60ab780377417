"""One update <-> bytes. NumPy and constriction only: this part runs on a small device, without JAX.

    vector --quantize--> Message --encode--> bytes --decode--> Message --dequantize--> vector

>>> import numpy as np
>>> update = np.random.default_rng(1).standard_normal(1000)
>>> message = quantize(update, levels=3, blocks=20, rng=0, step=12, client=5)
>>> frame = encode(message, "entropy")
>>> received = decode(frame, max_dim=1000)
>>> bool((received.dequantize() == message.dequantize()).all())
True
>>> 8 * (len(frame) - HEADER_BYTES) < 32 * 20 + 1000 * (1 + np.log2(3 + 1))
np.True_
"""

from ofediq.codec.arithmetic import (
    MAX_LEVELS,
    MAX_NORM,
    block_norms,
    short_norms,
    signed_symbols,
    stochastic_levels,
    symbol_values,
)
from ofediq.codec.blocks import Run, block_layout
from ofediq.codec.draws import Rng
from ofediq.codec.message import Message
from ofediq.codec.norms import norm_classes
from ofediq.codec.packed import packed_payload_bytes
from ofediq.codec.quantizer import quantize, quantize_rotated
from ofediq.codec.rotated import (
    CENTROIDS,
    DITHER_STEPS,
    ROTATIONS,
    Rotation,
    rotated_levels,
    rotated_symbols,
    rotated_values,
)
from ofediq.codec.rotation import rotate_rows, rotate_rows_back, rotation_blocks
from ofediq.codec.sizes import class_bits, entropy_bits, payload_bits
from ofediq.codec.wire import DEFAULT_MAX_DIM, HEADER_BYTES, Coding, decode, encode
from ofediq.errors import WireError

__all__ = [
    "CENTROIDS",
    "DEFAULT_MAX_DIM",
    "DITHER_STEPS",
    "HEADER_BYTES",
    "MAX_LEVELS",
    "MAX_NORM",
    "ROTATIONS",
    "Coding",
    "Message",
    "Rng",
    "Rotation",
    "Run",
    "WireError",
    "block_layout",
    "block_norms",
    "class_bits",
    "decode",
    "encode",
    "entropy_bits",
    "norm_classes",
    "packed_payload_bytes",
    "payload_bits",
    "quantize",
    "quantize_rotated",
    "rotate_rows",
    "rotate_rows_back",
    "rotated_levels",
    "rotated_symbols",
    "rotated_values",
    "rotation_blocks",
    "short_norms",
    "signed_symbols",
    "stochastic_levels",
    "symbol_values",
]
