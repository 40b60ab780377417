"""A message <-> bytes: a header of 32 bytes, then the payload. Version 2; `docs/wire-format.md` has every byte."""

from __future__ import annotations

import struct
import zlib
from typing import Literal, NamedTuple, cast, get_args

import numpy as np

from ofediq.codec.blocks import MAX_DIM
from ofediq.codec.entropy import decode_entropy, encode_entropy
from ofediq.codec.message import Message
from ofediq.codec.norms import norm_bytes, norms_from_bytes
from ofediq.codec.packed import pack, packed_payload_bytes, unpack
from ofediq.codec.rotated import ROTATIONS, Rotation
from ofediq.errors import InputError, WireError, require, require_choice, require_integer

Coding = Literal["raw", "packed", "entropy"]
"""`raw`: float32 values. `packed`: a uniform code of the 2s+1 symbols. `entropy`: a code fitted to the message."""

CODINGS: tuple[str, ...] = get_args(Coding)

HEADER_BYTES = 32
"""Every frame starts with this many bytes; the rest is its payload."""

DEFAULT_MAX_DIM = 2**24
"""What `decode` accepts unless the receiver states another limit."""

_MAGIC = b"OQ"
_VERSION = 2
_SHORT_NORMS = 0x10  # added to the coding when norms have 16 bits
_FIELDS = struct.Struct("<2sBBHBBIIQI")
_CHECKSUM = struct.Struct("<I")
_SEED = struct.Struct("<I")  # before the payload of a rotated message


class _Header(NamedTuple):
    magic: bytes
    version: int
    coding: int
    levels: int
    tail: int
    rotation: int
    dim: int
    blocks: int
    step: int
    client: int


def encode(message: Message, coding: Coding = "entropy") -> bytes:
    """The frame of `message`.

    The payload of a quantised message, 8 * (len(frame) - 32) bits, never exceeds the paper's
    32 b + D (1 + log2(s + 1)) bits, with `packed` and with `entropy`: the latter sends the packed form whenever
    that is not larger. The four bytes of a rotated message's seed come on top.

    Args:
        message: what to send.
        coding: `raw` for float32 values (of a quantised message, the dequantised ones), `packed` or `entropy` for
            symbols and norms.

    >>> from ofediq.codec import quantize
    >>> message = quantize([0.5, -1.5, 0.0, 2.0], levels=3, blocks=1, seed=0, step=4, client=9)
    >>> len(encode(message, "packed")), len(encode(message, "raw"))
    (37, 48)
    >>> decode(encode(message)) == message
    True
    """
    require(isinstance(message, Message), "message", "must be a Message", type(message).__name__)
    require_choice("coding", coding, CODINGS)
    if coding == "raw":
        plain = message if message.is_raw else Message.raw(message.dequantize(), message.step, message.client)
        return _frame(plain, "raw", 0, plain.values.astype("<f4", copy=False).tobytes())
    require(not message.is_raw, "coding", "must be raw for a message that is not quantised", coding)
    size = packed_payload_bytes(message.dim, message.levels, message.blocks, message.norm_bits)
    if coding == "entropy":
        payload = encode_entropy(message.symbols, message.norms, message.levels, message.norm_bits)
        if len(payload) < size:
            return _frame(message, "entropy", 0, payload)
    packed, tail = pack(message.symbols, message.levels)
    return _frame(message, "packed", tail, norm_bytes(message.norms, message.norm_bits).tobytes() + packed)


def decode(data: bytes | bytearray | memoryview, max_dim: int = DEFAULT_MAX_DIM) -> Message:
    """The message in a frame. Bytes from a stranger do no harm: they give a valid message or `WireError`.

    Args:
        data: one whole frame, nothing before or after it.
        max_dim: the largest D that the receiver accepts. Memory stays below a fixed multiple of `max_dim` plus
            `len(data)`, whatever the bytes announce.

    Raises:
        WireError: with the reason.

    >>> decode(b"not a frame, but long enough to be one")
    Traceback (most recent call last):
    ofediq.errors.WireError: frame: it does not start with the magic bytes
    """
    max_dim = require_integer("max_dim", max_dim, 1, MAX_DIM)
    require(isinstance(data, bytes | bytearray | memoryview), "data", "must be bytes", type(data).__name__)
    header, payload = _open(bytes(data))
    if header.dim > max_dim:
        raise WireError(f"frame: dim {header.dim} is above the receiver's limit of {max_dim}")
    try:
        return _message(header, payload)
    except WireError:
        raise
    except InputError as error:  # a rule of Message is broken: the sender's fault, not the caller's
        raise WireError(f"frame: {error}") from None


