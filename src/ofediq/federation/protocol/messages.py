"""What travels between server and clients, byte for byte. No I/O here; `docs/federation.md` has the tables.

Topics, below the federation's name:

    task             server, retained   JSON: model, method, seed. What a client must know before it starts.
    model            server, retained   the common model of the open round.
    welcome/<name>   server             JSON: the client's number.
    here/<name>      client, retained   JSON: connected or not; the broker's last will says "not".
    u/<name>         client             an update, or a report without one.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq import codec
from ofediq.codec import Message
from ofediq.errors import InputError, WireError

PROTOCOL = 1
"""Version of everything in this module; both sides refuse another one."""

_MAGIC = b"OM"
_MODEL = struct.Struct("<2sBBQQIf")
_REPORT = struct.Struct("<Hff")
_STEP = struct.Struct("<Q")
REPORT_BYTES = _REPORT.size
"""Ten bytes go with every update: how the client's predictions fared since its last one."""

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
        signal: the number that steers a budget, if the method has one.
        params: w, the common model.
        final: whether learning is over: the model is there to predict with.
    """

    epoch: int
    step: int
    clients: int
    signal: float | None
    params: npt.NDArray[np.float32]
    final: bool = False

    def encode(self) -> bytes:
        """28 bytes, then a codec frame.

        >>> one = ModelMessage(7, 3, 20, None, np.array([0.5, -1.0], np.float32))
        >>> len(one.encode()), ModelMessage.decode(one.encode(), 2).step
        (68, 3)
        """
        signal = math.nan if self.signal is None else self.signal
        head = _MODEL.pack(_MAGIC, PROTOCOL, self.final, self.epoch, self.step, self.clients, signal)
        return head + codec.encode(Message.raw(self.params, step=self.step), "raw")

    @classmethod
    def decode(cls, data: bytes, dim: int) -> ModelMessage:
        """The message in `data`, or `WireError`."""
        if len(data) < _MODEL.size:
            raise WireError(f"model: {len(data)} bytes are less than the header's {_MODEL.size}")
        magic, version, flags, epoch, step, clients, signal = _MODEL.unpack_from(data)
        if magic != _MAGIC:
            raise WireError("model: it does not start with the magic bytes")
        if version != PROTOCOL:
            raise WireError(f"model: protocol {version}, this client speaks {PROTOCOL}")
        params = codec.decode(data[_MODEL.size :], max_dim=dim).dequantize()
        if len(params) != dim:
            raise WireError(f"model: {len(params)} parameters, the task has {dim}")
        if clients < 1 or signal < 0:
            raise WireError("model: number of clients or signal out of range")
        return cls(epoch, step, clients, None if math.isnan(signal) else signal, params, bool(flags & 1))


@dataclass(frozen=True)
class Report:
    """How a client's predictions fared since its last report: their number, and sums of losses and errors."""

    samples: int = 0
    loss: float = 0.0
    error: float = 0.0

    def plus(self, loss: float, error: float) -> Report:
        """With one more prediction."""
        return Report(self.samples + 1, self.loss + loss, self.error + error)

    def split(self) -> tuple[Report, Report]:
        """What fits into one message, and the rest: a client may have been away for long."""
        if self.samples < 2**16:
            return self, Report()
        share = (2**16 - 1) / self.samples
        first = Report(2**16 - 1, self.loss * share, self.error * share)
        return first, Report(self.samples - first.samples, self.loss - first.loss, self.error - first.error)


@dataclass(frozen=True, eq=False)
class UpdateMessage:
    """What a client says in a round: a report, and the frame of its update unless it passes.

    Attributes:
        report: on its predictions.
        step: t of the round.
        frame: the codec's bytes; empty if the client sends no update.
    """

    report: Report
    step: int
    frame: bytes = b""

    def encode(self) -> bytes:
        """Report, then the frame (which holds the step), or the step alone."""
        report = _REPORT.pack(self.report.samples, self.report.loss, self.report.error)
        return report + (self.frame or _STEP.pack(self.step))

    @classmethod
    def decode(cls, data: bytes, max_dim: int) -> tuple[UpdateMessage, Message | None]:
        """The message and the update in its frame, or `WireError`.

        >>> frame = codec.encode(Message.raw([1.0], step=4, client=2), "raw")
        >>> data = UpdateMessage(Report(1, 0.5, 1.0), 4, frame).encode()
        >>> UpdateMessage.decode(data, 1)[1].client
        2
        """
        if len(data) < _REPORT.size + _STEP.size:
            raise WireError(f"update: {len(data)} bytes are less than {_REPORT.size + _STEP.size}")
        samples, loss, error = _REPORT.unpack_from(data)
        if not (math.isfinite(loss) and math.isfinite(error) and error >= 0):
            raise WireError("update: the report's loss or error is out of range")
        report = Report(samples, loss, error)
        rest = data[_REPORT.size :]
        if len(rest) == _STEP.size:
            return cls(report, _STEP.unpack(rest)[0]), None
        message = codec.decode(rest, max_dim=max_dim)
        return cls(report, message.step, rest), message


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
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise WireError(f"{kind}: not JSON") from None
    if not isinstance(content, dict):
        raise WireError(f"{kind}: not a JSON object")
    if content.get("protocol") != PROTOCOL:
        raise WireError(f"{kind}: protocol {content.get('protocol')!r}, this side speaks {PROTOCOL}")
    return content


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
