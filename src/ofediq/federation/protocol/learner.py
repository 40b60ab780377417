"""`Learner`: a client without its network. Messages in, messages out.

One window of the method is one round here: the client starts from the common model, takes `period` samples, one
local step each, and then sends or not. It predicts before it learns, with the common model, or with what a personal
method mixes with it.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.codec import open_frame
from ofediq.errors import InputError
from ofediq.federation.protocol.memory import Memory, MemoryFile
from ofediq.federation.protocol.messages import (
    ModelMessage,
    Publish,
    Report,
    UpdateMessage,
    read_json,
    write_body,
    write_json,
)
from ofediq.federation.protocol.task import Task
from ofediq.methods import round as rounds
from ofediq.methods.client import Down, Outcome, Window
from ofediq.models import Model
from ofediq.models.base import Experts
from ofediq.randomness import Address

Vector = npt.NDArray[np.float32]

log = logging.getLogger("ofediq.federation")

REMEMBERED = 256
"""Predictions whose label has not come yet; the oldest are forgotten."""


@dataclass
class _Open:
    """The open round of a client."""

    task: Task
    model: Model
    number: int
    opened: ModelMessage
    window: Window  # a batch of one
    memory: Any  # as it was when the round opened
    taken: int = 0  # steps done
    said: bytes | None = None  # what it sent; the same bytes again if the server asks again

    @property
    def address(self) -> Address:
        """Of its draws, for a batch of one."""
        return Address(self.task.seed, self.opened.step, np.array([self.number]))

    @property
    def down(self) -> Down:
        """What the broadcast told it, and who it is."""
        return self.opened.down._replace(address=self.address)

    @property
    def experts(self) -> Experts:
        """What it predicts with now."""
        return self.task.method.client.experts(self.window, self.down, self.memory)


def _follows(one: _Open, opened: ModelMessage) -> bool:
    """Whether `opened` is the round right after `one`, of the same server."""
    before = opened.step - one.task.method.period
    return (one.opened.epoch, one.opened.step, one.opened.final) == (opened.epoch, before, False)


def _moved(one: _Open, opened: ModelMessage) -> Vector:
    """The model of the open round, moved by the difference in `opened`."""
    task, step = one.task, one.opened.step
    encoded, _ = open_frame(opened.difference or b"", range(step, step + 1))
    copy = np.asarray(one.opened.down.model)
    return task.method.broadcast.decode(encoded, True, copy, task.dim, task.seed, step)


class Learner:
    """The client's side of the protocol.

    Args:
        federation: the federation's name, first part of all topics.
        name: the client's own.
        model: for models that are not built in; every client and the server must use the same.
        file: where its memory outlives the process; None to keep it here alone.

    Feed it what arrives (`receive`) and the samples (`predict`, `learn`); publish what it returns.
    """

    def __init__(
        self, federation: str, name: str, model: Model | None = None, file: MemoryFile | None = None
    ) -> None:
        self.federation = federation
        self.name = name
        self.task: Task | None = None
        self.model = self._given = model
        self.number: int | None = None
        self.sent = 0
        self.samples = 0
        self._open: _Open | None = None
        self._memory: Memory | None = None  # None before the first model
        self._file = file
        self._took_part = False
        self._waiting: bytes | None = None  # a model that came before the task or the number
        self._report = Report()
        self._remembered: OrderedDict[bytes, Experts] = OrderedDict()

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The topics that a client listens to."""
        kinds = ("task", f"welcome/{self.name}", "model", "delta", f"whole/{self.name}")
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
        one = self._open
        return one is not None and not one.opened.final and one.taken < one.task.method.period

    @property
    def next_step(self) -> int:
        """The time step of the next sample, where a replayed stream looks it up."""
        one = self._opened()
        return one.opened.step - one.task.method.period + one.taken + 1

    @property
    def params(self) -> Vector:
        """The common model."""
        return np.asarray(self._opened().opened.down.model)

    @property
    def memory(self) -> Any:
        """What the method remembers, as far as the server has said what counted."""
        return () if self._memory is None else self._memory.lost

    def receive(self, kind: str, payload: bytes) -> list[Publish]:
        """A message of the server: `task`, `welcome`, `model`, ... Raises `WireError` if it is not understood."""
        if kind == "task":
            return self._on_task(Task.decode(payload))
        if kind == "welcome":
            content = read_json("welcome", payload)
            number = content.get("number")
            if not isinstance(number, int) or not 0 <= number < 2**32 - 1:
                raise InputError(f"`number` must be an integer below 2^32 - 1, got {number!r}")
            self.number = number
            here = [] if content.get("online") is not False else [self._here()]  # it is taken for gone
            return here + self._on_waiting()
        if kind in ("model", "delta", "whole") and payload:  # an empty one says that there is none yet
            self._waiting = payload
            return self._on_waiting()
        return []

    def predict(self, x: Any) -> Any:
        """The client's prediction for one sample: a class or a number."""
        one, sample = self._opened(), self._sample(x)
        experts = self._remembered[sample.tobytes()] = one.experts
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        return np.asarray(one.model.predict_mixture(experts, sample))[0].item()

    def learn(self, x: Any, y: Any) -> tuple[bool, list[Publish]]:
        """Take one labelled sample; returns whether this round had room for it, and what to send.

        The prediction that counts is the one that `predict` made for this sample, however long ago, or else that of
        what it holds now. A sample that comes when the round has had its share is counted, not learnt.
        """
        one, sample, label = self._opened(), self._sample(x), self._label(y)
        losses = self._judge(sample, label)
        if not self.hungry:
            return False, []
        one.window = rounds.learn(
            one.task.method,
            one.window,
            lambda at: np.asarray(one.model.client_gradients(at, sample, label)),
            np.ones(1, bool),
            one.down,
            one.memory,
            losses,
        )
        return True, self._advance(one)

    def skip(self) -> list[Publish]:
        """This step has no sample."""
        return self._advance(self._opened()) if self.hungry else []

    def farewell(self) -> list[Publish]:
        """What is left to report when the client leaves."""
        if self.number is None or not self._report.samples:
            return []
        return [self._publish(self.step, b"")]

    def _on_task(self, task: Task) -> list[Publish]:
        if task == self.task:
            return []
        model = self._given if task.model is None else task.model.build()
        if model is None:
            raise InputError("`model` must be given to this client: the federation's is not a built-in one")
        if model.dim != task.dim:
            raise InputError(f"`model` must have {task.dim} parameters, got {model.dim}")
        self.task, self.model, self._open, self._memory = task, model, None, None
        return self._on_waiting()

    def _on_waiting(self) -> list[Publish]:
        """Open the round of the model that arrived, once task and number are known."""
        if self._waiting is None or self.task is None or self.model is None or self.number is None:
            return []
        payload, self._waiting = self._waiting, None
        method = self.task.method
        opened = ModelMessage.decode(
            payload,
            self.task.dim,
            tuple(method.server.vectors),
            tuple(method.server.scalars),
            method.client.receipts,
        )
        one = self._open
        if one is not None:
            if (opened.epoch, opened.step) < (one.opened.epoch, one.opened.step):
                return []  # delayed or stale
            if opened.step == one.opened.step and not opened.final:  # asked again, maybe after a restart
                one.opened = opened if opened.difference is None else replace(opened, down=one.opened.down)
                return [] if one.said is None else [self._topic(one.said)]
        if opened.difference is not None:
            if one is None or not _follows(one, opened):
                return self._greet_again()
            opened = replace(opened, down=opened.down._replace(model=_moved(one, opened)))
        memory = self._recall(self.task, self.number, opened)
        here = Address(self.task.seed, opened.step, np.array([self.number]))
        window = rounds.open_window(method, opened.down._replace(address=here), memory, 1)
        one = self._open = _Open(self.task, self.model, self.number, opened, window, memory)
        self._took_part |= not opened.final
        if opened.final or self._memory is None or self._memory.step != opened.step:
            return []
        # It closed this very window before it was restarted: what it said then holds.
        one.taken = method.period
        one.said = self._memory.said or None
        return [] if one.said is None else [self._topic(one.said)]

    def _recall(self, task: Task, number: int, opened: ModelMessage) -> Any:
        """What it remembers when a round opens: the receipt tells whether its last update counted."""
        first = Memory.first(rounds.first_memory(task.method, opened.down.model, 1))
        memory = self._memory
        if memory is None:
            memory = first if self._file is None else self._file.read(first, self._identity(task))
        if memory.step > opened.step:
            if not memory.empty:
                log.warning("client %s: its memory is of another run, it starts clean", self.name)
            memory = first
        before = opened.step if opened.final else opened.step - task.method.period
        if memory.step <= before:
            memory = memory.told(memory.step == before and number in (opened.counted or ()))
        self._memory = memory
        return memory.lost

    def _identity(self, task: Task) -> dict[str, Any]:
        return {"federation": self.federation, "name": self.name, "task": json.loads(task.encode())}

    def _greet_again(self) -> list[Publish]:
        """It missed what the difference is added to: the server answers a greeting with the whole model."""
        if self._open is not None:
            self._open.taken = self._open.task.method.period  # that round is over
        return [self._here()]

    def _here(self) -> Publish:
        return Publish(f"{self.federation}/here/{self.name}", write_json(online=True), retain=True)

    def _opened(self) -> _Open:
        if self._open is None:
            raise InputError("`client` must have received a model first, got none yet")
        return self._open

    def _advance(self, one: _Open) -> list[Publish]:
        """One step is done; at the end of the window send, or not."""
        one.taken += 1
        if one.taken < one.task.method.period:
            return []
        body, lost, counted = self._close(one)
        said = [self._publish(one.opened.step, body)] if body or one.task.passes else []
        self.sent += bool(body)
        one.said = said[0].payload if said else None
        self._memory = Memory(lost, counted, one.opened.step, one.said or b"")
        if self._file is not None:  # before anything is sent
            self._file.write(self._memory, self._identity(one.task))
        return said

    def _close(self, one: _Open) -> tuple[bytes, Any, Any]:
        """This round's messages, empty if the draw says no; its memories if they are lost, and if they count."""
        method, down, step = one.task.method, one.down, one.opened.step
        if one.number >= one.opened.clients:  # it joined after this round was opened
            return b"", one.memory, one.memory
        decision = rounds.decide(method, one.window, down, one.memory, one.address, one.opened.clients)
        sends = bool(decision.sends[0])
        address, messages, decoded = Address(one.task.seed, step, one.number), {}, {}
        for name, rows in decision.wanted.items():
            piece = method.compressor(name)
            decoded[name] = np.zeros_like(rows)
            if sends:
                signal = None if piece.signal is None else float(down.scalars[piece.signal])
                messages[name] = piece.encode(rows[0], address, signal)
                decoded[name] = piece.decode(messages[name], rows.shape[-1], address, signal)[None]
        if not sends and method.client.idle:
            return b"", one.memory, one.memory
        outcome = Outcome(decision.wanted, decoded, decision.sends)
        lost = counted = rounds.settle(method, one.memory, one.window, outcome, down)
        if sends and method.client.receipts:
            nothing = outcome._replace(accepted=np.zeros(1, bool))
            lost = rounds.settle(method, one.memory, one.window, nothing, down)
        return write_body(messages, step) if sends else b"", lost, counted

    def _judge(self, sample: Vector, label: npt.NDArray[Any]) -> tuple[Any, ...]:
        """Count the prediction for a sample whose label is known now; returns the losses of its experts."""
        one = self._opened()
        experts = self._remembered.pop(sample.tobytes(), None) or one.experts
        loss, error, losses = rounds.judge(one.model, experts, sample, label)
        self._report = self._report.plus(float(loss[0]), float(error[0]))
        self.samples += 1
        return losses

    def _publish(self, step: int, body: bytes) -> Publish:
        report, self._report = self._report.split()
        return self._topic(UpdateMessage(report, step, body).encode())

    def _topic(self, payload: bytes) -> Publish:
        return Publish(f"{self.federation}/u/{self.name}", payload)

    def _sample(self, x: Any) -> Vector:
        """One sample with a leading axis of one: an array, a sequence, or River's dict of features."""
        values = self._by_name(x) if isinstance(x, Mapping) else x
        try:
            sample = np.asarray(values, np.float32)[None]
        except (TypeError, ValueError):
            raise InputError(f"`x` must hold numbers, got {x!r}") from None
        spec = None if self.task is None else self.task.model
        if spec is not None and sample.size != np.prod(spec.shape):
            raise InputError(f"`x` must have {int(np.prod(spec.shape))} numbers, got {sample.size}")
        if not np.isfinite(sample).all():
            raise InputError("`x` must be finite, got NaN or infinity")
        return sample if spec is None else sample.reshape(1, *spec.shape)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of a sample's numbers, as the task has them; none before it came."""
        return () if self.task is None or self.task.model is None else self.task.model.features

    def _by_name(self, x: Mapping[str, Any]) -> list[Any]:
        """The values of a dict in the task's order."""
        names = self.features
        if not names:
            raise InputError("`x` must be a list or an array where the task names no features, got a dict")
        for name in [*names, *x]:
            if (name in x) != (name in names):
                which = "has no" if name in names else "has also"
                raise InputError(
                    f"`x` must have the task's features and no others, got one that {which} {name!r}"
                )
        return [x[name] for name in names]

    def _label(self, y: Any) -> npt.NDArray[Any]:
        one = self._opened()
        try:
            number = float(y)
        except (TypeError, ValueError):
            raise InputError(f"`y` must be a number, got {y!r}") from None
        if one.model.task == "regression":
            if not np.isfinite(number):
                raise InputError(f"`y` must be finite, got {y!r}")
            return np.asarray([number], np.float32)
        classes = None if one.task.model is None else one.task.model.classes
        limit = 2**31 if classes is None else classes
        if not number.is_integer() or not 0 <= number < limit:
            raise InputError(f"`y` must be a class from 0 to {limit - 1}, got {y!r}")
        return np.asarray([int(number)])
