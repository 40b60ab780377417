"""Hostile frames: valid ones, damaged in every way that a bug or an attacker could damage them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ofediq.codec import (
    HEADER_BYTES,
    Additive,
    Bucketed,
    Codebook,
    Coding,
    Eden,
    Grid,
    Lattice,
    Quantized,
    Raw,
    Rotated,
    Rotation,
    Rounded,
    Scheme,
    Signs,
    Sparse,
    decode,
    encode,
    open_frame,
    pack_frame,
    quantize,
    quantize_rotated,
)
from ofediq.codec.frame import frame_checksum
from ofediq.errors import InputError, WireError
from ofediq.randomness import Address

Seal: TypeAlias = Callable[[bytes], bytes]
"""Makes the checksum fit."""

MAX_DIM = 5000
"""The limit of the receiver under attack."""

CODINGS: tuple[Coding, ...] = ("raw", "packed", "entropy")
ROTATED: tuple[Rotation, ...] = ("dither", "nearest")

# Offset and format of each header field, without the checksum.
FIELDS = (
    (0, "H"),
    (2, "B"),
    (3, "B"),
    (4, "H"),
    (6, "B"),
    (7, "B"),
    (8, "I"),
    (12, "I"),
    (16, "Q"),
    (24, "I"),
)


def frames() -> list[bytes]:
    """Frames of all codings: one coordinate and thousands, few levels and many, zero blocks, both kinds of norms."""
    rng = np.random.default_rng(0)
    made = []
    for dim, levels, blocks in ((1, 1, 1), (40, 2**15, 3), (200, 3, 20), (1000, 1, 1), (4000, 17, 130)):
        values = rng.standard_normal(dim) * (np.arange(dim) % 97 > 30)
        for norm_bits in (16, 32):
            message = quantize(
                values, levels=levels, blocks=blocks, seed=1, norm_bits=norm_bits, step=9, client=4
            )
            made += [encode(message, coding) for coding in CODINGS]
    for dim, bits in ((1, 1), (70, 4), (3000, 2)):
        for rotation in ROTATED:
            rotated = quantize_rotated(
                rng.standard_normal(dim), bits=bits, seed=3, rotation=rotation, step=9, client=4
            )
            made += [encode(rotated, coding) for coding in CODINGS[1:]]
    return made


SCHEMES: tuple[Scheme, ...] = (
    Raw(),
    Quantized(levels=1, blocks=1),
    Quantized(levels=3, blocks=20, coding="entropy"),
    Quantized(levels=1, blocks=2, coding="entropy", norm_bits=16),
    Quantized(levels=2**15, blocks=3, norm_bits=16),
    Rotated(bits=1),
    Rotated(bits=4, rotation="nearest", coding="packed", norm_bits=16),
    Grid(),
    Bucketed(levels=7, bucket=16),
    Bucketed(levels=2, bucket=3, norm="euclidean", coding="packed", norm_bits=16),
    Codebook(length=2, bits=3, group=64),
    Eden(bits=0.1),
    Eden(bits=3, norm_bits=16),
    Lattice(bits=2),
    Lattice(bits=4, lattice="scalar"),
    Rounded(bits=1),
    Rounded(bits=5),
    Signs(),
    Signs(norm_bits=16),
    Sparse(keep=0.1),
    Sparse(keep=1, values=Signs()),
    Sparse(keep=0.3, values=Quantized(levels=3, blocks=1, coding="entropy", norm_bits=16)),
    Sparse(keep=0.5, values=Grid()),
    Sparse(keep=1.0, values=Quantized(levels=1, blocks=1)),
    Additive(keep=1, clip=1.0, senders=8, bits=5),
    Additive(keep=20, clip=1e-3, senders=1000, bits=17, noise=9.5),
)
"""Every scheme, in several settings."""

ADDRESS, STEPS = Address(seed=3, step=70_000, client=4), range(70_000, 70_002)


def suits(scheme: Scheme, dim: int) -> bool:
    """Whether the scheme works for so many coordinates."""
    try:
        scheme.check(dim)
    except InputError:
        return False
    return True


def live_frames() -> list[tuple[Scheme, int, float | None, bytes]]:
    """Short frames of every scheme, from one coordinate to thousands: (scheme, dim, signal, frame)."""
    rng, made = np.random.default_rng(1), []
    for scheme in SCHEMES:
        for dim in (1, 2, 20, 300, 4000):
            signals = (None,) if scheme.signal is None else (0.5, 1e-6)  # the last: a coarser grid of its own
            for signal in signals if suits(scheme, dim) else ():
                update = rng.standard_normal(dim) * (np.arange(dim) % 7 < 5)
                encoded = scheme.encode(update, ADDRESS, signal)
                made.append((scheme, dim, signal, pack_frame(encoded, ADDRESS.step)))
    return made


def sealed_live(frame: bytes) -> bytes:
    """The short frame with a checksum that fits."""
    if len(frame) < 7:
        return frame
    return frame[:3] + struct.pack("<I", frame_checksum(ADDRESS.step, frame[0], frame[7:])) + frame[7:]


def live_outcome(scheme: Scheme, dim: int, signal: float | None, data: bytes) -> str:
    """As `outcome`, for a short frame. What is accepted must be a sound update."""
    try:
        encoded, step = open_frame(data, STEPS)
        update = scheme.decode(encoded, dim, ADDRESS, signal)
    except WireError:
        return "refused"
    assert step in STEPS
    assert update.dtype == np.float32
    assert update.shape == (dim,)
    assert np.isfinite(update).all()
    return "accepted"


def sealed(frame: bytes) -> bytes:
    """The frame with a checksum that fits, as an attacker would send it."""
    if len(frame) < HEADER_BYTES:
        return frame
    head, payload = frame[: HEADER_BYTES - 4], frame[HEADER_BYTES:]
    return head + struct.pack("<I", zlib.crc32(payload, zlib.crc32(head))) + payload


def mutated(frame: bytes, rng: np.random.Generator, seal: Seal = sealed) -> bytes:
    """`frame` with one to four random changes; three times out of four the checksum fits again."""
    data = bytearray(frame)
    for _ in range(int(rng.integers(1, 5))):
        _change(data, rng)
    return seal(bytes(data)) if rng.random() < 0.75 else bytes(data)


def outcome(data: bytes) -> str:
    """`refused` or `accepted`. Other exceptions go through, and an accepted message must keep all promises."""
    try:
        message = decode(data, max_dim=MAX_DIM)
    except WireError:
        return "refused"
    assert message.dim <= MAX_DIM
    assert np.isfinite(message.dequantize()).all()
    coding: Coding = "raw" if message.is_raw else "packed"
    again = encode(message, coding)
    assert decode(again, max_dim=MAX_DIM) == message
    if data[3] & 0x0F != CODINGS.index("entropy"):
        assert again == data, "two frames for one message"
    return "accepted"


def _change(data: bytearray, rng: np.random.Generator) -> None:
    kind = int(rng.integers(8))
    position = int(rng.integers(len(data))) if data else 0
    if kind == 0 and len(data) >= HEADER_BYTES:  # a header field takes another value, often an extreme one
        offset, code = FIELDS[int(rng.integers(len(FIELDS)))]
        largest = 256 ** struct.calcsize("<" + code) - 1
        value = int(rng.choice([0, 1, 2, 3, 255, 4999, 5000, 5001, 2**15, 2**16, 2**31, 2**32 - 1, 2**63]))
        struct.pack_into("<" + code, data, offset, min(value, largest))
    elif kind == 1:  # the end is missing
        del data[position:]
    elif kind == 2:  # something follows
        data += rng.bytes(int(rng.integers(1, 9)))
    elif kind == 3 and data:  # a stretch is repeated or lost
        stretch = data[position : position + int(rng.integers(1, 33))]
        data[position : position + int(rng.integers(33))] = stretch
    elif kind == 4 and data:  # a stretch of one value
        data[position : position + int(rng.integers(1, 9))] = bytes([int(rng.choice([0, 127, 128, 255]))] * 8)
    elif data:  # one to eight bits flip
        for _ in range(int(rng.integers(1, 9))):
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
