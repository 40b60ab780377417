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

>>> message = quantize(update, levels=3, blocks=20, seed=0, step=12, client=5)
>>> bool((decode(encode(message)).dequantize() == received).all())
True

The parts that authors of schemes build with are in `ofediq.codec.kit`.
"""

from ofediq.codec.frame import FRAME_BYTES as FRAME_BYTES
from ofediq.codec.frame import open_frame as open_frame
from ofediq.codec.frame import pack_frame as pack_frame
from ofediq.codec.message import Message as Message
from ofediq.codec.quantizer import quantize as quantize
from ofediq.codec.quantizer import quantize_rotated as quantize_rotated
from ofediq.codec.rotated import Rotation as Rotation
from ofediq.codec.schemes import Additive as Additive
from ofediq.codec.schemes import Bucketed as Bucketed
from ofediq.codec.schemes import Codebook as Codebook
from ofediq.codec.schemes import Eden as Eden
from ofediq.codec.schemes import Encoded as Encoded
from ofediq.codec.schemes import Grid as Grid
from ofediq.codec.schemes import Lattice as Lattice
from ofediq.codec.schemes import Quantized as Quantized
from ofediq.codec.schemes import Raw as Raw
from ofediq.codec.schemes import Rotated as Rotated
from ofediq.codec.schemes import Rounded as Rounded
from ofediq.codec.schemes import Scheme as Scheme
from ofediq.codec.schemes import Signs as Signs
from ofediq.codec.schemes import Sparse as Sparse
from ofediq.codec.schemes import SymbolCoding as SymbolCoding
from ofediq.codec.wire import DEFAULT_MAX_DIM as DEFAULT_MAX_DIM
from ofediq.codec.wire import HEADER_BYTES as HEADER_BYTES
from ofediq.codec.wire import Coding as Coding
from ofediq.codec.wire import decode as decode
from ofediq.codec.wire import encode as encode
from ofediq.errors import WireError as WireError
from ofediq.lazy import public

__all__ = public(globals())