def _frame(message: Message, coding: Coding, tail: int, payload: bytes) -> bytes:
    code = CODINGS.index(coding) + (_SHORT_NORMS if message.norm_bits == 16 else 0)
    shape = (message.levels, tail, ROTATIONS.index(message.rotation), message.dim, message.blocks)
    if message.rotation != "none":
        payload = _SEED.pack(message.seed) + payload
    head = _FIELDS.pack(*_Header(_MAGIC, _VERSION, code, *shape, message.step, message.client))
    return head + _CHECKSUM.pack(zlib.crc32(payload, zlib.crc32(head))) + payload


def _open(data: bytes) -> tuple[_Header, bytes]:
    """Header and payload of a frame that is whole."""
    if len(data) < HEADER_BYTES:
        raise WireError(f"frame: {len(data)} bytes are less than the header's {HEADER_BYTES}")
    head, payload = data[: _FIELDS.size], data[HEADER_BYTES:]
    header = _Header(*_FIELDS.unpack(head))
    if header.magic != _MAGIC:
        raise WireError("frame: it does not start with the magic bytes")
    if header.version != _VERSION:
        raise WireError(f"frame: version {header.version} is not supported, only {_VERSION}")
    if _CHECKSUM.unpack_from(data, _FIELDS.size)[0] != zlib.crc32(payload, zlib.crc32(head)):
        raise WireError("frame: the checksum does not match")
    return header, payload


def _message(header: _Header, payload: bytes) -> Message:
    """The message of a frame whose `dim` is acceptable. Lengths are checked before anything is allocated."""
    code = header.coding & ~_SHORT_NORMS
    norm_bits = 16 if header.coding & _SHORT_NORMS else 32
    if code >= len(CODINGS) or header.rotation >= len(ROTATIONS):
        raise WireError(f"frame: coding {header.coding} with rotation {header.rotation} is not known")
    coding = CODINGS[code]
    if header.tail and coding != "packed":
        raise WireError("frame: a tail where none belongs")
    if coding == "raw":
        if header.levels or header.blocks or norm_bits == 16 or header.rotation:
            raise WireError("frame: a raw message has no levels, blocks, short norms or rotation")
        _require_length(payload, 4 * header.dim)
        values = np.frombuffer(payload, "<f4").astype(np.float32)
        return Message(header.dim, 0, 0, values=values, step=header.step, client=header.client)
    seed, payload = _take_seed(payload) if header.rotation else (0, payload)
    shape = (header.dim, header.levels, header.blocks)
    size = packed_payload_bytes(*shape, norm_bits)  # refuses levels and blocks out of range
    if coding == "entropy":
        if len(payload) >= size:
            raise WireError("frame: the entropy-coded payload is not smaller than the packed one")
        symbols, norms = decode_entropy(payload, *shape, norm_bits)
    else:
        _require_length(payload, size)
        split = header.blocks * norm_bits // 8
        rows = np.frombuffer(payload, np.uint8, split).reshape(header.blocks, norm_bits // 8)
        norms = norms_from_bytes(rows, norm_bits)
        symbols = unpack(payload[split:], header.tail, header.dim, header.levels)
    return Message(
        *shape,
        symbols,
        norms,
        norm_bits=norm_bits,
        step=header.step,
        client=header.client,
        rotation=cast(Rotation, ROTATIONS[header.rotation]),
        seed=seed,
    )


def _take_seed(payload: bytes) -> tuple[int, bytes]:
    if len(payload) < _SEED.size:
        raise WireError("frame: a rotated message without a seed")
    return _SEED.unpack_from(payload)[0], payload[_SEED.size :]


def _require_length(payload: bytes, size: int) -> None:
    if len(payload) != size:
        raise WireError(f"frame: the payload has {len(payload)} bytes where {size} belong")
