"""`Learner`: a client without its network. Messages in, messages out.

One window of the method is one round here: the client starts from the common model, takes `period` samples, one
local step each, and then sends or not. It predicts before it learns, with the common model, or with what a personal
method mixes with it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import numpy as np

from ofediq.arrays import Vector
from ofediq.errors import InputError, WireError
from ofediq.federation.protocol.limits import Limits
from ofediq.federation.protocol.memory import Memory, MemoryFile, Recall
from ofediq.federation.protocol.messages import (
    LostError,
    ModelMessage,
    Publish,
    UpdateMessage,
    is_difference,
    read_body,
    read_json,
    write_json,
)
from ofediq.federation.protocol.predictions import REMEMBERED, Answers, Prediction
from ofediq.federation.protocol.rehearsal import rehearse
from ofediq.federation.protocol.task import Task, differences, version_of
from ofediq.federation.protocol.window import OpenWindow
from ofediq.models import Model

log = logging.getLogger("ofediq.federation")

STALE = 16
"""After so many broadcasts of an earlier server in a row, with none between them, a client follows it again."""


class Learner:
    """The client's side of the protocol.

    Args:
        federation: the federation's name, first part of all topics.
        name: the client's own.
        model: for models that are not built in; every client and the server must use the same.
        file: where its memory outlives the process; None to keep it here alone.
        limits: what it takes from a server at most.
        remember: predictions that wait for their label, at most; of more the oldest are forgotten.

    Feed it what arrives (`receive`) and the samples (`predict`, `learn`); publish what it returns.
    """

    def __init__(
        self,
        federation: str,
        name: str,
        model: Model | None = None,
        file: MemoryFile | None = None,
        remember: int = REMEMBERED,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.federation = federation
        self.name = name
        self.task: Task | None = None
        self.model = self._given = model
        self.number: int | None = None
        self.sent = 0
        self._open: OpenWindow | None = None
        self._recall = Recall(federation, name, file)
        self._took_part = False
        self._asked_from = 0  # step of the round since which it asked for what it missed
        self._stale = 0  # broadcasts of an earlier server in a row
        self._apart = False  # whether it has a task of its own, before the others
        self._common: dict[str, bytes] = {}  # what all others were told
        self._waiting: bytes | None = None  # a model that came before the task or the number
        self.position = 0  # rows of its source that it has read
        self.answers = Answers(remember)

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The topics that a client listens to."""
        own = (f"{kind}/{self.name}" for kind in ("welcome", "whole", "shares"))
        kinds = ("task", "model", "d", "cohort", *own)
        return tuple(f"{self.federation}/{kind}" for kind in kinds)

    @property
    def ready(self) -> bool:
        """Whether it has a model to predict with."""
        return self._open is not None

    @property
    def finished(self) -> bool:
        """Whether learning is over, in a federation in which this client took part.

        A client that finds nothing but a final model waits for a new run, and may predict with it meanwhile.
        """
        return self._took_part and self._open is not None and self._open.opened.final

    @property
    def step(self) -> int:
        """t of the open round, 0 before the first."""
        return 0 if self._open is None else self._open.opened.step

    @property
    def hungry(self) -> bool:
        """Whether this round still takes samples."""
        return self._open is not None and self._open.hungry

    @property
    def next_step(self) -> int:
        """The time step of the next sample, where a replayed stream looks it up."""
        one = self._opened()
        return one.opened.step - one.length + one.taken + 1

    @property
    def params(self) -> Vector:
        """The common model."""
        return np.asarray(self._opened().opened.down.model)

    @property
    def memory(self) -> Any:
        """What the method remembers, as far as the server has said what counted."""
        return () if self._recall.memory is None else self._recall.memory.lost

    def receive(self, kind: str, payload: bytes) -> list[Publish]:
        """A message of the server: `task`, `welcome`, `model`, ... Raises `WireError` if it is not understood."""
        self.limits.check(kind, payload=len(payload))
        if kind == "task":
            self._common[kind] = payload
            return [] if self._apart else self._on_task(self._understood(payload))
        if kind == "welcome":
            content = read_json("welcome", payload)
            number = content.get("number")
            if not isinstance(number, int) or not 0 <= number < 2**32 - 1:
                raise InputError(f"`number` must be an integer below 2^32 - 1, got {number!r}")
            self.number = number
            here = (
                [] if content.get("online") is not False else [self._here(**self.place)]
            )  # it is taken for gone
            return here + self._placed(content.get("task")) + self._on_waiting()
        if kind in ("cohort", "shares") and self._open is not None and self._open.secure is not None:
            said, body = self._open.secure.receive(kind, payload)
            return said + self._masked(self._open, body)
        if kind in ("model", "d") and self._apart:
            self._common["model"] = payload
            return []
        if kind in ("model", "d", "whole") and payload:  # an empty one says that there is none yet
            self._waiting = payload
            return self._on_waiting()
        return []

    def predict(self, x: Any, *, sample: Any = None, time: float | None = None) -> Any:
        """The client's prediction for one sample: a label or a number."""
        return self.forecast(x, sample=sample, time=time).value

    def forecast(self, x: Any, *, sample: Any = None, time: float | None = None) -> Prediction:
        """The prediction with probabilities or an interval.

        Arguments:
            x: an array, a sequence, or a dict by the names in the task.
            sample: what the caller calls it, so that a label which comes late finds it; else x itself does.
            time: of the sample, in seconds since 1970; now if left out.
        """
        return self.answers.forecast(self._opened(), x, sample, time)

    @np.errstate(
        over="ignore", invalid="ignore"
    )  # of a model that has diverged, which the server sees in reports
    def learn(
        self, x: Any, y: Any, *, sample: Any = None, time: float | None = None
    ) -> tuple[bool, list[Publish]]:
        """Take one labelled sample; returns whether this round had room for it, and what to send.

        The prediction that counts is the one that `predict` made for this sample, however long ago, or else that of
        what it holds now. A sample that comes when the round has had its share is counted, not learnt.
        With the `sample` that `predict` was given, x may be None, and y is its label. With x they are one row: where
        the task predicts N rows ahead, y is the label of the sample N - 1 rows before.
        """
        one = self._opened()
        judged = self.answers.judge(one, x, y, sample, time)
        if not self.hungry:
            return False, []
        one.learn(*judged)
        return True, self._advance(one)

    def skip(self) -> list[Publish]:
        """This step has no sample."""
        return self._advance(self._opened()) if self.hungry else []

    def farewell(self) -> list[Publish]:
        """What is left to report when the client leaves; what it remembers is on disk then."""
        if self.task is not None:
            self._recall.leave(self.task, self.answers.inputs.past, self.position)
        if self.number is None or self.task is None or not self.answers.pending.report.samples:
            return []
        if not self.task.report_every:
            return []
        return [self._publish(self.step, b"", last=True)]

    def _placed(self, own: Any) -> list[Publish]:
        """Follow a task of its own, or, where it has none any more, that of all others."""
        if own is None and not self._apart:
            return []
        said = []
        if self._apart != (own is not None):
            said = [self._here()]  # what it says from here on is about this one
        self._apart, payload = own is not None, self._common.get("task")
        if isinstance(own, dict):
            payload = write_json(**{key: value for key, value in own.items() if key != "protocol"})
        said += [] if payload is None else self._on_task(self._understood(payload))
        if not self._apart:
            self._waiting = self._common.pop("model", None) or None
        return said

    def _understood(self, payload: bytes) -> Task:
        try:
            return Task.decode(payload, self.limits)
        except WireError as error:
            if self.task is not None and not version_of(payload) > self.task.version:
                raise
            self._open = self.task = None  # what it knows is over: it takes no part until it is told better
            raise WireError(f"{error}; client {self.name} takes no part until it can follow") from None

    def _on_task(self, task: Task) -> list[Publish]:
        if task == self.task:
            return []
        if self.task is not None:
            changed = differences(*(json.loads(one.encode()) for one in (self.task, task)))
            log.info("client %s: new task, %s", self.name, "; ".join(changed)[:600])
            if task.version != self.task.version:
                self.answers.pending.forget()  # what another version predicted says nothing about this one
        model = self._given if task.model is None else task.model.build()
        if model is None:
            raise InputError("`model` must be given to this client: the federation's is not a built-in one")
        if model.dim != task.dim:
            raise InputError(f"`model` must have {task.dim} parameters, got {model.dim}")
        rehearse(task, model)
        if self.task is None or task.model != self.task.model:
            self.answers.read_by(task.model, labelled=model.task == "classification")
        self._recall.changed(self.task, task)
        self.task, self.model, self._open = task, model, None
        return self._on_waiting()

    def _on_waiting(self) -> list[Publish]:
        """Open the round of the model that arrived, once task and number are known."""
        if self._waiting is None or self.task is None or self.model is None or self.number is None:
            return []
        payload, self._waiting = self._waiting, None
        if self._open is None and is_difference(payload):
            return self._greet_again()
        try:
            opened = self.task.read(payload) if self._open is None else self._open.read(payload)
        except LostError:
            return self._greet_again()
        self.limits.check("model", clients=opened.clients)
        if self._delayed(opened):
            return []
        one = self._open
        if one is not None and opened.step == one.opened.step and not opened.final:
            return self._asked_again(one, opened)
        if opened.difference is not None:
            if one is None or not one.precedes(opened):
                return self._greet_again()
            opened = replace(opened, down=opened.down._replace(model=one.moved(opened)))
        return self._begin(self.task, self.model, self.number, opened)

    def _delayed(self, opened: ModelMessage) -> bool:
        """Whether a broadcast is older than the open round; if only such come, that round is no more."""
        one = self._open
        stale = one is not None and (opened.epoch, opened.step) < (one.opened.epoch, one.opened.step)
        self._stale = self._stale + 1 if stale else 0
        if self._stale < STALE:
            return stale
        # Nobody else has spoken for long: what it believed came from no real server.
        log.warning("client %s: it goes back to an earlier server", self.name)
        self._stale, self._open = 0, None
        return False

    def _asked_again(self, one: OpenWindow, opened: ModelMessage) -> list[Publish]:
        """The open round is announced again, maybe after a restart: it says what it has said."""
        again = opened.epoch != one.opened.epoch  # the members of a restarted server begin anew
        one.opened = opened if opened.difference is None else replace(opened, down=one.opened.down)
        if one.secure is not None:
            return one.take_part(self.federation, self.name, one.secure.payload) if again else []
        return [] if one.said is None else [self._topic(one.said)]

    def _begin(self, task: Task, model: Model, number: int, opened: ModelMessage) -> list[Publish]:
        """A round that it did not have opens."""
        inputs = self.answers.inputs
        memory = self._recall.opened(task, number, opened, inputs.nothing())
        if not self.answers.samples:  # the first round of this process
            inputs.past, self.position = memory.past, memory.position
        one = self._open = OpenWindow.of(task, model, number, opened, memory.lost)
        self._took_part |= not opened.final
        if opened.final or memory.step != opened.step:
            clean = [self._here(clean=True, **self.place)] if self._recall.clean else []
            return [] if opened.final else [*clean, *one.take_part(self.federation, self.name)]
        # It closed this very window before it was restarted: what it said then holds.
        one.taken = one.length
        one.said = memory.said or None
        return [] if one.said is None else [self._topic(one.said)]

    def _masked(self, one: OpenWindow, body: bytes) -> list[Publish]:
        """The update under its masks, if it can be sent now."""
        self.sent += bool(body)
        return [self._publish(one.opened.step, body)] if body else []

    def _greet_again(self) -> list[Publish]:
        """It missed what the difference is added to: the server answers a greeting with that, or the whole model."""
        if self._open is not None:
            self._open.taken = self._open.length  # that round is over
        again, self._asked_from = self._asked_from == self.step, self.step
        return [self._here(**({} if again else self.place))]  # what did not help once is not asked for again

    @property
    def place(self) -> dict[str, int]:
        """Of which server's model it has which round; nothing before the first."""
        return {} if self._open is None else {"epoch": self._open.opened.epoch, "step": self.step}

    def _here(self, **said: int) -> Publish:
        topic, content = f"{self.federation}/here/{self.name}", write_json(online=True, **said)
        return Publish(topic, content, retain="clean" not in said)  # that is not for a server to come

    def _opened(self) -> OpenWindow:
        if self._open is None:
            raise InputError("`client` must have received a model first, got none yet")
        return self._open

    def _advance(self, one: OpenWindow) -> list[Publish]:
        """One step is done; at the end of the window send, or not."""
        one.taken += 1
        if one.taken < one.length:
            return []
        body, lost, counted = one.close(self.name)
        self.answers.pending.closed()
        if one.task.secure:  # nothing leaves without masks
            self._recall.closed(self._present(lost, counted, one))
            if not body or one.secure is None:
                return []
            one.secure.payload = read_body(body, ("update",), one.opened.step)["update"].payload
            return self._masked(one, one.secure.body())
        # Whoever is due and has nothing to send says so: nobody waits for it.
        said = [self._publish(one.opened.step, body)] if body or one.task.passes or one.due else []
        self.sent += bool(body)
        one.said = said[0].payload if said else None
        self._recall.closed(self._present(lost, counted, one), one.task)  # before anything is sent
        return said

    def _present(self, lost: Any, counted: Any, one: OpenWindow) -> Memory:
        """What it remembers at the end of a window."""
        return Memory(
            lost, counted, one.opened.step, one.said or b"", self.answers.inputs.past, self.position
        )

    def _publish(self, step: int, body: bytes, *, last: bool = False) -> Publish:
        every = 1 if self.task is None else self.task.report_every
        return self._topic(UpdateMessage(self.answers.report(every, last=last), step, body).encode())

    def _topic(self, payload: bytes) -> Publish:
        return Publish(f"{self.federation}/u/{self.name}", payload)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of a sample's numbers, as the task has them; none before it came."""
        return () if self.task is None or self.task.model is None else self.task.model.features
