"""The short frame of a live message: what its receiver does not know already.

    | flags | step | checksum | tail | payload |

    flags     1 byte   version 2 in the upper four bits; 1 if there is a tail
    step      2 bytes  the lowest 16 bits of the time step
    checksum  4 bytes  CRC-32 of the whole step (8 bytes), the flags, the tail, the payload
    tail      1 byte   if there is one: the last bits of a packed payload

The client is known by the topic, the scheme and all sizes by the task. A step that lies outside of what the receiver
expects is refused, and the checksum covers all of it, so that no frame is taken for one of 65,536 steps later.
"""

from __future__ import annotations

import struct
import zlib

from ofediq.codec.schemes.scheme import Encoded
from ofediq.errors import WireError, require, require_integer

FRAME_BYTES = 8
"""At most so many bytes stand beside the payload."""

_VERSION = 2
_HAS_TAIL = 1
_HEAD = struct.Struct("<BHI")
_STEP = struct.Struct("<QB")


def pack_frame(encoded: Encoded, step: int) -> bytes:
    """The frame of a message that was made at `step`.

    >>> data = pack_frame(Encoded(b"payload"), step=70000)
    >>> len(data), open_frame(data, range(69999, 70002))
    (14, (Encoded(payload=b'payload', tail=0), 70000))
    """
    require_integer("step", step, 0, 2**64 - 1)
    require(0 <= encoded.tail < 256, "tail", "must lie in [0, 255]", encoded.tail)
    flags = _VERSION << 4 | (_HAS_TAIL if encoded.tail else 0)
    body = (bytes([encoded.tail]) if encoded.tail else b"") + encoded.payload
    return _HEAD.pack(flags, step & 0xFFFF, frame_checksum(step, flags, body)) + body


def open_frame(data: bytes | bytearray | memoryview, steps: range) -> tuple[Encoded, int]:
    """The message in a frame and its step, or `WireError`.

    Args:
        data: one whole frame, nothing before or after it.
        steps: the steps that the receiver expects: consecutive, at most 65,536.
    """
    require(len(steps) <= 2**16 and steps.step == 1, "steps", "must be at most 65536 in a row", steps)
    if len(data) < _HEAD.size:
        raise WireError(f"frame: {len(data)} bytes are less than the header's {_HEAD.size}")
    flags, low, checksum = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]  # a payload may be long: it is copied once
    if flags >> 4 != _VERSION or flags & 0x0E:
        raise WireError(f"frame: version {flags >> 4} with flags {flags & 15} is not known")
    step = steps.start + (low - steps.start) % 2**16
    if step not in steps:
        raise WireError(f"frame: it is not of the steps {steps.start} to {steps.stop - 1}")
    if checksum != frame_checksum(step, flags, body):
        raise WireError("frame: the checksum does not match")
    if not flags & _HAS_TAIL:
        return Encoded(bytes(body)), step
    if not body or not body[0]:
        raise WireError("frame: the tail is missing")
    return Encoded(bytes(body[1:]), body[0]), step


def frame_checksum(step: int, flags: int, body: bytes | memoryview) -> int:
    """CRC-32 of what the frame says and of what it leaves out of the step."""
    return zlib.crc32(body, zlib.crc32(_STEP.pack(step, flags)))
