"""`Keeper`: the server's model. It moves, tells and saves it, and goes back to an earlier one."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ofediq.arrays import Vector
from ofediq.errors import CheckpointError
from ofediq.federation.protocol.broadcasting import Broadcasting
from ofediq.federation.protocol.divergence import Watch, restarted, smaller
from ofediq.federation.protocol.messages import ModelMessage, write_receipts
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.reports import Report
from ofediq.federation.protocol.state import ServerState
from ofediq.federation.protocol.task import ModelSpec, Task, differences
from ofediq.federation.protocol.updates import OpenRound, add_up, is_finite
from ofediq.methods import Method
from ofediq.methods.round import RoundState, first_state, regroup, server_round
from ofediq.methods.server.rule import Totals
from ofediq.models import Model
from ofediq.storage import leaves

log = logging.getLogger("ofediq.federation")


class Keeper:
    """What runs in a federation, and the model that it has come to.

    Args:
        federation: its name.
        method: what runs.
        model: a built-in model's description, or a model that every client is given in Python.
        task: what clients are told of both.
        epoch: start of this process in nanoseconds; later than that of any server before it.
        clients: how many are registered.
        initial: begin with these parameters; None for the model's own.

    Attributes:
        state: the round's.
        step: t of the last closed round.
    """

    def __init__(
        self,
        federation: str,
        method: Method,
        model: ModelSpec | Model,
        task: Task,
        epoch: int,
        clients: int,
        initial: Vector | None = None,
    ) -> None:
        self.federation, self.method, self.model, self.task = federation, method, model, task
        self.seed, self.dim, self.epoch = task.seed, task.dim, epoch
        if initial is None:
            built = model.build() if isinstance(model, ModelSpec) else model
            initial = np.asarray(built.initial(self.seed))
        self.state = first_state(method, np.asarray(initial), clients)
        self.step = 0
        self._shrunk = 0  # times that its steps were made smaller than it was told
        self._in_vain = 0  # times since predictions were well
        self._counted: tuple[int, ...] = ()  # whose updates counted in the last closed round
        self.broadcasts = Broadcasting(method, self.seed)
        self._watch = self._watching()

    def _watching(self) -> Watch:
        anchored = isinstance(self.model, ModelSpec) and self.model.pipeline is not None
        return Watch(self.state, self.step, anchored=anchored)

    def regroup(self, clients: int) -> None:
        """Make room for clients that came since the last round."""
        self.state = regroup(self.method, self.state, clients)

    def message(self, one: OpenRound | None, clients: int) -> ModelMessage:
        """The model that opens round `one`, or the final one."""
        step, clients = (self.step, clients) if one is None else (one.step, one.clients)
        counted = self._counted if self.method.client.receipts else None
        return ModelMessage(self.epoch, step, clients, self.state.down, one is None, counted)

    def move(
        self, one: OpenRound, totals: Totals, numbers: Mapping[str, int]
    ) -> tuple[float, tuple[str, ...]]:
        """Close round `one`; returns the bits of its broadcast, and whose updates had to be left out.

        A model that is not finite is neither saved nor published: the round's updates are left out.
        """
        left_out: tuple[str, ...] = ()
        with np.errstate(over="ignore", invalid="ignore"):
            after, bits = server_round(self.method, self.state, totals, np.uint32(self.seed))
        if not is_finite(after):
            left_out = tuple(one.updates)
            one.updates.clear()
            nothing = add_up(self.method, self.dim, (), (), one.clients, one.step)
            after, bits = server_round(self.method, self.state, nothing, np.uint32(self.seed))
            after = after if is_finite(after) else self.state
        self.state = self.broadcasts.closed(self.state, after, one.step)
        self._counted = tuple(sorted(numbers[name] for name in one.updates))
        self.step = one.step
        if self.method.client.receipts:
            bits = bits + 8 * len(write_receipts(self._counted, one.clients))
        return float(bits), left_out

    def judge(self, reports: Sequence[tuple[int, Report]], monitor: Monitor, clients: int) -> bool:
        """Go back to the last good model, with smaller steps, if predictions are far worse than the last value.

        Where that does not help, the steps become as large as before. Returns whether there is a new task to tell.
        """
        found = self._watch.judge(reports, self.state, self.step)
        if found in ("good", "open"):
            self._in_vain = 0 if found == "good" else self._in_vain
            if found == "good" and not self._watch.well:
                monitor.problem("divergence", self._far_off())
            elif found == "good" and "divergence" in monitor.problems:
                log.info("server: predictions are well again")
                monitor.problem("divergence", None)
            return False
        if found == "still":
            self._undo(monitor, clients)
            return True
        watch, (good, step) = self._watch, self._watch.back()
        sentence = (
            f"predictions diverged at step {self.step}: their mean error was {watch.error:.3g}, that of the last "
            f"value {watch.naive:.3g}; back to the model of step {step}, with a quarter of the step size"
        )
        log.error("server: %s", sentence)
        monitor.problem("divergence", sentence)
        monitor.rollbacks += 1
        self._shrink(1)
        self.describe(monitor)
        self._in_vain += 1
        self.task = replace(self.task, version=self.task.version + 1)
        self.state = restarted(self.method, good, self.state, clients)
        return True

    def _undo(self, monitor: Monitor, clients: int) -> None:
        """The step size of before: errors come from data that have left the model, which must follow them."""
        sentence = f"{self._far_off()}; the step size is as before"
        log.warning("server: %s", sentence)
        monitor.problem("divergence", sentence)
        self._shrink(-self._in_vain)
        self.describe(monitor)
        self._in_vain = 0
        self.task = replace(self.task, version=self.task.version + 1)
        self.state = restarted(self.method, self.state, self.state, clients)

    def _far_off(self) -> str:
        return (
            f"predictions are far off at step {self.step}, with smaller steps too: their mean error was "
            f"{self._watch.error:.3g}, that of the last value {self._watch.naive:.3g}"
        )

    def _shrink(self, times: int) -> None:
        """A quarter of the step size, so many times; all clients must follow."""
        self.method = smaller(self.method, 0.25**times)
        old, self._shrunk = self.task, self._shrunk + times
        task = Task.of(self.method, self.model, self.seed, old.passes, old.report_every, old.secure)
        self.task = replace(task, version=old.version)
        self.broadcasts = Broadcasting(self.method, self.seed)

    def describe(self, monitor: Monitor) -> None:
        """Say on the page how much smaller the steps are than those it names."""
        monitor.parameters["steps_after_divergence"] = f"1/{4**self._shrunk:,}" if self._shrunk else None

    def saved(
        self, numbers: Mapping[str, int], members: Mapping[str, Any], record: Mapping[str, Any]
    ) -> ServerState:
        """Everything that a server which takes over needs; `members` are the arrays of what is known of them."""
        return ServerState(
            identity=self._identity(),
            epoch=self.epoch,
            step=self.step,
            state={"state": self.state, **members},
            numbers=dict(numbers),
            counted=self._counted,
            record=record,
        )

    def _identity(self) -> dict[str, Any]:
        return {
            "federation": self.federation,
            "task": json.loads(self.task.encode()),
            "server": self.method.describe()["server"],
            "shrunk": self._shrunk,
        }

    def _changed(self, saved: ServerState) -> list[str]:
        """What is not as it was when `saved` was written."""
        before, mine = {"shrunk": 0, **saved.identity}, self._identity()
        mine["task"]["version"] = before["task"]["version"]
        return differences(before, mine)

    def resume(self, saved: ServerState) -> bool:
        """Continue; the model stays when method, step size, budget or clients are others than they were.

        Steps that were made smaller after a divergence stay so, unless something else is changed. Returns whether
        the server goes on with what it kept beside the model.
        """
        before, mine = dict(saved.identity), self._identity()
        fixed = [
            {"federation": one["federation"], "model": one["task"]["model"], "dim": one["task"]["dim"]}
            for one in (before, mine)
        ]
        ServerState.require_same(replace(saved, identity=fixed[0]), fixed[1])
        told = self.method, self.task
        self._shrink(int(before.get("shrunk", 0)))
        changed = self._changed(saved)
        if changed:
            (self.method, self.task), self._shrunk = told, 0
            self.broadcasts = Broadcasting(self.method, self.seed)
            changed = self._changed(saved)
        self.task = replace(self.task, version=int(before["task"]["version"]) + bool(changed))
        if changed:
            log.info(
                "server: task version %d keeps the model: %s", self.task.version, "; ".join(changed)[:600]
            )
        self.epoch = max(self.epoch, saved.epoch + 1)
        self.step = saved.step
        self._counted = tuple(saved.counted)
        params = np.asarray(leaves(saved.state)["state/params"], np.float32)
        first = first_state(self.method, params, len(saved.numbers))
        self.state = self._continued(saved, first, changed=bool(changed))
        self._watch = self._watching()
        return self.state is not first

    def _continued(self, saved: ServerState, first: RoundState, *, changed: bool) -> RoundState:
        """The saved state where it fits the method; else its model at the method's start, `first`.

        So also in another version where the server keeps what members said: they have forgotten it then.
        """
        forgotten = changed and self.method.client.kept > 0
        if forgotten or saved.identity["server"] != self.method.describe()["server"]:
            return first
        try:
            state: RoundState = saved.restore(first)
        except CheckpointError:
            return first
        return state
