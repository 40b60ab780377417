"""`Learner`: a client without its network. Messages in, messages out.

One window of the method is one round here: the client starts from the common model, takes `period` samples, one
local step each, and then sends or not. It predicts before it learns, always with the common model.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq import codec
from ofediq.errors import InputError
from ofediq.federation.protocol.messages import ModelMessage, Publish, Report, UpdateMessage, read_json
from ofediq.federation.protocol.task import Task
from ofediq.methods.participation import NormProportional
from ofediq.models import Model

Vector = npt.NDArray[np.float32]

REMEMBERED = 256
"""Predictions whose label has not come yet; the oldest are forgotten."""


@dataclass
class _Window:
    """What a client does between two broadcasts."""

    task: Task
    model: Model
    number: int
    opened: ModelMessage
    own: Vector  # g, its own model
    gradients: Vector  # added up
    taken: int = 0  # steps done
    seen: bool = False  # whether there was a sample among them
    said: bytes | None = None  # what it sent; the same bytes again if the server asks again


class Learner:
    """The client's side of the protocol.

    Args:
        federation: the federation's name, first part of all topics.
        name: the client's own.
        model: for models that are not built in; every client and the server must use the same.

    Feed it what arrives (`receive`) and the samples (`predict`, `learn`); publish what it returns.
    """

    def __init__(self, federation: str, name: str, model: Model | None = None) -> None:
        self.federation = federation
        self.name = name
        self.task: Task | None = None
        self.model = self._given = model
        self.number: int | None = None
        self.sent = 0
        self.samples = 0
        self._window: _Window | None = None
        self._took_part = False
        self._waiting: bytes | None = None  # a model that came before the task or the number
        self._report = Report()
        self._remembered: OrderedDict[bytes, Vector] = OrderedDict()

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The topics that a client listens to."""
        return tuple(f"{self.federation}/{kind}" for kind in ("task", f"welcome/{self.name}", "model"))

    @property
    def ready(self) -> bool:
        """Whether it has a model to predict with."""
        return self._window is not None

    @property
    def finished(self) -> bool:
        """Whether learning is over, in a federation in which this client took part.

        A client that finds nothing but a final model waits for a new run, and may predict with it meanwhile.
        """
        return self._took_part and self._window is not None and self._window.opened.final

    @property
    def step(self) -> int:
        """t of the open round, 0 before the first."""
        return 0 if self._window is None else self._window.opened.step

    @property
    def hungry(self) -> bool:
        """Whether this round still takes samples."""
        window = self._window
        return window is not None and not window.opened.final and window.taken < window.task.period

    @property
    def next_step(self) -> int:
        """The time step of the next sample, where a replayed stream looks it up."""
        window = self._opened()
        return window.opened.step - window.task.period + window.taken + 1

    @property
    def params(self) -> Vector:
        """The common model."""
        return self._opened().opened.params

    def receive(self, kind: str, payload: bytes) -> list[Publish]:
        """A message of the server: `task`, `welcome` or `model`. Raises `WireError` if it is not understood."""
        if kind == "task":
            return self._on_task(Task.decode(payload))
        if kind == "welcome":
            number = read_json("welcome", payload).get("number")
            if not isinstance(number, int) or not 0 <= number < 2**32 - 1:
                raise InputError(f"`number` must be an integer below 2^32 - 1, got {number!r}")
            self.number = number
            return self._on_waiting()
        if kind == "model" and payload:  # an empty one says that there is none yet
            self._waiting = payload
            return self._on_waiting()
        return []

    def predict(self, x: Any) -> Any:
        """The prediction of the common model for one sample: a class or a number."""
        window, sample = self._opened(), self._sample(x)
        self._remembered[sample.tobytes()] = window.opened.params
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        return np.asarray(window.model.predict(window.opened.params, sample))[0].item()

    def learn(self, x: Any, y: Any) -> tuple[bool, list[Publish]]:
        """Take one labelled sample; returns whether this round had room for it, and what to send.

        The prediction that counts is the one that `predict` made for this sample, however long ago, or else that of
        the present common model. A sample that comes when the round has had its share is counted, not learnt.
        """
        window, sample, label = self._opened(), self._sample(x), self._label(y)
        self._judge(sample, label)
        if not self.hungry:
            return False, []
        gradient = np.asarray(window.model.client_gradients(window.own, sample, label))[0]
        window.gradients = window.gradients + gradient
        window.own = np.asarray(window.task.local.step(window.own, gradient))
        window.seen = True
        return True, self._advance(window)

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
        self.task, self.model, self._window = task, model, None
        return self._on_waiting()

    def _on_waiting(self) -> list[Publish]:
        """Open the round of the model that arrived, once task and number are known."""
        if self._waiting is None or self.task is None or self.model is None or self.number is None:
            return []
        payload, self._waiting = self._waiting, None
        opened = ModelMessage.decode(payload, self.task.dim)
        window = self._window
        if window is not None:
            if (opened.epoch, opened.step) < (window.opened.epoch, window.opened.step):
                return []  # delayed or stale
            if opened.step == window.opened.step and not opened.final:  # asked again, maybe after a restart
                window.opened = opened
                return [] if window.said is None else [self._topic(window.said)]
        zeros = np.zeros_like(opened.params)
        self._window = _Window(self.task, self.model, self.number, opened, opened.params, zeros)
        self._took_part |= not opened.final
        return []

    def _opened(self) -> _Window:
        if self._window is None:
            raise InputError("`client` must have received a model first, got none yet")
        return self._window

    def _advance(self, window: _Window) -> list[Publish]:
        """One step is done; at the end of the window send, or not."""
        window.taken += 1
        if window.taken < window.task.period:
            return []
        frame = _frame(window)
        if frame is None and not window.task.passes:
            return []
        said = self._publish(window.opened.step, frame or b"")
        self.sent += frame is not None
        window.said = said.payload
        return [said]

    def _judge(self, sample: Vector, label: npt.NDArray[Any]) -> None:
        """Count the prediction for a sample whose label is known now."""
        window = self._opened()
        params = self._remembered.pop(sample.tobytes(), window.opened.params)
        loss, error = window.model.evaluate(params, sample, label)
        self._report = self._report.plus(float(loss[0]), float(error[0]))
        self.samples += 1

    def _publish(self, step: int, frame: bytes) -> Publish:
        report, self._report = self._report.split()
        return self._topic(UpdateMessage(report, step, frame).encode())

    def _topic(self, payload: bytes) -> Publish:
        return Publish(f"{self.federation}/u/{self.name}", payload)

    def _sample(self, x: Any) -> Vector:
        """One sample with a leading axis of one: an array, a sequence, or River's dict of features."""
        values = list(x.values()) if isinstance(x, dict) else x
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

    def _label(self, y: Any) -> npt.NDArray[Any]:
        window = self._opened()
        try:
            number = float(y)
        except (TypeError, ValueError):
            raise InputError(f"`y` must be a number, got {y!r}") from None
        if window.model.task == "regression":
            if not np.isfinite(number):
                raise InputError(f"`y` must be finite, got {y!r}")
            return np.asarray([number], np.float32)
        classes = None if window.task.model is None else window.task.model.classes
        limit = 2**31 if classes is None else classes
        if not number.is_integer() or not 0 <= number < limit:
            raise InputError(f"`y` must be a class from 0 to {limit - 1}, got {y!r}")
        return np.asarray([int(number)])


def _frame(window: _Window) -> bytes | None:
    """The bytes of this round's update, if there is one and the draw says so."""
    task, opened, number = window.task, window.opened, window.number
    if not window.seen or number >= opened.clients:  # it joined after this round was opened
        return None
    who = np.array([number])
    rate: Any
    if isinstance(task.participation, NormProportional):
        norms = np.array([np.linalg.norm(window.gradients)], np.float32)
        rate = task.participation.probabilities(norms, np.float32(opened.signal))[0]
        active = task.participation.draws(task.seed, opened.step, who)[0] < rate
    else:
        rate = task.participation.rates(opened.clients)[number]
        active = task.participation.active(task.seed, opened.step, who, opened.clients)[0]
    if not active:
        return None
    update = window.gradients / rate
    message = task.compress.message(update, task.seed, opened.step, number, opened.signal)
    return codec.encode(message, coding=task.compress.coding)
