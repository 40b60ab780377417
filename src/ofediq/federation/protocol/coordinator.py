"""`Coordinator`: the server without its network and without a clock. Messages and times in, actions out.

A round opens when the model is published and closes when everyone who is due has been heard, or at its deadline.
Then the accepted updates are added up in the order of the clients' numbers, so that the result does not depend on
who came first; the model moves; the new state is saved, and only then published. What is not saved did not happen:
a server that is restarted opens the round of its last saved state again, and the clients repeat what they had said.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ofediq.errors import CheckpointError, InputError, WireError, require
from ofediq.federation.names import require_name
from ofediq.federation.protocol.allowance import Allowance
from ofediq.federation.protocol.broadcasting import Broadcasting
from ofediq.federation.protocol.divergence import Watch, restarted, smaller
from ofediq.federation.protocol.guard import Guard
from ofediq.federation.protocol.messages import (
    ModelMessage,
    Publish,
    UpdateMessage,
    read_body,
    read_json,
    split_topic,
    write_json,
    write_receipts,
)
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.reports import Report
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.secured import SecureRound, require_additive
from ofediq.federation.protocol.state import ServerState
from ofediq.federation.protocol.task import ModelSpec, Task, differences
from ofediq.federation.protocol.updates import (
    OpenRound,
    Update,
    add_up,
    closed_round,
    is_finite,
    read_update,
)
from ofediq.methods import Method
from ofediq.methods.loudness import UNKNOWN, length, unpack
from ofediq.methods.round import RoundState, first_state, regroup, server_round
from ofediq.methods.server import Totals
from ofediq.models import Model
from ofediq.randomness import Address
from ofediq.storage import leaves

log = logging.getLogger("ofediq.federation")

ATTEMPTS = 8
"""So many frames of a member that cannot be read are tried in a round: reading costs time."""

PATIENCE = 3
"""After so many due rounds in a row without a word a client is not waited for, until it is heard again."""


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
        initial: npt.NDArray[np.float32] | None = None,
    ) -> None:
        require_name("federation", federation)
        self.federation, self.method, self.monitor, self.rules = federation, method, monitor, rules
        self.foreseeable = method.participation.foreseeable
        passes = not self.foreseeable and rules.pace == "asap"
        self._piece = require_additive(method) if rules.secure else None
        last = getattr(method.server, "horizon", None)
        ends = last is None or (rules.rounds or math.inf) * method.period <= last
        require(ends, "rounds", f"must end by step {last}, as far as {method.name} promises", rules.rounds)
        # Losses of one member tell about its samples: with updates that are not read, reports are not sent.
        task = Task.of(method, model, seed, passes, 0 if rules.secure else rules.report_every)
        self.task = replace(task, secure=rules.secure)
        built = model.build() if isinstance(model, ModelSpec) else model
        self.dim, self.seed, self.epoch, self._model = built.dim, seed, epoch, built
        self._numbers: dict[str, int] = {name: number for number, name in enumerate(rules.roster)}
        self._present: set[str] = set()
        self._silent: dict[str, int] = {}  # due rounds in a row without a word
        self._granted: set[str] = set()  # who was given another chance since it was last heard
        self._reports: list[Report] = []  # since the last round closed
        self._strays: set[str] = set()  # clients whose report came outside of its round, since then
        self._guard = Guard(rules.clip, regular=self.foreseeable)
        self._allowance = Allowance.of(method)
        self._broadcasts = Broadcasting(method, seed)
        self._round: OpenRound | None = None
        self._last_opened = -math.inf
        self._patience = math.inf  # until when the first round waits for `start_clients`
        self.step = 0
        self._counted: tuple[int, ...] = ()  # whose updates counted in the last closed round
        first = built.initial(seed) if initial is None else initial
        self._state = first_state(method, np.asarray(first), len(self._numbers))
        if saved is not None:
            self._resume(saved)
        self._anchored = isinstance(model, ModelSpec) and model.pipeline is not None
        self._watch = Watch(self._state, self.step, anchored=self._anchored)
        for name, number in self._numbers.items():
            monitor.client(name, number)

    @property
    def params(self) -> npt.NDArray[np.float32]:
        """The model."""
        return np.asarray(self._state.params, np.float32)

    def card(self) -> dict[str, Any]:
        """Where the model comes from, for its file."""
        totals, spec = self.monitor.totals(), self.task.model
        return {
            "data": {"federation": self.federation, "clients": len(self._numbers), "step": self.step},
            "features": list(() if spec is None else spec.features),
            "labels": list(() if spec is None else spec.labels),
            "method": self.method.name,
            "pieces": self.method.describe(),
            "seed": self.seed,
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
        return self.rules.rounds is not None and self.step >= self.rules.rounds * self.method.period

    @property
    def anyone_present(self) -> bool:
        """Whether a client is connected."""
        return bool(self._present)

    def connected(self, now: float) -> list[Action]:
        """The connection to the broker is new: announce the task, and the open round if there is one.

        Clients that were present are still waited for: they lost the broker too, and come back.
        """
        if self.step and self._patience == math.inf:  # some of those who were there before may not come back
            self._patience = now + self.rules.deadline
        actions: list[Action] = [self._publish("task", self.task.encode())]
        if self._round is not None or self.finished:
            actions.append(self._publish(*self._broadcasts.whole(self._message())))
        else:  # what an earlier federation of this name left behind must not be taken for ours
            actions.append(self._publish("model", b""))
        return actions + self.tick(now)

    def receive(self, topic: str, payload: bytes, now: float) -> list[Action]:
        """A message of a client. Whatever it holds, it is taken, ignored or counted as rejected."""
        kind, name = split_topic(topic, self.federation)
        if kind in ("here", "u") and not self._allowance.hears(name, now):
            self.monitor.rejected["flood"] += 1
            return []
        if kind == "here":
            actions = self._on_presence(name, payload, now)
        elif kind == "u":
            self._on_update(name, payload, now)
            actions = []
        elif kind == "s":
            self._on_secure(name, payload)
            actions = []
        else:
            return []
        return actions + self.tick(now)

    def tick(self, now: float) -> list[Action]:
        """Close and open rounds as far as time and arrivals allow."""
        actions: list[Action] = list(self._advanced(now))
        if self._round is not None and self._complete(self._round, now):
            actions += self._close(self._round, now)
        if self._round is None and self._may_open(now):
            actions += self._open(now)
        self.monitor.state = self._status(now)
        return actions

    def next_tick(self) -> float:
        """When `tick` is needed if nothing arrives; infinite if never."""
        if self._round is not None:
            if self._round.secured is not None:
                return self._round.secured.ends
            done = self._complete(self._round, self._round.since)  # nobody is due, or everyone was heard
            return self._round.since + (0.0 if done else self.rules.deadline)
        if self.finished or len(self._present) < self.rules.min_clients:
            return math.inf
        if self._too_few(-math.inf):
            return self._patience
        return math.inf if self.rules.pace == "asap" else self._last_opened + self.rules.interval

    # Presence ---------------------------------------------------------------------------------------------------

    def _on_presence(self, name: str, payload: bytes, now: float) -> list[Action]:
        try:
            require_name("client", name)
            online = read_json("here", payload).get("online") is True
        except InputError:
            self.monitor.reject(name, "malformed")
            return []
        if not online:
            return self._on_absence(name)
        if name not in self._numbers:
            if not self.rules.open:
                self.monitor.reject(name, "unknown client")
                return []
            self._numbers[name] = len(self._numbers)
        self._present.add(name)
        if self._silent.get(name, 0) >= PATIENCE and name not in self._granted:
            self._silent[name] = PATIENCE - 1  # one more chance until it is heard, however often it greets
            self._granted.add(name)
        row = self.monitor.client(name, self._numbers[name])
        row.present, row.last_seen = True, now
        self.monitor.touch()
        return [*self._whole(name), self._publish(f"welcome/{name}", write_json(number=self._numbers[name]))]

    def _on_absence(self, name: str) -> list[Action]:
        """A client is gone, or somebody says so: if it is there all the same, it answers the question."""
        if name not in self._present:
            return []
        self._present.remove(name)
        self.monitor.client(name, self._numbers[name]).present = False
        self.monitor.touch()
        return [self._publish(f"welcome/{name}", write_json(number=self._numbers[name], online=False))]

    def _whole(self, name: str) -> list[Action]:
        """The model for a client that just greeted, if the retained one is too old; once per round."""
        one = self._round
        if one is None or name in one.served or not self._broadcasts.lacks(one.step):
            return []
        one.served.add(name)
        payload = self._message().encode()
        one.catching_up += 8 * len(payload)
        return [self._publish(f"whole/{name}", payload)]

    def admit(self, name: str) -> bool:
        """Let a client out of quarantine; whether there is one of this name."""
        if name not in self._numbers:
            return False
        self._guard.admit(self._numbers[name])
        self.monitor.client(name, self._numbers[name]).quarantined = False
        self.monitor.touch()
        return True

    # Updates ----------------------------------------------------------------------------------------------------

    def _on_update(self, name: str, payload: bytes, now: float) -> None:
        if name not in self._numbers:
            self.monitor.reject(name, "unknown client")
            return
        row = self.monitor.client(name, self._numbers[name])
        row.last_seen = now
        decoded = None
        try:
            said = UpdateMessage.decode(payload, self.step if self._round is None else self._round.step)
            reason = self._objection(name, said)
            if reason is None and said.body and self._numbers[name] in self._guard.quarantined:
                self.monitor.reject(name, "quarantined")  # it is heard, but its update is not read
            elif reason is None and said.body and not self._pays(name, said.body):
                self.monitor.reject(name, "beyond its share")
            elif reason is None and said.body:
                address = Address(self.seed, said.step, self._numbers[name])
                decoded = self._read(said.body, address)
        except WireError:
            reason = "malformed"
            if self._round is not None:
                self._round.failed[name] += 1
        if reason is not None:
            self.monitor.reject(name, reason)
            return
        self._silent.pop(name, None)
        self._granted.discard(name)
        self._present.add(name)  # whoever is heard is there
        row.present = True
        row.samples += said.report.samples
        row.error += said.report.error
        row.naive += said.report.naive
        if self.finished:  # a last report: no round will take it along
            self.monitor.predicted(said.report)
        else:
            self._reports.append(said.report)
        one = self._round
        if one is None or said.step != one.step:  # a farewell
            self._strays.add(name)
            return
        one.heard.add(name)
        if decoded is not None:
            row.sent += 1
            one.updates[name] = decoded

    def _pays(self, name: str, body: bytes) -> bool:
        return self._allowance.pays(name, 8 * len(body), len(self._numbers))

    def _read(self, body: bytes, address: Address) -> Update:
        """An update, or, where it must not be read, the fact that it came; `WireError` if it cannot be."""
        if self._round is None or self._round.secured is None:
            return read_update(self.method, body, self._state.down, address)
        encoded = read_body(body, ("update",), address.step)["update"]
        self._round.secured.take(address.client, encoded.payload)
        return Update({}, encoded.bits)

    def _on_secure(self, name: str, payload: bytes) -> None:
        """Keys, sealed shares or the answer of a member."""
        one = self._round
        if name not in self._numbers or one is None or one.secured is None or name not in (one.due or ()):
            self.monitor.reject(name, "not due")
            return
        try:
            one.secured.receive(self._numbers[name], payload)
        except WireError:
            self.monitor.reject(name, "malformed")

    def _advanced(self, now: float) -> list[Publish]:
        """What secure aggregation has to say now."""
        one = self._round
        if one is None or one.secured is None:
            return []
        names = {self._numbers[name]: name for name in one.due or ()}
        there = {self._numbers[name] for name in self._present if self._silent.get(name, 0) < PATIENCE}
        return one.secured.advance(names, there.__contains__, now)

    def _objection(self, name: str, said: UpdateMessage) -> str | None:
        """Why a well-formed message is not accepted, if so; its body is not looked at yet."""
        one = self._round
        most = said.report.samples if self.monitor.task == "classification" else math.inf
        if max(said.report.error, said.report.naive) > most:
            return "malformed"
        if not said.body:  # a report alone; that of a client which leaves may come in any round
            known = self._strays if one is None or said.step != one.step else one.heard
            return "duplicate" if name in known else None
        if one is None or said.step < one.step:
            return "late"
        if said.step > one.step:
            return "from the future"
        if name in one.heard:
            return "duplicate"
        if one.failed[name] >= ATTEMPTS:
            return "flood"
        if one.due is not None and name not in one.due:
            return "not due"
        return None

    # Rounds -----------------------------------------------------------------------------------------------------

    def _may_open(self, now: float) -> bool:
        if self.finished or self._too_few(now):
            return False
        return self.rules.pace == "asap" or now >= self._last_opened + self.rules.interval

    def _too_few(self, now: float) -> bool:
        """Whether the next round has to wait for clients."""
        first = self._last_opened == -math.inf and now < self._patience
        return len(self._present) < self.rules.needed(first)

    def _open(self, now: float) -> list[Action]:
        step = self.step + self.method.period
        due = frozenset(self._due(step)) if self.foreseeable else None
        self._state = regroup(self.method, self._state, len(self._numbers))
        self._round = OpenRound(step, now, len(self._numbers), due, {}, set(), set())
        if self._piece is not None:
            rules = (now, self.rules.deadline)
            self._round.secured = SecureRound(self.federation, self._piece, self.epoch, step, *rules)
        self._last_opened = now
        return self._announce()

    def _due(self, step: int) -> Sequence[str]:
        """Who should send at `step`: every draw follows from seed, step and number."""
        names = list(self._numbers)
        active = self.method.participation.active(self.seed, step, np.arange(len(names)), len(names))
        return [name for name, is_active in zip(names, np.asarray(active), strict=True) if is_active]

    def _complete(self, one: OpenRound, now: float) -> bool:
        if one.secured is not None:
            return one.secured.phase == 4
        if now >= one.since + self.rules.deadline:
            return True
        if (one.due is None and not self.task.passes) or len(self._present) < self.rules.min_clients:
            return False
        awaited = self._present if one.due is None else self._present & one.due
        return all(name in one.heard or self._silent.get(name, 0) >= PATIENCE for name in awaited)

    def _close(self, one: OpenRound, now: float) -> list[Action]:
        totals = self._totals(one)
        self._state, down_bits = self._moved(one, totals)
        awaited = one.due if one.due is not None else frozenset(self._present if self.task.passes else ())
        for name in awaited - one.heard:
            self._silent[name] = self._silent.get(name, 0) + 1
        self.step, self._round = one.step, None
        self._allowance.closed()
        reports, present, bits = (
            self._reports,
            len(self._present),
            (float(totals.bits), down_bits + one.catching_up),
        )
        self.monitor.record(closed_round(self.method, self.dim, one, reports, present, bits, now - one.since))
        changed = self._watched()
        self._reports.clear()
        self._strays.clear()
        return [Save(self.saved()), *changed, *(self._announce() if self.finished else [])]

    def _watched(self) -> list[Action]:
        """Go back to the last good model, with smaller steps, if predictions are far worse than the last value."""
        found = self._watch.judge(self._reports, self._state, self.step)
        if found != "bad":
            if found == "good" and "divergence" in self.monitor.problems:
                log.info("server: predictions are well again")
                self.monitor.problem("divergence", None)
            return []
        watch, (good, step) = self._watch, self._watch.back()
        sentence = (
            f"predictions diverged at step {self.step}: their mean error was {watch.error:.3g}, that of the last "
            f"value {watch.naive:.3g}; back to the model of step {step}, with a quarter of the step size"
        )
        log.error("server: %s", sentence)
        self.monitor.problem("divergence", sentence)
        self.monitor.rollbacks += 1
        self.method = smaller(self.method)
        self._state = restarted(self.method, good, self._state, len(self._numbers))
        self._broadcasts = Broadcasting(self.method, self.seed)
        task = Task.of(self.method, self.task.model or self._model, self.seed, self.task.passes)
        version = self.task.version + 1
        self.task = replace(
            task, report_every=self.task.report_every, version=version, secure=self.task.secure
        )
        return [self._publish("task", self.task.encode())]

    def _totals(self, one: OpenRound) -> Totals:
        """What arrived, weighed and combined in the order of numbers; what does not count is left out."""
        if one.secured is not None:
            return self._secure_totals(one, one.secured)
        names = sorted(one.updates, key=self._numbers.__getitem__)
        updates = {self._numbers[name]: one.updates[name] for name in names}
        vectors = {number: update.vectors for number, update in updates.items()}
        factors = self._guard.weigh(vectors, unit=self._unit(vectors))
        self._guard.closed(len(updates), one.clients)
        totals = add_up(
            self.method, self.dim, list(updates.values()), list(factors.values()), one.clients, one.step
        )
        for name in names:
            self._judged(one, name, factors[self._numbers[name]])
        return totals

    def _secure_totals(self, one: OpenRound, secured: SecureRound) -> Totals:
        """The sum that secure aggregation came to; nothing counts if too few stayed."""
        total = secured.total(self.dim, Address(self.seed, one.step, 0))
        bits = sum(update.bits for update in one.updates.values())
        if total is None:
            one.updates.clear()
            total = np.zeros(self.dim, np.float32)
        count = np.int32(len(one.updates))
        return Totals({"update": total}, count, np.float32(bits), one.clients, np.int32(one.step))

    def _unit(self, vectors: Mapping[int, Mapping[str, Any]]) -> float:
        """What lengths are measured in: that of an update on the announced grid, or what a rate does to updates."""
        rule = self.method.participation
        signal, spread = rule.signal, getattr(rule, "spread", 1.0)
        if signal is None:
            divides = rule.foreseeable and self.method.client.divides
            return 1 / float(rule.rates(len(self._numbers)).mean()) if divides else 1.0
        step = float(unpack(self._state.down.scalars[signal])[0])
        if step > UNKNOWN:
            return step * float(spread)
        norms = sorted(float(length(one["update"])) for one in vectors.values())
        middle = norms[(len(norms) - 1) // 2] if norms else 1.0  # nobody knows a scale yet
        return min(max(middle, 1e-30), 1000.0)

    def _judged(self, one: OpenRound, name: str, factor: float) -> None:
        """Write down that an update was cut or left out, and whether its sender is in quarantine now."""
        row = self.monitor.client(name, self._numbers[name])
        row.clipped += factor < 1
        if self._numbers[name] in self._guard.quarantined and not row.quarantined:
            row.quarantined = True
            log.warning("client %s is quarantined: `ofediq admit %s` lets it back", name, name)
        if factor == 0:
            del one.updates[name]

    def _moved(self, one: OpenRound, totals: Totals) -> tuple[RoundState, float]:
        """The state after the round and the bits of its broadcast.

        A model that is not finite is neither saved nor published: the round's updates are left out.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            after, bits = server_round(self.method, self._state, totals, np.uint32(self.seed))
        if not is_finite(after):
            for name in one.updates:
                self.monitor.reject(name, "not finite")
            one.updates.clear()
            nothing = add_up(self.method, self.dim, (), (), one.clients, one.step)
            after, bits = server_round(self.method, self._state, nothing, np.uint32(self.seed))
            after = after if is_finite(after) else self._state
        state = self._broadcasts.closed(self._state, after, one.step)
        self._counted = tuple(sorted(self._numbers[name] for name in one.updates))
        if self.method.client.receipts:
            bits = bits + 8 * len(write_receipts(self._counted, one.clients))
        return state, float(bits)

    def _status(self, now: float) -> Literal["waiting", "running", "finished"]:
        if self.finished:
            return "finished"
        return "waiting" if self._round is None and self._too_few(now) else "running"

    # State ------------------------------------------------------------------------------------------------------

    def saved(self) -> ServerState:
        """Everything that a server which takes over needs."""
        return ServerState(
            identity=self._identity(),
            epoch=self.epoch,
            step=self.step,
            state={"state": self._state, "guard": self._guard.export()},
            numbers=dict(self._numbers),
            counted=self._counted,
            record=self.monitor.export(),
        )

    def _identity(self) -> dict[str, Any]:
        return {
            "federation": self.federation,
            "task": json.loads(self.task.encode()),
            "server": self.method.describe()["server"],
        }

    def _resume(self, saved: ServerState) -> None:
        """Continue; the model stays when method, step size, budget or clients are others than they were."""
        before, mine = dict(saved.identity), self._identity()
        fixed = [
            {"federation": one["federation"], "model": one["task"]["model"], "dim": one["task"]["dim"]}
            for one in (before, mine)
        ]
        ServerState.require_same(replace(saved, identity=fixed[0]), fixed[1])
        version = int(before["task"]["version"])
        mine["task"]["version"] = version
        changed = differences(before, mine)
        self.task = replace(self.task, version=version + bool(changed))
        if changed:
            log.info(
                "server: task version %d keeps the model: %s", self.task.version, "; ".join(changed)[:600]
            )
        self.epoch = max(self.epoch, saved.epoch + 1)
        self.step = saved.step
        self._counted = tuple(saved.counted)
        roster, self._numbers = self._numbers, dict(saved.numbers)  # numbers never change
        self._state = self._continued(saved, len(self._numbers))
        for name in roster:
            self._numbers.setdefault(name, len(self._numbers))
        self._guard.restore(saved.below("guard"))
        self.monitor.restore(saved.record)

    def _continued(self, saved: ServerState, clients: int) -> RoundState:
        """The saved state where it fits the method; else its model at the method's start."""
        params = np.asarray(leaves(saved.state)["state/params"], np.float32)
        first = first_state(self.method, params, clients)
        if saved.identity["server"] != self.method.describe()["server"]:
            return first
        try:
            state: RoundState = saved.restore(first)
        except CheckpointError:
            return first
        return state

    def _message(self) -> ModelMessage:
        one = self._round
        step, clients = (self.step, len(self._numbers)) if one is None else (one.step, one.clients)
        counted = self._counted if self.method.client.receipts else None
        return ModelMessage(self.epoch, step, clients, self._state.down, one is None, counted)

    def _announce(self) -> list[Action]:
        return [self._publish(*self._broadcasts.opening(self._message()))]

    def _publish(self, kind: str, payload: bytes) -> Publish:
        return Publish(f"{self.federation}/{kind}", payload, retain=kind in ("task", "model"))
