"""What travels between server and clients, byte for byte. No I/O here; `docs/federation.md` has the tables.

Topics, below the federation's name:

    task             server, retained   JSON: model, method, seed. What a client must know before it starts.
    model            server, retained   the common model of the open round.
    d                server             instead: how it differs from that of the round before. Not acknowledged.
    whole/<name>     server             the common model, for a client that lacks what a difference is added to, or
                                        all differences that it missed if they are shorter.
    welcome/<name>   server             JSON: the client's number.
    here/<name>      client, retained   JSON: connected or not; the broker's last will says "not".
    u/<name>         client             an update, or a report without one.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ofediq.codec import Encoded, open_frame, pack_frame
from ofediq.errors import InputError, WireError
from ofediq.federation.protocol.reports import REPORT_BYTES, Report
from ofediq.methods.client import Down

PROTOCOL = 5
"""Version of everything in this module; both sides refuse another one."""

_MAGIC = b"OM"
_MODEL = struct.Struct("<2sBBQQI")
_SHORT = struct.Struct("<BHHI")  # a difference: flags, low bits of step and clients, checksum
_KNOWN = struct.Struct("<QQIB")  # what its checksum covers beside the rest: epoch, step, clients, flags
_STEP = struct.Struct("<H")
_LENGTH = struct.Struct("<I")
_FINAL, _APART = 1, 2  # flags of a model: learning is over; it is not in this message
_DIFFERENCE, _TAIL = 0x80, 1  # flags of a difference; no whole model begins with such a byte
_CHAIN = b"\x7e"  # what several differences begin with; no other broadcast does
_LOW = 2**16
_REPORTED, _STEPS = 2**15, 2**15  # a flag beside the step's low bits

MAX_JSON = 65536

Near = tuple[int, int, int]
"""Epoch, step and clients of the round that a receiver has open."""


class LostError(WireError):
    """A difference from a model that the receiver does not have, or a damaged one: it has to ask for the whole."""


@dataclass(frozen=True)
class Publish:
    """A message to be sent: the protocol's cores return these, a link carries them out.

    Attributes:
        topic: with the federation's name.
        payload: its bytes.
        retain: whether the broker keeps it for those who come later.
        acknowledged: whether the broker and each receiver confirm it (QoS 1), six bytes each; who misses one that
            they do not confirm must be able to tell.
    """

    topic: str
    payload: bytes
    retain: bool = False
    acknowledged: bool = True


@dataclass(frozen=True, eq=False)
class ModelMessage:
    """The broadcast that opens a round.

    Attributes:
        epoch: start of the server's process, in nanoseconds. A restarted server has a later one.
        step: t, at which the round's updates are sent: the last of its `period` steps.
        clients: K.
        down: the model and what goes with it.
        final: whether learning is over: the model is there to predict with.
        counted: numbers of the clients whose updates counted in the round before, ascending; None for methods whose
            clients need no such receipt.
        difference: instead of the model, which is empty then: what a `Broadcast` adds to that of the round before.
            Of a round that is over by then nothing is read.
    """

    epoch: int
    step: int
    clients: int
    down: Down
    final: bool = False
    counted: tuple[int, ...] | None = None
    difference: Encoded | None = None

    def encode(self, difference: Encoded | None = None, *, apart: bool = False) -> bytes:
        """24 bytes, the numbers beside the model in the order of their names, the model and other vectors, receipts.

        With a `difference` the head has 9 bytes: whoever has something to add it to knows the rest, and the checksum
        covers that as well. It stands in place of the model, at the end; before receipts with its length. A model
        that lies `apart` is left out.

        >>> one = ModelMessage(7, 3, 20, Down(np.array([0.5, -1.0], np.float32), {}, {"z": np.float32(2)}))
        >>> len(one.encode()), ModelMessage.decode(one.encode(), 2, (), ("z",)).step
        (36, 3)
        >>> short = one.encode(Encoded(b"move"))
        >>> len(short), ModelMessage.decode(short, 2, (), ("z",), near=(7, 2, 19)).clients
        (17, 20)
        """
        numbers = [self.down.scalars[name] for name in sorted(self.down.scalars)]
        vectors = [self.down.vectors[name] for name in sorted(self.down.vectors)]
        parts = [np.asarray(numbers, "<f4")]
        parts += [np.asarray(self.down.model, "<f4")] if difference is None and not apart else []
        body = b"".join(part.tobytes() for part in [*parts, *(np.asarray(one, "<f4") for one in vectors)])
        receipts = b"" if self.counted is None else write_receipts(self.counted, self.clients)
        if difference is None:
            flags = self.final * _FINAL | apart * _APART
            return _MODEL.pack(_MAGIC, PROTOCOL, flags, self.epoch, self.step, self.clients) + body + receipts
        flags = _DIFFERENCE | (_TAIL if difference.tail else 0)
        body += bytes([difference.tail]) if difference.tail else b""
        body += b"" if self.counted is None else _LENGTH.pack(len(difference.payload))
        body += difference.payload + receipts
        checksum = self._checksum(flags, body)
        return _SHORT.pack(flags, self.step % _LOW, self.clients % _LOW, checksum) + body

    @classmethod
    def decode(
        cls,
        data: bytes,
        dim: int,
        vectors: tuple[str, ...] = (),
        scalars: tuple[str, ...] = (),
        receipts: bool = False,
        near: Near | None = None,
    ) -> ModelMessage:
        """The message in `data`, which holds vectors and numbers of these names, maybe receipts; or `WireError`.

        A difference is understood by those who know epoch, step and clients of the round before: `near`.
        """
        one = cls._headed(data, near)
        short = one.difference is not None
        if short and near is not None and one.step <= near[1]:
            return one
        here = not short and not data[3] & _APART
        start, count = (_SHORT.size if short else _MODEL.size), len(scalars) + dim * (here + len(vectors))
        end, difference = start + 4 * count, None
        if short:
            difference, end = _read_difference(data, end, receipts)
        if len(data) < end or (len(data) > end and not receipts):
            raise WireError(f"model: {len(data) - start} bytes where {end - start} belong")
        values = np.frombuffer(data, "<f4", count, start).astype(np.float32)
        if one.clients < 1 or np.isnan(values).any() or not np.isfinite(values[len(scalars) :]).all():
            raise WireError("model: number of clients or a value out of range")
        numbers = dict(zip(sorted(scalars), values, strict=False))
        rows = values[len(scalars) :].reshape(-1, dim)
        model = rows[0] if here else np.zeros(0, np.float32)
        down = Down(model, dict(zip(sorted(vectors), rows[int(here) :], strict=True)), numbers)
        counted = read_receipts(data[end:], one.clients) if receipts else None
        return replace(one, down=down, counted=counted, difference=difference)

    @classmethod
    def _headed(cls, data: bytes, near: Near | None) -> ModelMessage:
        """What the head says; `difference` is not None if it is that of one."""
        empty = Down(np.zeros(0, np.float32), {}, {})
        if is_difference(data):
            if near is None or len(data) < _SHORT.size:
                raise WireError("model: a difference, and nothing to add it to")
            flags, step, clients, checksum = _SHORT.unpack_from(data)
            epoch = near[0]
            step, clients = _nearest(step, near[1], _LOW), _nearest(clients, near[2], _LOW)
            if flags & ~(_DIFFERENCE | _TAIL) or step < 0 or clients < 0:
                raise WireError("model: a difference of no round that there was")
            one = cls(epoch, step, clients, empty, difference=Encoded(b""))
            if step > near[1] and checksum != one._checksum(flags, data[_SHORT.size :]):
                raise LostError("model: a difference from something else, or damaged")
            return one
        if len(data) < _MODEL.size:
            raise WireError(f"model: {len(data)} bytes are less than the header's {_MODEL.size}")
        magic, version, flags, epoch, step, clients = _MODEL.unpack_from(data)
        if magic != _MAGIC:
            raise WireError("model: it does not start with the magic bytes")
        if version != PROTOCOL:
            raise WireError(f"model: protocol {version}, this client speaks {PROTOCOL}")
        return cls(epoch, step, clients, empty, bool(flags & _FINAL))

    def _checksum(self, flags: int, body: bytes) -> int:
        """CRC-32 of a difference, and of what its head leaves out."""
        return zlib.crc32(body, zlib.crc32(_KNOWN.pack(self.epoch, self.step, self.clients, flags)))


def _read_difference(data: bytes, start: int, receipts: bool) -> tuple[Encoded, int]:
    """The difference that starts at `start`, and where it ends."""
    tail = data[start : start + 1] if data[0] & _TAIL else b""
    if data[0] & _TAIL and tail in (b"", b"\0"):
        raise WireError("model: the tail of a difference is missing")
    start, end = start + len(tail), len(data)
    if receipts:
        if end < start + _LENGTH.size:
            raise WireError("model: the length of a difference is missing")
        (size,) = _LENGTH.unpack_from(data, start)
        start, end = start + _LENGTH.size, start + _LENGTH.size + size
    return Encoded(data[start:end], tail[0] if tail else 0), max(start, end)


def _nearest(low: int, near: int, span: int) -> int:
    """The number nearest to `near` that has these low bits."""
    return near + (low - near + span // 2) % span - span // 2


def is_difference(data: bytes) -> bool:
    """Whether a broadcast holds a difference, from its first byte."""
    return bool(data[:1]) and bool(data[0] & _DIFFERENCE)


def write_chain(differences: Iterable[bytes]) -> bytes:
    """Differences of rounds that follow each other, in one message: a byte, then each with its length before it.

    >>> read_chain(write_chain([b"one", b"three"]))
    [b'one', b'three']
    """
    return _CHAIN + b"".join(_LENGTH.pack(len(one)) + one for one in differences)


def read_chain(data: bytes) -> list[bytes] | None:
    """The differences in a chain, None for any other broadcast; or `WireError`."""
    if data[:1] != _CHAIN:
        return None
    found, start = [], 1
    while start < len(data):
        if len(data) < start + _LENGTH.size:
            raise WireError("model: the length of a difference is missing")
        begin = start + _LENGTH.size
        start = begin + _LENGTH.unpack_from(data, start)[0]
        found.append(data[begin:start])
    if start > len(data):
        raise WireError("model: a chain of differences is cut off")
    return found


def write_receipts(counted: Sequence[int], clients: int) -> bytes:
    """Whose updates counted, of K = `clients`: a byte, then K bits or a list of numbers, whichever is shorter.

    >>> len(write_receipts([3], 1000)), len(write_receipts(range(1000), 1000))
    (3, 126)
    """
    numbers = np.asarray(counted, _number_type(clients))
    if numbers.nbytes <= (clients + 7) // 8:
        return b"\0" + numbers.tobytes()
    bits = np.zeros(clients, bool)
    bits[numbers] = True
    return b"\1" + np.packbits(bits, bitorder="little").tobytes()


def read_receipts(data: bytes, clients: int) -> tuple[int, ...]:
    """The inverse of `write_receipts`, or `WireError`.

    >>> read_receipts(write_receipts([0, 7, 8], 9), 9)
    (0, 7, 8)
    """
    kind, rest = data[:1], data[1:]
    if kind == b"\0" and len(rest) % _number_type(clients).itemsize == 0:
        numbers = np.frombuffer(rest, _number_type(clients)).astype(np.int64)
    elif kind == b"\1" and len(rest) == (clients + 7) // 8:
        numbers = np.flatnonzero(np.unpackbits(np.frombuffer(rest, np.uint8), bitorder="little"))
    else:
        raise WireError("model: its receipts are not understood")
    if (np.diff(numbers) <= 0).any() or (numbers >= clients).any():
        raise WireError("model: its receipts are out of order or range")
    return tuple(numbers.tolist())


def _number_type(clients: int) -> np.dtype[np.unsignedinteger[Any]]:
    return np.dtype("<u2" if clients <= 2**16 else "<u4")


class UpdateMessage(NamedTuple):
    """What a client says in a round: its messages unless it passes, and a report if it is time for one.

    Attributes:
        report: on its predictions; one without samples is left out.
        step: t of the round.
        body: the messages by the order of their names; empty if the client sends no update.
    """

    report: Report
    step: int
    body: bytes = b""

    def encode(self) -> bytes:
        """The step's low 15 bits with a flag, the report, body."""
        reported = self.report.samples > 0
        head = _STEP.pack(self.step % _STEPS | (_REPORTED if reported else 0))
        return head + (self.report.encode() if reported else b"") + self.body

    @classmethod
    def decode(cls, data: bytes, near: int) -> UpdateMessage:
        """The message in `data`, its body not looked at; or `WireError`. Its step is the nearest to `near`.

        >>> data = UpdateMessage(Report(1, 0.0, 1.0), 70_000, b"body").encode()
        >>> len(data), UpdateMessage.decode(data, near=69_990).step
        (10, 70000)
        """
        if len(data) < _STEP.size:
            raise WireError(f"update: {len(data)} bytes are less than {_STEP.size}")
        (low,) = _STEP.unpack_from(data)
        start, report = _STEP.size, Report()
        if low & _REPORTED:
            if len(data) < start + REPORT_BYTES:
                raise WireError(f"update: {len(data) - start} bytes of a report are less than {REPORT_BYTES}")
            report, start = Report.decode(data[start : start + REPORT_BYTES]), start + REPORT_BYTES
        return cls(report, _nearest(low, near, _STEPS), data[start:])


