"""`Inputs`: from what a caller gives to what a model reads, by the task; and the past that features need.

Names, types and order of readings and labels are the task's: a dict is read by name, a label by its text. With a
pipeline every client makes its own features online, with the same bits as in the simulator.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Floats, Numbers, Vector
from ofediq.errors import DataError, InputError, shown
from ofediq.federation import clock
from ofediq.federation.protocol.intervals import Misses
from ofediq.federation.protocol.task import ModelSpec
from ofediq.streams.cells import NO_NUMBER, amount
from ofediq.streams.features import PipelineMemory, known
from ofediq.streams.strays import Lookout

Row = Vector


class Past(NamedTuple):
    """What a client remembers of its own samples.

    Attributes:
        last: its last label, [1]; NaN before the first.
        features: of the pipeline; empty without one.
        misses: its errors so far, for intervals.
    """

    last: Floats
    features: PipelineMemory | tuple[()]
    misses: Misses


class Inputs:
    """Reads samples and labels.

    >>> spec = ModelSpec("softmax", (2,), "classification", features=("heat", "light"), labels=("hot", "ok"))
    >>> inputs = Inputs(spec, labelled=True)
    >>> inputs.readings({"light": 0.0, "heat": 30.0}).tolist(), inputs.label("ok").tolist()
    ([[30.0, 0.0]], [1])
    """

    def __init__(self, spec: ModelSpec | None, *, labelled: bool) -> None:
        self.spec, self.labelled = spec, labelled
        self.pipeline = None if spec is None else spec.pipeline
        self.past = self.nothing()
        self._ahead = 1 if self.pipeline is None else self.pipeline.target.ahead
        self._rows: deque[Any] = deque()  # of samples whose target is that of a later one
        # Not remembered over a restart: ranges are soon known again.
        self._lookout = Lookout(0 if self.pipeline is None else len(self.pipeline.readings.names))
        self._targets = Lookout(1)

    def nothing(self) -> Past:
        """The past of a client that has seen no sample."""
        memory = () if self.pipeline is None else self.pipeline.memory()
        return Past(np.full(1, np.nan), memory, Misses.none())

    def readings(self, x: Any) -> Row:
        """One sample with a leading axis of one: an array, a sequence, or River's dict of features."""
        if isinstance(x, Mapping):
            values = self._by_name(x)
        else:
            try:
                given = np.asarray(x, np.float64)[None]
                with np.errstate(over="ignore"):
                    values = given.astype(np.float32) if self.pipeline is None else _read(given)
            except (TypeError, ValueError):
                raise InputError(f"`x` must hold numbers, got {x!r}") from None
        spec = self.spec
        if spec is not None and values.size != np.prod(spec.shape):
            raise InputError(f"`x` must have {int(np.prod(spec.shape))} numbers, got {values.size}")
        if np.isinf(values).any() or (self.pipeline is None and np.isnan(values).any()):
            raise InputError("`x` must be finite, got NaN or infinity")
        return values if spec is None else values.reshape(1, *spec.shape)

    def many(self, samples: Any) -> Row:
        """Several samples, [n, ...]: an array of them, or a sequence of what `readings` takes; without a pipeline."""
        if not isinstance(samples, np.ndarray) and any(isinstance(one, Mapping) for one in samples):
            return np.concatenate([self.readings(one) for one in samples])
        assert self.spec is not None
        shape = self.spec.shape
        try:
            with np.errstate(over="ignore"):
                values = np.asarray(samples, np.float32)
        except (TypeError, ValueError):
            raise InputError(
                f"`x` must hold samples of {list(shape)} numbers, got {shown(samples)}"
            ) from None
        one = values.shape == shape
        if values.size and not one and math.prod(values.shape[1:]) != math.prod(shape):
            raise InputError(f"`x` must have samples of shape {list(shape)}, got {list(values.shape)}")
        if not np.isfinite(values).all():
            raise InputError("`x` must be finite, got NaN or infinity")
        return values.reshape(-1 if values.size else 0, *shape)

    def observe(self, readings: Row, time: float | None) -> Row:
        """What the model reads at these `readings`, taken at `time`, or now; they count as seen."""
        try:
            moment = clock.now() if time is None else float(time)
        except (TypeError, ValueError):
            raise InputError(f"`time` must be seconds since 1970, got {shown(time)}") from None
        if self.pipeline is None:
            return readings
        assert isinstance(self.past.features, PipelineMemory)
        if self.pipeline.calendar and not np.isfinite(moment):
            raise InputError(
                "`time` must be an ISO 8601 date, another date of which day and month can be told, or seconds since "
                "1970, got none that can be read"
            )
        values = self._lookout.clean(readings)
        row, memory = self.pipeline.observe(self.past.features, values, np.array([moment], np.float64))
        self.past = self.past._replace(features=memory)
        return row

    def naive(self, label: Numbers) -> float | None:
        """The error of the client's last label, as it was known at the prediction, for this one; None without any."""
        last, now = float(self.past.last[0]), float(label[0])
        if self._ahead > 1 and isinstance(self.past.features, PipelineMemory):
            last = float(self.past.features.target.past[0, self._ahead - 1])
        if np.isnan(last) or (self.labelled and last < 0):
            return None
        return float(last != now) if self.labelled else (last - now) ** 2

    @property
    def anchored(self) -> bool:
        """Whether predictions are numbers that start from the client's own past, and from nothing before it."""
        return self.pipeline is not None and not self.labelled

    def due(self, sample: Any, label: Numbers) -> Any | None:
        """Whose prediction `label`, the row's own, answers: that of `sample`, or N rows ahead of an earlier one.

        The first N - 1 labels answer nobody; they count as seen.
        """
        self._rows.append(sample)
        if len(self._rows) >= self._ahead:
            return self._rows.popleft()
        if self.pipeline is not None and isinstance(self.past.features, PipelineMemory):
            self.past = self.past._replace(features=self.pipeline.learn(self.past.features, label))
        return None

    def learn(self, label: Numbers, error: float | None) -> None:
        """This label belonged to the client's oldest open sample; `error` is its prediction's, or None."""
        memory, misses = self.past.features, self.past.misses
        if self.pipeline is not None:
            assert isinstance(memory, PipelineMemory)
            memory = self.pipeline.learn(memory, label)
        if error is not None:
            misses = misses.after(error)
        self.past = Past(label.astype(np.float64), memory, misses)

    def label(self, y: Any) -> Numbers:
        """A target, [1]: float32, or the number of its label."""
        names = () if self.spec is None else self.spec.labels
        if names:
            text = next((text for text in _texts(y) if text in names), None)
            if text is None:
                raise InputError(f"`y` must be one of the task's labels {', '.join(names)}, got {y!r}")
            return np.asarray([names.index(text)])
        try:
            number = float(y)
        except (TypeError, ValueError):
            number = amount(y) if isinstance(y, str) else math.nan
            if math.isnan(number):
                raise InputError(f"`y` must be a number, got {y!r}") from None
        if not self.labelled:
            with np.errstate(over="ignore"):
                value = np.asarray([number], np.float32)
            if not (np.abs(value) < NO_NUMBER).all():
                raise InputError(f"`y` must be finite and less than {NO_NUMBER:g} in size, got {y!r}")
            return value
        classes = None if self.spec is None else self.spec.classes
        limit = 2**31 if classes is None else classes
        if not number.is_integer() or not 0 <= number < limit:
            raise InputError(f"`y` must be a class from 0 to {limit - 1}, got {y!r}")
        return np.asarray([int(number)])

    def stray(self, label: Numbers) -> bool:
        """Whether a target on its way to `learn` stands for none, such as -999; asked once for each."""
        return self.anchored and bool(np.isnan(self._targets.clean(label)).any())

    def name(self, label: int) -> Any:
        """The label of this number, as the task calls it."""
        names = () if self.spec is None else self.spec.labels
        return names[label] if names else label

    def _by_name(self, x: Mapping[str, Any]) -> Row:
        """The values of a dict in the task's order."""
        spec = self.spec
        if spec is None or not spec.features:
            raise InputError("`x` must be a list or an array where the task names no features, got a dict")
        if self.pipeline is not None:
            try:
                return self.pipeline.readings.read(x).astype(np.float32)
            except DataError as error:
                raise InputError(str(error).replace("`sample`", "`x`")) from None
        for name in [*spec.features, *x]:
            if (name in x) != (name in spec.features):
                which = "has no" if name in spec.features else "has also"
                raise InputError(
                    f"`x` must have the task's features and no others, got one that {which} {name!r}"
                )
        try:
            with np.errstate(over="ignore"):
                return np.asarray([[x[name] for name in spec.features]], np.float32)
        except (TypeError, ValueError):
            raise InputError(f"`x` must hold numbers, got {x!r}") from None


def samples_in(x: Any) -> Any:
    """Samples one after another: the rows of a table as dicts by name, anything else as it is; or `InputError`."""
    if hasattr(x, "to_dict") and hasattr(x, "columns"):
        return x.to_dict("records")
    if isinstance(x, (str, bytes, Mapping)) or not hasattr(x, "__len__"):
        raise InputError(f"`x` must be several samples (`online().predict_one(x)` takes one), got {shown(x)}")
    return x


def _read(given: Floats) -> Row:
    """Readings for a pipeline: NaN for what is too large to be one; infinity stays, to be refused."""
    return np.where(np.isinf(given), given, known(given)).astype(np.float32)


def _texts(value: Any) -> Iterator[str]:
    """How a label may be written in the task: 1, 1.0, "1" and "01" are the same, and so are True and "true"."""
    yield str(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        yield value.capitalize()
    with suppress(TypeError, ValueError):
        number = float(value)
        yield str(int(number)) if number.is_integer() else str(number)
