"""`Coordinator`: the server without its network and without a clock. Messages and times in, actions out.

A round opens when the model is published and closes when everyone who is due has been heard, or at its deadline.
Then the accepted updates are added up in the order of the clients' numbers, so that the result does not depend on
who came first; the model moves; the new state is saved, and only then published. What is not saved did not happen:
a server that is restarted opens the round of its last saved state again, and the clients repeat what they had said.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ofediq.arrays import Vector
from ofediq.errors import InputError, require
from ofediq.federation.names import require_name
from ofediq.federation.protocol.canary import Canary
from ofediq.federation.protocol.intake import Intake
from ofediq.federation.protocol.keeper import Keeper
from ofediq.federation.protocol.members import Members
from ofediq.federation.protocol.messages import ModelMessage, Publish, read_json, split_topic, write_json
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.schedule import Schedule
from ofediq.federation.protocol.secured import SecureRound, patient, require_additive
from ofediq.federation.protocol.state import ServerState
from ofediq.federation.protocol.tally import Tally
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.federation.protocol.updates import OpenRound, closed_round
from ofediq.methods import Method
from ofediq.methods.privacy import last_step_of, least_of
from ofediq.models import Model

log = logging.getLogger("ofediq.federation")


@dataclass(frozen=True)
class Save:
    """Keep this state before anything else happens."""

    saved: ServerState


Action = Publish | Save


class Coordinator:
    """The server's side of the protocol.

    Args:
        federation: name, first part of all topics.
        method: what runs.
        model: a built-in model's description, or a model that every client is given in Python.
        monitor: where the record goes.
        rules: how rounds run.
        seed: of all draws.
        epoch: start of this process in nanoseconds; later than that of any server before it.
        saved: continue from this state.
        initial: begin with these parameters; None for the model's own.
    """

    def __init__(
        self,
        federation: str,
        method: Method,
        model: ModelSpec | Model,
        monitor: Monitor,
        rules: Rules,
        seed: int = 0,
        epoch: int = 1,
        saved: ServerState | None = None,
        initial: Vector | None = None,
    ) -> None:
        require_name("federation", federation)
        self.federation, self.monitor = federation, monitor
        self.foreseeable = method.participation.foreseeable
        passes = not self.foreseeable and rules.hurries
        self._piece = require_additive(method) if rules.secure else None
        self.rules = patient(rules, method)
        last = last_step_of(method)
        ends = last is None or (rules.rounds or math.inf) * method.period <= last
        require(ends, "rounds", f"must end by step {last}, as far as {method.name} promises", rules.rounds)
        # Losses of one member tell about its samples: with updates that are not read, reports are not sent.
        reports = 0 if rules.secure else rules.report_every
        task = Task.of(method, model, seed, passes, reports, rules.secure)
        self.members = Members(rules.roster)
        self.keeper = Keeper(federation, method, model, task, epoch, len(self.members), initial)
        self.canary: Canary | None = None
        self.begins_anew = False  # whether it leads though clients have seen more
        self._seen: dict[str, int] = {}  # steps that clients had come to when they greeted
        self._schedule = Schedule(self.rules, method)
        goes_on = saved is not None and self.keeper.resume(saved)
        self.keeper.describe(monitor)
        if saved is not None:
            self.members = Members(sorted(saved.numbers, key=saved.numbers.__getitem__))  # they never change
            for name in rules.roster:
                self.members.add(name)
            monitor.restore(saved.record)
        self.tally = Tally(method, task.dim, rules.clip, self.members, monitor)
        if saved is not None:
            self.tally.restore(saved, goes_on=goes_on)
        self._intake = Intake(self.keeper, self.members, self.tally, monitor)
        for name, number in self.members.numbers.items():
            monitor.client(name, number)

    @property
    def method(self) -> Method:
        """What runs."""
        return self.keeper.method

    @property
    def task(self) -> Task:
        """What clients are told of it."""
        return self.keeper.task

    @property
    def step(self) -> int:
        """t of the last closed round."""
        return self.keeper.step

    @property
    def params(self) -> Vector:
        """The model."""
        return np.asarray(self.keeper.state.params, np.float32)

    def card(self) -> dict[str, Any]:
        """Where the model comes from, for its file."""
        totals, spec = self.monitor.totals(), self.task.model
        return {
            "data": {"federation": self.federation, "clients": len(self.members), "step": self.step},
            "features": list(() if spec is None else spec.features),
            "labels": list(() if spec is None else spec.labels),
            "method": self.method.name,
            "pieces": self.method.describe(),
            "seed": self.task.seed,
            "results": {name: totals[name] for name in ("error", "naive", "skill", "samples", "bits_wire")},
        }

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The topics that a server listens to."""
        return tuple(
            f"{self.federation}/{kind}/+" for kind in ("here", "u", *(["s"] if self.rules.secure else []))
        )

    @property
    def finished(self) -> bool:
        """Whether all rounds are done."""
        return self.rules.rounds is not None and int(self.method.number_to(self.step)) >= self.rules.rounds

    @property
    def ahead(self) -> int | None:
        """The step that most clients have seen, before the first round, if this server does not know of it.

        A state may be a round older than the clients, and the one before it two.
        """
        if self._schedule.started or self.begins_anew or not self.members.present:
            return None
        steps = sorted(self._seen.get(name, 0) for name in self.members.present)
        seen = steps[(len(steps) - 1) // 2]
        return seen if seen > self.step + 2 * self.method.period else None

    def connected(self, now: float) -> list[Action]:
        """The connection to the broker is new: announce the task, and the open round if there is one.

        Clients that were present are still waited for: they lost the broker too, and come back.
        """
        if self.step and self._schedule.patience == math.inf:  # some who were there before may not come back
            self._schedule.patience = now + self.rules.deadline
        actions: list[Action] = [self._publish("task", self.task.encode())]
        if self._round is not None or self.finished:
            actions.append(self._publish(*self.keeper.broadcasts.whole(self._message())))
        else:  # what an earlier federation of this name left behind must not be taken for ours
            actions.append(self._publish("model", b""))
        if self.canary is not None:
            actions += self.canary.connected(now)
        return actions + self.tick(now)

    def receive(self, topic: str, payload: bytes, now: float) -> list[Action]:
        """A message of a client. Whatever it holds, it is taken, ignored or counted as rejected."""
        kind, name = split_topic(topic, self.federation)
        if self.canary is not None and name in self.canary.names:
            return self.canary.receive(topic, payload, now)
        # Each kind for itself: without an access list anybody may say that a member is gone, and it may still send.
        if kind in ("here", "u", "s") and not self._intake.allowance.hears(f"{kind}/{name}", now):
            self.monitor.rejected["flood"] += 1
            return []
        if kind != "u":
            self._intake.read_all()
        actions = self._on_presence(name, payload, now) if kind == "here" else []
        if kind == "u":
            self._intake.take(name, payload, now)
            if self.finished and self._intake.reports:  # last ones: no round will take them along
                for _, report in self._intake.believed():
                    self.monitor.predicted(report)
        elif kind == "s":
            self._intake.take_secure(name, payload)
        elif kind != "here":
            return []
        return actions + self._go_on(now)

    def tick(self, now: float) -> list[Action]:
        """Close and open rounds as far as time and arrivals allow."""
        self._intake.read_all()
        return self._go_on(now)

    def _go_on(self, now: float) -> list[Action]:
        one, alone = self._round, self.members.settled and self.canary is None
        if one is not None and one.lacks and alone and now < self._schedule.ends(one):
            return []  # the usual case, once for every message
        for name in self.members.unanswered(now):
            self._gone(name)
        actions: list[Action] = list(self._intake.advance_secure(now))
        if self._round is not None and self._complete(self._round, now):
            actions += self._close(self._round, now)
        if self._round is None and self._may_open(now):
            actions += self._open(now)
        if self.canary is not None:
            actions += self.canary.tick(now)
        self.monitor.state = self._status(now)
        return actions

    def next_tick(self) -> float:
        """When `tick` is needed if nothing arrives; infinite if never."""
        own = self._next_tick()
        return own if self.canary is None else min(own, self.canary.coordinator.next_tick())

    def _next_tick(self) -> float:
        one = self._round
        if one is not None:
            if one.secured is not None:
                return one.secured.ends
            return one.since if self._complete(one, one.since) else self._schedule.ends(one)
        if self.finished or self.ahead is not None:
            return math.inf
        return self._schedule.next_opening(self.step, self._connected)

    # Presence ---------------------------------------------------------------------------------------------------

    def _on_presence(self, name: str, payload: bytes, now: float) -> list[Action]:
        try:
            require_name("client", name)
            content = read_json("here", payload)
            online, seen = content.get("online") is True, content.get("step")
        except InputError:
            self.monitor.reject(name, "malformed")
            return []
        if not online:
            return self._on_absence(name, now)
        if name not in self.members and not self.rules.open:
            self.monitor.reject(name, "unknown client")
            return []
        if content.get("clean") is True and name in self.members:  # a word beside its greeting
            self._intake.forget(name)
            return []
        self.members.greet(name)
        self._intake.expect(name)
        self._seen[name] = seen if isinstance(seen, int) else 0
        row = self.monitor.client(name, self.members.numbers[name])
        row.present, row.last_seen = True, now
        self.monitor.touch()
        return [
            *self._whole(name, seen if content.get("epoch") == self.keeper.epoch else None),
            self._publish(f"welcome/{name}", write_json(number=self.members.numbers[name])),
        ]

    def _on_absence(self, name: str, now: float) -> list[Action]:
        """A client is gone, or somebody says so: if it is there all the same, it answers the question."""
        if name not in self.members.present:
            return []
        if self.members.leaves(name, now):
            self._gone(name)
        return [self._publish(f"welcome/{name}", write_json(number=self.members.numbers[name], online=False))]

    def _gone(self, name: str) -> None:
        self._intake.expect(name)
        self.monitor.client(name, self.members.numbers[name]).present = False
        self.monitor.touch()

    def _whole(self, name: str, step: Any = None) -> list[Action]:
        """For who just greeted, if the retained model is too old: the model, or what it lacks; once a round."""
        one = self._round
        if one is None or name in one.served or not self.keeper.broadcasts.lacks(one.step):
            return []
        one.served.add(name)
        missed = None if step is None else self.keeper.broadcasts.since(step)
        payload = min(filter(None, (missed, self._message().encode())), key=len)
        one.catching_up += 8 * len(payload)
        return [self._publish(f"whole/{name}", payload)]

    def send_ahead(self, canary: Canary, now: float) -> list[Action]:
        """Give some clients a new version before the others."""
        self.canary = canary
        there = self.members.present & canary.names
        self.members.present -= canary.names
        for name in there:
            self._intake.expect(name)
        return canary.told(canary.coordinator.welcome(there, now))

    def recall(self, now: float) -> list[Action]:
        """Take the clients of the canary back."""
        canary, self.canary = self.canary, None
        return [] if canary is None else self.welcome(canary.coordinator.members.present, now)

    def welcome(self, names: Iterable[str], now: float) -> list[Action]:
        """Take clients over from another version."""
        said: list[Action] = []
        for name in sorted(names):
            said += self._on_presence(name, write_json(online=True), now)
            self.members.moving.add(name)
        return said + self.tick(now)

    # Rounds -----------------------------------------------------------------------------------------------------

    @property
    def _round(self) -> OpenRound | None:
        return self._intake.round

    @property
    def _connected(self) -> int:
        """Whom `min_clients` counts: where anybody is here, those of the canary as well, who come back."""
        apart = self.canary.coordinator.members.present if self.canary and self.members.present else ()
        return len(self.members.present) + len(apart)

    def _too_few(self, now: float) -> bool:
        return self._schedule.too_few(self._connected, now)

    def _may_open(self, now: float) -> bool:
        kept = self.finished or self._too_few(now) or self.ahead is not None
        return not kept and now >= self._schedule.opens(self.step)

    def _open(self, now: float) -> list[Action]:
        step = self.step + self.method.window(self.step)
        due = self.members.due(self.method, self.task.seed, step) if self.foreseeable else None
        self.keeper.regroup(len(self.members))
        one = self._intake.round = OpenRound(step, now, len(self.members), due, {}, set(), set())
        if self._piece is not None:
            known = (self.federation, self._piece, self.keeper.epoch, step)
            one.secured = SecureRound(*known, now, self.rules.deadline, least_of(self.method))
        for name in self.members.present:
            self._intake.expect(name)
        self._schedule.last_opened = now
        return self._announce()

    def _complete(self, one: OpenRound, now: float) -> bool:
        if one.secured is not None:
            return one.secured.phase == 4
        if now >= self._schedule.ends(one):
            self._intake.read_all()
            return True
        there = self._connected + len(one.heard - self.members.present)  # who spoke and left has taken part
        if (one.due is None and not self.task.passes) or there < self.rules.min_clients:
            return False
        if one.unread and one.waiting <= one.unread.keys():
            self._intake.read_all()
        return one.answered(self.members.present)

    def _close(self, one: OpenRound, now: float) -> list[Action]:
        totals = self.tally.totals(one, self.keeper)
        down_bits, left_out = self.keeper.move(one, totals, self.members.numbers)
        self.tally.close(counted=not left_out)
        for name in left_out:
            self.monitor.reject(name, "not finite")
        self._intake.closed()
        bits, present = (float(one.bits), down_bits + one.catching_up), len(self.members.present)
        reports, alarms = self._intake.believed(), self.monitor.alarms
        counted, took = [report for _, report in reports], now - one.since
        self.monitor.record(closed_round(self.method, self.task.dim, one, counted, present, bits, took))
        if self.monitor.alarms > alarms:
            log.warning("server: prediction errors have risen by step %d: the data drift", self.step)
        changed = self.keeper.judge(reports, self.monitor, len(self.members))
        if changed:
            self.tally.restart()
        told = [self._publish("task", self.task.encode())] if changed else []
        last = [*self._announce(), *self.recall(now)] if self.finished else []
        return [Save(self.saved()), *told, *last]

    def _status(self, now: float) -> Literal["waiting", "running", "finished"]:
        if self.finished:
            return "finished"
        return "waiting" if self._round is None and self._too_few(now) else "running"

    def saved(self) -> ServerState:
        """Everything that a server which takes over needs."""
        return self.keeper.saved(self.members.numbers, self.tally.export(), self.monitor.export())

    def _message(self) -> ModelMessage:
        return self.keeper.message(self._round, len(self.members))

    def _announce(self) -> list[Action]:
        return [self._publish(*self.keeper.broadcasts.opening(self._message()))]

    def _publish(self, kind: str, payload: bytes) -> Publish:
        kept = kind in ("task", "model")
        return Publish(f"{self.federation}/{kind}", payload, retain=kept, acknowledged=kind != "d")
