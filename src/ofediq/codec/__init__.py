"""One update <-> bytes. NumPy and constriction only: this part runs on a small device, without JAX.

Both sides know the scheme; a message is a payload in a short frame:

>>> import numpy as np
>>> from ofediq.randomness import Address
>>> update = np.random.default_rng(1).standard_normal(1000)
>>> scheme, address = Quantized(levels=3, blocks=20, coding="entropy"), Address(seed=0, step=12, client=5)
>>> data = pack_frame(scheme.encode(update, address), step=12)
>>> encoded, step = open_frame(data, range(12, 13))
>>> received = scheme.decode(encoded, 1000, address)
>>> 8 * len(encoded.payload) < scheme.formula_bits(1000), len(data) - len(encoded.payload) <= FRAME_BYTES
(True, True)

A `Message` describes itself, for files:

    vector --quantize--> Message --encode--> bytes --decode--> Message --dequantize--> vector

>>> message = quantize(update, levels=3, blocks=20, rng=0, step=12, client=5)
>>> bool((decode(encode(message)).dequantize() == received).all())
True

The parts that authors of schemes build with are in `ofediq.codec.kit`.
"""

from ofediq.codec.frame import FRAME_BYTES, open_frame, pack_frame
from ofediq.codec.message import Message
from ofediq.codec.quantizer import quantize, quantize_rotated
from ofediq.codec.rotated import Rotation
from ofediq.codec.schemes import (
    Additive,
    Bucketed,
    Codebook,
    Eden,
    Encoded,
    Grid,
    Lattice,
    Quantized,
    Raw,
    Rotated,
    Rounded,
    Scheme,
    Signs,
    Sparse,
    SymbolCoding,
)
from ofediq.codec.wire import DEFAULT_MAX_DIM, HEADER_BYTES, Coding, decode, encode
from ofediq.errors import WireError

__all__ = [
    "DEFAULT_MAX_DIM",
    "FRAME_BYTES",
    "HEADER_BYTES",
    "Additive",
    "Bucketed",
    "Codebook",
    "Coding",
    "Eden",
    "Encoded",
    "Grid",
    "Lattice",
    "Message",
    "Quantized",
    "Raw",
    "Rotated",
    "Rotation",
    "Rounded",
    "Scheme",
    "Signs",
    "Sparse",
    "SymbolCoding",
    "WireError",
    "decode",
    "encode",
    "open_frame",
    "pack_frame",
    "quantize",
    "quantize_rotated",
]
