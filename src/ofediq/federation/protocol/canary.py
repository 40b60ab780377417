"""`Canary`: a new version of the task on a share of the clients, before all others get it.

The version has a coordinator of its own, with its own rounds, numbers and record. What that one says to everybody
goes to its clients alone: the task with their welcome, models on `whole/NAME`. Everything else is as it always is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from ofediq.federation.protocol.messages import Publish, read_json, split_topic, write_json
from ofediq.federation.protocol.monitor import Monitor

if TYPE_CHECKING:
    from ofediq.federation.protocol.coordinator import Action, Coordinator

Verdict = Literal["promote", "withdraw"]


class Scores(NamedTuple):
    """Predictions, the sum of their errors, and of those of the last value."""

    samples: int = 0
    error: float = 0.0
    naive: float = 0.0

    def since(self, before: Scores) -> Scores:
        """What came after `before`."""
        return Scores(self.samples - before.samples, self.error - before.error, self.naive - before.naive)

    @property
    def ratio(self) -> float:
        """Error over that of the last value; the mean error where the last value made none."""
        return self.error / (self.naive if self.naive > 0 else max(self.samples, 1))

    @classmethod
    def of(cls, monitor: Monitor, names: Collection[str] = ()) -> Scores:
        """Of all clients, or of those called `names`."""
        if not names:
            sums = monitor.sums()
            return cls(sums["samples"], sums["error"], sums["naive"])
        rows = [row for row in monitor.rows() if row.name in names]
        return cls(*(sum(getattr(row, name) for row in rows) for name in cls._fields))


def chosen(names: Iterable[str], share: float, version: int) -> frozenset[str]:
    """Which clients get `version` first: a `share` of them, one at least, others for every version.

    >>> names = [f"c{k}" for k in range(20)]
    >>> len(chosen(names, 0.1, 3)), chosen(names, 0.1, 3) == chosen(reversed(names), 0.1, 3)
    (2, True)
    """

    def lot(name: str) -> bytes:
        return hashlib.sha256(f"{version} {name}".encode()).digest()

    drawn = sorted(names, key=lot)
    return frozenset(drawn[: max(1, round(share * len(drawn)))])


class Canary:
    """Some clients on a new version, and how they fare.

    Args:
        coordinator: the new version's, with a monitor of its own.
        names: its clients.
        rest: the record of the federation, which the other clients go on with.
        samples: predictions on either side after which it is judged; the first half of them does not count.
        margin: by how much worse than expected it may be.
    """

    def __init__(
        self, coordinator: Coordinator, names: frozenset[str], rest: Monitor, samples: int, margin: float
    ) -> None:
        self.coordinator, self.names, self._rest = coordinator, names, rest
        self._samples, self._margin = samples, margin
        own = Scores.of(rest, names)
        self._before = own, Scores.of(rest).since(own)
        self._start = Scores.of(rest)
        self._half: tuple[Scores, Scores] | None = None

    def receive(self, topic: str, payload: bytes, now: float) -> list[Action]:
        """A message of one of its clients."""
        name = split_topic(topic, self.coordinator.federation)[1]
        said = self.told(self.coordinator.receive(topic, payload, now))
        there = name in self.coordinator.members.present
        row = self._rest.client(name, -1)
        row.present, row.last_seen = there, now
        return said

    def connected(self, now: float) -> list[Action]:
        """The connection to the broker is new."""
        return self.told(self.coordinator.connected(now))

    def tick(self, now: float) -> list[Action]:
        """Time passed."""
        return self.told(self.coordinator.tick(now))

    def told(self, actions: Iterable[Action]) -> list[Action]:
        """What the new version's coordinator says, to its own clients alone; its state is not kept."""
        said: list[Action] = []
        for action in actions:
            if not isinstance(action, Publish):
                continue
            kind, name = split_topic(action.topic, self.coordinator.federation)
            if kind == "welcome":
                said.append(self._welcome(name, action.payload))
            elif kind == "task":
                numbers = self.coordinator.members.numbers
                said += [self._welcome(one, write_json(number=numbers[one])) for one in self._present]
            elif kind in ("model", "d"):
                topics = [f"{self.coordinator.federation}/whole/{one}" for one in self._present]
                said += [Publish(topic, action.payload) for topic in topics if action.payload]
            else:
                said.append(action)
        return said

    @property
    def _present(self) -> list[str]:
        return sorted(self.coordinator.members.present)

    def _welcome(self, name: str, payload: bytes) -> Publish:
        content = read_json("welcome", payload)
        content["task"] = json.loads(self.coordinator.task.encode())
        del content["protocol"]
        return Publish(f"{self.coordinator.federation}/welcome/{name}", write_json(**content))

    def compared(self) -> tuple[int, float, float] | None:
        """Predictions counted, the error as a multiple of the last value's, and what was expected; None for too few.

        Expected is what the others have now, corrected by how much harder or easier these clients had it before.
        """
        if self._half is None:
            return None
        own, rest = Scores.of(self.coordinator.monitor), Scores.of(self._rest)
        mine, theirs = own.since(self._half[0]), rest.since(self._half[1])
        if min(mine.samples, theirs.samples) < 1:
            return None
        expected = theirs.ratio
        if min(before.samples for before in self._before) >= self._samples and self._before[1].ratio > 0:
            expected *= min(2.0, max(0.5, self._before[0].ratio / self._before[1].ratio))
        return min(mine.samples, theirs.samples), mine.ratio, expected

    def verdict(self) -> Verdict | None:
        """Whether it is to be promoted or withdrawn; None while that is open."""
        if self.coordinator.monitor.rollbacks:
            return "withdraw"
        own, rest = Scores.of(self.coordinator.monitor), Scores.of(self._rest)
        if self._half is None and min(own.samples, rest.since(self._start).samples) >= self._samples // 2:
            self._half = own, rest
        found = self.compared()
        if found is None or found[0] < self._samples - self._samples // 2:
            return None
        return "promote" if found[1] <= (1 + self._margin) * found[2] else "withdraw"

    def sentence(self) -> str:
        """How it fares, for people."""
        found = self.compared()
        fares = (
            "not judged yet"
            if found is None
            else f"error {found[1]:.3g} of the last value's, expected {found[2]:.3g}"
        )
        version, clients = self.coordinator.task.version, len(self.names)
        return f"version {version} is tried on {clients} client{'s' * (clients > 1)}: {fares}"