def write_body(messages: Mapping[str, Encoded], step: int) -> bytes:
    """The messages of one client, each in a short frame; more than one are announced with their lengths."""
    frames = [pack_frame(messages[name], step) for name in sorted(messages)]
    if len(frames) == 1:
        return frames[0]
    return b"".join(_LENGTH.pack(len(frame)) + frame for frame in frames)


def read_body(body: bytes, names: Iterable[str], step: int) -> dict[str, Encoded]:
    """The inverse of `write_body`, or `WireError`."""
    wanted, frames, expected = sorted(names), [], range(step, step + 1)
    if len(wanted) == 1:
        return {wanted[0]: open_frame(body, expected)[0]}
    while body:
        (size,) = _LENGTH.unpack_from(body) if len(body) >= _LENGTH.size else (2**32,)
        frames.append(body[_LENGTH.size : _LENGTH.size + size])
        body = body[_LENGTH.size + size :]
    if len(frames) != len(wanted):
        raise WireError(f"update: {len(frames)} messages where {len(wanted)} belong")
    return {name: open_frame(frame, expected)[0] for name, frame in zip(wanted, frames, strict=True)}


def write_json(**content: Any) -> bytes:
    """A JSON object with the protocol's version."""
    return json.dumps({"protocol": PROTOCOL, **content}, separators=(",", ":"), allow_nan=False).encode()


