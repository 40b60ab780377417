"""`Monitor`: what happened so far in a live federation, for the page, the metrics and the log.

The server writes, everyone else reads. Nothing here does I/O; `changed` lets a reader wait for news.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ofediq.drift import DriftTest
from ofediq.federation import clock
from ofediq.federation.protocol.reports import Report

State = Literal["waiting", "running", "finished"]
"""`waiting`: for clients. `running`: rounds go on. `finished`: all rounds are done."""

HISTORY = 2000
"""Rounds kept for the curves. When there are more, every other one is dropped and the spacing doubles."""

MARKS = 100
"""Of more alarms the first are forgotten, though not their number."""


@dataclass(frozen=True)
class Round:
    """One closed round.

    Attributes:
        step: t, the time step at which its updates were sent.
        seconds: how long it was open.
        clients: K, registered clients.
        present: of these, connected when it closed.
        expected: senders the server waited for; None where clients decide by the norm of their update.
        senders: updates that arrived and could be read.
        counted: those of them that the sum is of; the guard leaves some out.
        bits_wire: of the payloads that arrived.
        bits_formula: the same by the paper's formula.
        bits_fedogd: what FedOGD would have sent: 32 bits per parameter, client and step.
        bits_downlink: of the broadcast that followed, counted once.
        samples: predictions that clients reported with their updates.
        error: sum of their errors: 0 or 1 in classification, squared in regression.
        naive: the same of each client's last value.
    """

    step: int
    seconds: float
    clients: int
    present: int
    expected: int | None
    senders: int
    counted: int
    bits_wire: float
    bits_formula: float
    bits_fedogd: float
    bits_downlink: float
    samples: int
    error: float
    naive: float


@dataclass
class ClientRow:
    """What is known about one client."""

    name: str
    number: int
    present: bool = False
    last_seen: float | None = None
    sent: int = 0
    rejected: int = 0
    clipped: int = 0
    quarantined: bool = False
    odd: bool = False  # what it says of its predictions is out of line
    samples: int = 0
    error: float = 0.0
    naive: float = 0.0


@dataclass
class _Totals:
    rounds: int = 0
    updates: int = 0
    missed: int = 0
    left_out: int = 0
    seconds: float = 0.0
    bits_wire: float = 0.0
    bits_formula: float = 0.0
    bits_fedogd: float = 0.0
    bits_downlink: float = 0.0
    samples: int = 0
    error: float = 0.0
    naive: float = 0.0


_SUMMED = (
    "seconds",
    "bits_wire",
    "bits_formula",
    "bits_fedogd",
    "bits_downlink",
    "samples",
    "error",
    "naive",
)


@dataclass
class _Curve:
    """A thinned history: each point sums the rounds since the point before it."""

    spacing: int = 1
    points: list[dict[str, float]] = field(default_factory=list)
    pending: list[Round] = field(default_factory=list)

    def add(self, one: Round, totals: _Totals) -> None:
        self.pending.append(one)
        if len(self.pending) < self.spacing:
            return
        some, self.pending = self.pending, []
        self.points.append(
            {
                "step": one.step,
                "seconds": sum(each.seconds for each in some) / len(some),
                "senders": sum(each.senders for each in some) / len(some),
                "expected": sum(each.expected or 0 for each in some) / len(some),
                "samples": sum(each.samples for each in some),
                "error": sum(each.error for each in some),
                "naive": sum(each.naive for each in some),
                "bits_wire": totals.bits_wire,
                "bits_fedogd": totals.bits_fedogd,
            }
        )
        if len(self.points) >= HISTORY:
            self._halve()

    def _halve(self) -> None:
        mean, total = ("seconds", "senders", "expected"), ("samples", "error", "naive")
        merged = []
        for first, second in zip(self.points[::2], self.points[1::2], strict=True):
            point = dict(second)
            point |= {name: (first[name] + second[name]) / 2 for name in mean}
            point |= {name: first[name] + second[name] for name in total}
            merged.append(point)
        self.points, self.spacing = merged, 2 * self.spacing


def skill(error: float, naive: float) -> float | None:
    """1 - error / naive error; None where the naive forecast made none.

    >>> skill(3.0, 4.0), skill(0.0, 0.0)
    (0.25, None)
    """
    return 1 - error / naive if naive > 0 else None


class Monitor:
    """The record of one federation.

    Args:
        federation: its name.
        task: classification or regression.
        parameters: what is in use (method, rate, levels, ...), shown as it is.
        round_limit: rounds to run; None for no end.

    >>> monitor = Monitor("greenhouse", "classification", {"method": "OFedIQ", "rate": 0.1})
    >>> monitor.client("c0", 0).present = True
    >>> monitor.reject("c0", "malformed")
    >>> monitor.snapshot()["totals"]["rejected"]
    {'malformed': 1}
    """

    def __init__(
        self,
        federation: str,
        task: str,
        parameters: Mapping[str, Any],
        round_limit: int | None = None,
    ) -> None:
        self.federation = federation
        self.task = task
        self.parameters = dict(parameters)
        self.round_limit = round_limit
        self.started = clock.now()
        self.state: State = "waiting"
        self.step = 0
        self.problems: dict[str, str] = {}
        self.rejected: Counter[str] = Counter()
        self.rollbacks = 0  # to an earlier model
        self.trial: str | None = None  # how a version fares that some clients have before the others
        self.alarms = 0  # times that errors had risen
        self.drift: list[int] = []  # steps of these alarms
        self._drift_test = DriftTest()  # a server that is started again learns anew what errors are usual
        self.socket = {"in": 0, "out": 0}
        self.version = 0
        self.last: Round | None = None
        self._totals = _Totals()
        self._curve = _Curve()
        self._rows: dict[str, ClientRow] = {}
        self._news = asyncio.Event()

    def client(self, name: str, number: int) -> ClientRow:
        """The row of a client, made when it is first seen."""
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = ClientRow(name, number)
        return row

    def reject(self, name: str, reason: str) -> None:
        """Count a refused message; the name may be a stranger's."""
        self.rejected[reason] += 1
        if name in self._rows:
            self._rows[name].rejected += 1
        self.touch()

    def record(self, one: Round) -> None:
        """A round closed; `alarms` counts those after which errors have risen, by `ofediq.drift`."""
        totals = self._totals
        totals.rounds += 1
        totals.updates += one.counted
        totals.left_out += one.senders - one.counted
        totals.missed += 0 if one.expected is None else max(0, one.expected - one.senders)
        for name in _SUMMED:
            setattr(totals, name, getattr(totals, name) + getattr(one, name))
        self.last = one
        self.step = one.step
        self._curve.add(one, totals)
        if one.samples > 0 and self._drift_test.add(one.error / one.samples):
            self.alarms += 1
            self.drift = [*self.drift[1 - MARKS :], one.step]
        self.touch()

    def predicted(self, report: Report) -> None:
        """Predictions that were reported after the last round."""
        for name in ("samples", "error", "naive"):
            setattr(self._totals, name, getattr(self._totals, name) + getattr(report, name))
        self.touch()

    def problem(self, kind: str, sentence: str | None) -> None:
        """Something is wrong (a sentence), or well again (None)."""
        if sentence is None:
            self.problems.pop(kind, None)
        else:
            self.problems[kind] = sentence
        self.touch()

    def export(self) -> dict[str, Any]:
        """The counts so far, ready for JSON; `restore` continues from them."""
        return {
            "totals": asdict(self._totals),
            "rejected": dict(self.rejected),
            "rollbacks": self.rollbacks,
            "alarms": self.alarms,
            "drift": self.drift,
            "clients": [dict(vars(row)) for row in self.rows()],
            "step": self.step,
            "spacing": self._curve.spacing,
            "points": self._curve.points,
        }

    def restore(self, record: Mapping[str, Any]) -> None:
        """Continue counting from an earlier `export`."""
        self._totals = _Totals(**record["totals"])
        self.rejected = Counter(record["rejected"])
        self.rollbacks = int(record["rollbacks"])
        self.alarms, self.drift = int(record.get("alarms", 0)), list(record.get("drift", ()))
        self._rows = {row["name"]: ClientRow(**{**row, "present": False}) for row in record["clients"]}
        self._curve = _Curve(record["spacing"], list(record["points"]))
        last = self._curve.points[-1]["step"] if self._curve.points else 0
        self.step = int(record.get("step", last))
        self.touch()

    def touch(self) -> None:
        """Tell the readers that something changed."""
        self.version += 1
        self._news.set()
        self._news = asyncio.Event()

    async def changed(self, seen: int) -> int:
        """Wait until there is something newer than version `seen`; returns the present version."""
        while self.version <= seen:
            await self._news.wait()
        return self.version

    def sums(self) -> dict[str, Any]:
        """Plain sums over all rounds, which never fall: what a counter shows."""
        return asdict(self._totals)

    def totals(self) -> dict[str, Any]:
        """Sums over all rounds; mean errors, ours and the last value's; skill; cost reduction against FedOGD."""
        sums = self.sums()
        samples = sums["samples"]
        sums["skill"] = skill(sums["error"], sums["naive"])
        for name in ("error", "naive"):
            sums[name] = sums[name] / samples if samples else None
        fedogd = sums["bits_fedogd"]
        sums["ccr"] = 1 - sums["bits_wire"] / fedogd if fedogd else None
        sums["rejected"] = dict(self.rejected)
        sums["rollbacks"] = self.rollbacks
        sums["drift_alarms"] = self.alarms
        sums["clipped"] = sum(row.clipped for row in self._rows.values())
        sums["bytes_socket"] = dict(self.socket)
        return sums

    def rows(self) -> list[ClientRow]:
        """All clients, by number."""
        return sorted(self._rows.values(), key=lambda row: row.number)

    def snapshot(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "federation": self.federation,
            "task": self.task,
            "parameters": self.parameters,
            "state": self.state,
            "started": self.started,
            "now": clock.now(),
            "step": self.step,
            "round_limit": self.round_limit,
            "version": self.version,
            "totals": self.totals(),
            "clients": [dict(vars(row)) for row in self.rows()],
            "history": self._curve.points,
            "spacing": self._curve.spacing,
            "drift": self.drift,
            "trial": self.trial,
            "problems": list(self.problems.values()),
        }
