"""`Connection`: how many bytes a message costs on a client's socket, in both directions.

A fleet pays for everything that crosses its connections. Beside a payload these are, live over MQTT 3.1.1:

    up            a report (4 bytes) and the step (2), a frame (7), lengths of several (4), the topic, MQTT
    a model       a head (24), the topic, MQTT
    a difference  a head (9), its length (4) where receipts follow, the topic, MQTT

and for the first two a number in the packet (2) and an acknowledgement (4) in the other direction. Differences are
not acknowledged (QoS 0): who missed one sees it by the next, and asks.

The simulator counts with it, budgets of all bytes are planned with it, and a test holds it against what the kernel
counted on the sockets of a live federation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Floats
from ofediq.methods.composition import Method
from ofediq.methods.presets import federated
from ofediq.settings import Count, Ranged

REPORT, STEP, FRAME, LENGTH, HEAD, SHORT_HEAD, ACKNOWLEDGEMENT = 4, 2, 7, 4, 24, 9, 4


@dataclass(frozen=True)
class Connection(Ranged):
    """A client's connection to the broker; names are part of every topic.

    Attributes:
        federation: letters of the federation's name.
        client: letters of a client's name.
        passes: whether clients that have nothing to send say so, as they do live at full speed where nobody can know
            beforehand who sends. Where rounds follow a clock they are silent.
    """

    federation: Count = 8
    client: Count = 4
    passes: bool = False

    def update_bytes(self, method: Method, dim: int) -> int:
        """Bytes that a client's update costs beside its payload, acknowledged."""
        parts = len(method.client.sends(dim))
        body = parts * FRAME + (parts > 1) * parts * LENGTH
        return self._published(len("/u/") + self.client, REPORT + STEP + body) + ACKNOWLEDGEMENT

    def pass_bytes(self) -> int:
        """Bytes of a report without an update, acknowledged."""
        return self._published(len("/u/") + self.client, REPORT + STEP) + ACKNOWLEDGEMENT

    def broadcast_bytes(self, method: Method) -> int:
        """Bytes that a broadcast costs one client beside the payload."""
        if method.broadcast.exact:
            return self._published(len("/model"), HEAD) + ACKNOWLEDGEMENT
        head = SHORT_HEAD + LENGTH * method.client.receipts
        return self._published(len("/d"), head, acknowledged=False)

    def total(
        self, method: Method, dim: int, clients: int, *, senders: Floats, wire: Floats, downlink: Floats
    ) -> Floats:
        """Bytes on all clients' sockets at every step, both directions, from the first model on.

        Args:
            method: what ran; a reference without a server sends its samples, or nothing.
            dim: D.
            clients: K, all of whom hear every broadcast.
            senders: how many clients sent at each step.
            wire: bits of their payloads.
            downlink: bits of the broadcast, once.
        """
        if method.topology in ("central", "separate"):
            return wire / 8
        ends = np.zeros(len(senders))
        ends[method.ends(len(senders)) - 1] = 1
        mean = wire / np.maximum(senders, 1) / 8
        each = self.update_bytes(method, dim) + mean + _longer(mean + self.update_bytes(method, dim))
        up = senders * each
        if self.passes and not method.participation.foreseeable:
            up = up + ends * (clients - senders) * self.pass_bytes()
        size = downlink / 8
        down = self.broadcast_bytes(method) + size + _longer(size + self.broadcast_bytes(method))
        total: Floats = up + ends * clients * down
        return total

    def _published(self, topic: int, payload: int, acknowledged: bool = True) -> int:
        """A PUBLISH with so many letters of topic after the federation's name; acknowledged ones are numbered."""
        return _with_head(2 + self.federation + topic + 2 * acknowledged + payload)


def fedogd_bytes(dim: int, connection: Connection = Connection()) -> float:  # noqa: B008  # an immutable value
    """Bytes of FedOGD per client and step, both directions: what budgets of all bytes are shares of.

    >>> fedogd_bytes(1000) / 8000 < 1.02
    True
    """
    method = federated("FedOGD", 1.0, "paper")
    one: Any = np.ones(1)
    return float(
        connection.total(method, dim, 1, senders=one, wire=32.0 * dim * one, downlink=32.0 * dim * one)[0]
    )


def _with_head(rest: int) -> int:
    """An MQTT packet: a byte, its length in one to four bytes, the rest."""
    return 1 + 1 + int(_longer(rest)) + rest


def _longer(size: Any) -> Any:
    """Further bytes that MQTT needs to say a length beyond its first: sizes about `size`."""
    return sum((np.asarray(size) >= 128**power).astype(np.int64) for power in (1, 2, 3))


__all__ = ["Connection", "fedogd_bytes"]
