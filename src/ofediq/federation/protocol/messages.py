"""What travels between server and clients, byte for byte. No I/O here; `docs/federation.md` has the tables.

Topics, below the federation's name:

    task             server, retained   JSON: model, method, seed. What a client must know before it starts.
    model            server, retained   the common model of the open round.
    delta            server             instead: how it differs from that of the round before.
    whole/<name>     server             the common model, for a client that lacks what a difference is added to.
    welcome/<name>   server             JSON: the client's number.
    here/<name>      client, retained   JSON: connected or not; the broker's last will says "not".
    u/<name>         client             an update, or a report without one.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.codec import Encoded, open_frame, pack_frame
from ofediq.errors import InputError, WireError
from ofediq.federation.protocol.reports import REPORT_BYTES, Report
from ofediq.methods.client import Down

PROTOCOL = 4
"""Version of everything in this module; both sides refuse another one."""

_MAGIC = b"OM"
_MODEL = struct.Struct("<2sBBQQI")
_STEP = struct.Struct("<H")
_LENGTH = struct.Struct("<I")
_DIFFERENCE = 2  # among the flags of a model
_REPORTED, _STEPS = 2**15, 2**15  # a flag beside the step's low bits

MAX_JSON = 65536


@dataclass(frozen=True)
class Publish:
    """A message to be sent: the protocol's cores return these, a link carries them out."""

    topic: str
    payload: bytes
    retain: bool = False


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
    """

    epoch: int
    step: int
    clients: int
    down: Down
    final: bool = False
    counted: tuple[int, ...] | None = None
    difference: bytes | None = None

    def encode(self, difference: bytes | None = None) -> bytes:
        """24 bytes, the numbers beside the model in the order of their names, the model and other vectors, receipts.

        With a `difference` its length and itself stand in place of the model, after everything else of fixed length.

        >>> one = ModelMessage(7, 3, 20, Down(np.array([0.5, -1.0], np.float32), {}, {"z": np.float32(2)}))
        >>> len(one.encode()), ModelMessage.decode(one.encode(), 2, (), ("z",)).step
        (36, 3)
        """
        flags = self.final | (0 if difference is None else _DIFFERENCE)
        head = _MODEL.pack(_MAGIC, PROTOCOL, flags, self.epoch, self.step, self.clients)
        numbers = [self.down.scalars[name] for name in sorted(self.down.scalars)]
        vectors = [self.down.vectors[name] for name in sorted(self.down.vectors)]
        parts = [np.asarray(numbers, "<f4")]
        parts += [np.asarray(self.down.model, "<f4")] if difference is None else []
        parts += [np.asarray(vector, "<f4") for vector in vectors]
        more = b"" if difference is None else _LENGTH.pack(len(difference)) + difference
        receipts = b"" if self.counted is None else write_receipts(self.counted, self.clients)
        return head + b"".join(part.tobytes() for part in parts) + more + receipts

    @classmethod
    def decode(
        cls,
        data: bytes,
        dim: int,
        vectors: tuple[str, ...] = (),
        scalars: tuple[str, ...] = (),
        receipts: bool = False,
    ) -> ModelMessage:
        """The message in `data`, which holds vectors and numbers of these names, maybe receipts; or `WireError`."""
        if len(data) < _MODEL.size:
            raise WireError(f"model: {len(data)} bytes are less than the header's {_MODEL.size}")
        magic, version, flags, epoch, step, clients = _MODEL.unpack_from(data)
        if magic != _MAGIC:
            raise WireError("model: it does not start with the magic bytes")
        if version != PROTOCOL:
            raise WireError(f"model: protocol {version}, this client speaks {PROTOCOL}")
        whole = not flags & _DIFFERENCE
        count = len(scalars) + dim * (whole + len(vectors))
        end, difference = _MODEL.size + 4 * count, None
        if not whole and len(data) >= end + _LENGTH.size:
            (size,) = _LENGTH.unpack_from(data, end)
            difference = data[end + _LENGTH.size : end + _LENGTH.size + size]
            end += _LENGTH.size + size
        if len(data) < end or (len(data) > end and not receipts) or whole != (difference is None):
            raise WireError(f"model: {len(data) - _MODEL.size} bytes where {end - _MODEL.size} belong")
        values = np.frombuffer(data, "<f4", count, _MODEL.size).astype(np.float32)
        if clients < 1 or np.isnan(values).any() or not np.isfinite(values[len(scalars) :]).all():
            raise WireError("model: number of clients or a value out of range")
        numbers = dict(zip(sorted(scalars), values, strict=False))
        rows = values[len(scalars) :].reshape(-1, dim)
        model = rows[0] if whole else np.zeros(0, np.float32)
        down = Down(model, dict(zip(sorted(vectors), rows[int(whole) :], strict=True)), numbers)
        counted = read_receipts(data[end:], clients) if receipts else None
        return cls(epoch, step, clients, down, bool(flags & 1), counted, difference)


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


@dataclass(frozen=True, eq=False)
class UpdateMessage:
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
        rest, report = data[_STEP.size :], Report()
        if low & _REPORTED:
            if len(rest) < REPORT_BYTES:
                raise WireError(f"update: {len(rest)} bytes of a report are less than {REPORT_BYTES}")
            report, rest = Report.decode(rest), rest[REPORT_BYTES:]
        step = near + (low - near + _STEPS // 2) % _STEPS - _STEPS // 2
        return cls(report, step, rest)


def write_body(messages: Mapping[str, Encoded], step: int) -> bytes:
    """The messages of one client, each in a short frame; more than one are announced with their lengths."""
    frames = [pack_frame(messages[name], step) for name in sorted(messages)]
    if len(frames) == 1:
        return frames[0]
    return b"".join(_LENGTH.pack(len(frame)) + frame for frame in frames)


def read_body(body: bytes, names: Iterable[str], step: int) -> dict[str, Encoded]:
    """The inverse of `write_body`, or `WireError`."""
    wanted, frames = sorted(names), []
    if len(wanted) == 1:
        frames = [body]
    while body and len(wanted) > 1:
        (size,) = _LENGTH.unpack_from(body) if len(body) >= _LENGTH.size else (2**32,)
        frames.append(body[_LENGTH.size : _LENGTH.size + size])
        body = body[_LENGTH.size + size :]
    if len(frames) != len(wanted):
        raise WireError(f"update: {len(frames)} messages where {len(wanted)} belong")
    expected = range(step, step + 1)
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
