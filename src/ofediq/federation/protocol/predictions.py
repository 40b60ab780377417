"""What a client predicts: answers with their certainty, those that wait for their label, and how they fared."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Numbers, Vector
from ofediq.errors import InputError, require_integer, shown
from ofediq.federation.protocol.inputs import Inputs
from ofediq.federation.protocol.reports import PendingReport, Report
from ofediq.federation.protocol.task import ModelSpec
from ofediq.federation.protocol.window import OpenWindow
from ofediq.methods import round as rounds
from ofediq.models import Model
from ofediq.models.base import Experts

REMEMBERED = 256
"""Predictions whose label has not come yet, unless a client says another number; the oldest are forgotten."""


class Prediction(NamedTuple):
    """An answer to one sample.

    Attributes:
        value: the label, as the task calls it, or a number.
        probabilities: of the labels, by label; None for a number.
        interval: where nine of ten targets were expected, from this client's own errors so far; None for a label, and
            before the first error.
        step: of the round whose model answered.
    """

    value: Any
    probabilities: dict[Any, float] | None
    interval: tuple[float, float] | None
    step: int


class Asked(NamedTuple):
    """A prediction that waits for its label: what the model read, and the models that answered."""

    row: Vector
    experts: Experts

    def answer(self, model: Model, inputs: Inputs, step: int) -> Prediction:
        """In the task's words."""
        value = np.asarray(model.predict_mixture(self.experts, self.row))[0].item()
        if not inputs.labelled:
            reach = inputs.past.misses.reach()
            interval = None if reach is None else (value - reach, value + reach)
            return Prediction(value, None, interval, step)
        chances = model.probabilities(self.experts, self.row)
        named = None if chances is None else {inputs.name(k): p for k, p in enumerate(chances[0].tolist())}
        return Prediction(inputs.name(value), named, None, step)


class Waiting:
    """Predictions whose label has not come yet.

    Args:
        most: so many; of more the oldest are forgotten.

    A sample is found by what the caller calls it, or else by its readings.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        self.most = require_integer("remember", most, 1)
        self._asked: OrderedDict[Any, Asked] = OrderedDict()

    def add(self, sample: Any, readings: Vector, asked: Asked) -> None:
        """Keep a prediction until its label comes."""
        key = _key(sample, readings)
        self._asked.pop(key, None)  # asked again it waits as long as any other
        self._asked[key] = asked
        while len(self._asked) > self.most:
            self._asked.popitem(last=False)

    def take(self, sample: Any, readings: Vector | None = None) -> Asked | None:
        """The prediction for a sample, which waits no longer; None if there was none."""
        return self._asked.pop(_key(sample, readings), None)

    def clear(self) -> None:
        """Forget all."""
        self._asked.clear()


class Judged(NamedTuple):
    """What a label says about a prediction."""

    row: Vector | None  # what the model had read; None if the label answers no prediction
    label: Numbers
    losses: tuple[Any, ...]  # of the models that answered


class Answers:
    """Predicts with what the open round has, and judges each prediction when its label comes.

    Args:
        remember: predictions that wait for their label, at most; of more the oldest are forgotten.

    Attributes:
        samples: labels that have come.
        pending: what has not been reported of them.
    """

    def __init__(self, remember: int) -> None:
        self.samples = 0
        self.pending = PendingReport()
        self._waiting = Waiting(remember)
        self._inputs: Inputs | None = None

    @property
    def inputs(self) -> Inputs:
        """How samples and labels are read."""
        if self._inputs is None:
            raise InputError("`client` must have received a task first, got none yet")
        return self._inputs

    def read_by(self, spec: ModelSpec | None, *, labelled: bool) -> None:
        """From here on by another task, whose client has seen no sample."""
        self._inputs = Inputs(spec, labelled=labelled)
        self._waiting.clear()

    def forecast(self, one: OpenWindow, x: Any, sample: Any, time: float | None) -> Prediction:
        """The prediction for one sample, which waits for its label."""
        readings = self.inputs.readings(x)
        asked = Asked(self.inputs.observe(readings, time), one.experts)
        self._waiting.add(sample, readings, asked)
        return asked.answer(one.model, self.inputs, one.opened.step)

    def judge(self, one: OpenWindow, x: Any, y: Any, sample: Any, time: float | None) -> Judged:
        """A label has come: of the prediction that was made for its sample, or else of what is held now."""
        inputs = self.inputs
        label = inputs.label(y)
        if inputs.stray(label):
            raise InputError(f"`y` must be a measurement, got {y!r}, which is far from all before it")
        asked = self._waiting.take(sample) if sample is not None else None
        if asked is None:
            if x is None:
                raise InputError(
                    f"`sample` must be one of the last {self._waiting.most} that wait for a label, got {sample!r}"
                )
            readings = inputs.readings(x)
            asked = self._waiting.take(None, readings) or Asked(inputs.observe(readings, time), one.experts)
        due = asked if x is None else inputs.due(asked, label)
        if due is None:
            return Judged(None, label, tuple(np.zeros(1, np.float32) for _ in asked.experts))
        _, errors, losses = rounds.judge(one.model, due.experts, due.row, label)
        self._count(label, float(errors[0]))
        return Judged(due.row, label, losses)

    def report(self, every: int, *, last: bool) -> Report:
        """What the next message says about predictions, see `PendingReport.due`."""
        labelled = self._inputs is not None and self._inputs.labelled
        return self.pending.due(every, counted=labelled, last=last)

    def _count(self, label: Numbers, error: float) -> None:
        naive = self.inputs.naive(label)
        # A guess from nothing says nothing: its error would be the target's size.
        blank = naive is None and self.inputs.anchored
        if not blank:
            self.pending.count(error, error if naive is None else naive)
        self.inputs.learn(label, None if blank else error)
        self.samples += 1


def _key(sample: Any, readings: Vector | None) -> Any:
    if sample is None and readings is not None:
        return readings.tobytes()
    try:
        hash(sample)
    except TypeError:
        raise InputError(f"`sample` must be a text, a number or a tuple, got {shown(sample)}") from None
    return sample