def read_json(kind: str, data: bytes) -> dict[str, Any]:
    """The JSON object in `data`, or `WireError`.

    >>> read_json("here", write_json(online=True))["online"]
    True
    >>> read_json("here", b"[1, 2]")
    Traceback (most recent call last):
    ofediq.errors.WireError: here: not a JSON object
    """
    if len(data) > MAX_JSON:
        raise WireError(f"{kind}: {len(data)} bytes are more than {MAX_JSON}")
    try:
        content = json.loads(data, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        raise WireError(f"{kind}: not JSON") from None
    if not isinstance(content, dict):
        raise WireError(f"{kind}: not a JSON object")
    if content.get("protocol") != PROTOCOL:
        raise WireError(f"{kind}: protocol {content.get('protocol')!r}, this side speaks {PROTOCOL}")
    return content


def _finite(text: str) -> float:
    """A number, or `ValueError`: JSON of a stranger may say Infinity, or 1e999."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def split_topic(topic: str, federation: str) -> tuple[str, str]:
    """Kind and client's name of a topic below `federation`; the name may be empty.

    >>> split_topic("greenhouse/u/c3", "greenhouse")
    ('u', 'c3')
    """
    prefix = federation + "/"
    if not topic.startswith(prefix):
        raise InputError(f"`topic` must start with {prefix!r}, got {topic!r}")
    kind, _, name = topic[len(prefix) :].partition("/")
    return kind, name
