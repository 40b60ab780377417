"""What a client predicted: answers with their certainty, and those that wait for their label."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Vector
from ofediq.errors import InputError, require_integer, shown
from ofediq.federation.protocol.inputs import Inputs
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


def _key(sample: Any, readings: Vector | None) -> Any:
    if sample is None and readings is not None:
        return readings.tobytes()
    try:
        hash(sample)
    except TypeError:
        raise InputError(f"`sample` must be a text, a number or a tuple, got {shown(sample)}") from None
    return sample
