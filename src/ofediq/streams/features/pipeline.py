"""`Pipeline`: from a client's readings and past to the features of its next sample, online and without a look ahead.

The same object runs in the simulator (all clients of a step at once), in a Python client and in a CSV client (one
client alone), with equal bits: per-entry arithmetic in float64, float32 at the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from ofediq.arrays import Floats, Numbers, Vector
from ofediq.errors import DataError, InputError, require, require_choice, require_integer, require_positive
from ofediq.streams.features.labels import LabelPast, LabelTarget
from ofediq.streams.features.numbers import NumberPast, NumberTarget
from ofediq.streams.features.readings import Readings, Seen, known

BASELINES = ("auto", "last", "mean", "season", "none")
SCALES = ("standard", "robust")
FARTHEST = 10_000
"""Rows ahead that can be predicted: a client remembers as many targets."""
LONGEST = 10_000_000
"""Rows of a season: a client remembers as many targets, too."""
_DAY, _WEEK = 86_400.0, 604_800.0
_BASELINE = re.compile(r"(auto|last|mean|none|season)(?:\((\d+)\))?")


def checked_baseline(text: str) -> tuple[str, int | None]:
    """The naive forecast and the rows per season that `text` names.

    >>> checked_baseline("season(24)"), checked_baseline("auto")
    (('season', 24), ('auto', None))
    """
    found = _BASELINE.fullmatch(text)
    if found is None or (
        found[2] is not None and (found[1] != "season" or not 1 <= int(found[2]) <= LONGEST)
    ):
        raise InputError(
            f"`baseline` must be auto, last, mean, none or season(ROWS), such as season(24), got {text!r}"
        )
    return found[1], None if found[2] is None else int(found[2])


class PipelineMemory(NamedTuple):
    """What clients remember between samples, one row per client in every array."""

    readings: Seen
    target: NumberPast | LabelPast


@dataclass(frozen=True)
class Pipeline:
    """How a sample becomes features; frozen, pure, and plain enough for JSON.

    A client's step: `row, memory = observe(memory, readings, time)`, predict from `row`, then, when the target is
    known, `memory = learn(memory, target)`. To predict without a target, keep the memory from before. With
    `target.ahead` = N a row is there to predict the target of N - 1 rows later, N rows after the last known one; each
    row's own target is learnt when it comes. A row holds `columns` (the features, about 1 in size, cut to `limit`)
    and then `anchors`: where the prediction starts, see `NumberTarget` and `LabelTarget`. Models read it through
    `ofediq.models.anchored`.

    Attributes:
        readings: what is measured.
        target: what is predicted.
        calendar: whether `time` is seconds since 1970, whose hour and weekday are features.
        scaling: "standard" (mean and deviation so far) or "robust" (outliers are cut before they count).
        horizon: after so many values, older ones fade.
        limit: features are cut to [-limit, limit].

    >>> pipeline = Pipeline(Readings(("heat",)), NumberTarget("last", lags=1))
    >>> pipeline.columns
    ('heat', 'change of heat', 'level', 'last against forecast', 'change 1 ago')
    >>> memory = pipeline.memory()
    >>> for heat, load in [(20.0, 1.0), (22.0, 2.0), (24.0, 3.0), (26.0, 4.0)]:
    ...     row, memory = pipeline.observe(memory, np.array([[heat]]))
    ...     memory = pipeline.learn(memory, np.array([load]))
    >>> row, _ = pipeline.observe(memory, np.array([[28.0]]))
    >>> row[0, -2:].tolist()  # the last value, and how much it usually changes
    [4.0, 1.0]
    >>> Pipeline.from_dict(pipeline.to_dict()) == pipeline
    True
    """

    readings: Readings
    target: NumberTarget | LabelTarget
    calendar: bool = False
    scaling: str = "standard"
    horizon: float = 2000.0
    limit: float = 5.0

    def __post_init__(self) -> None:
        require_choice("baseline", self.target.baseline, BASELINES)
        require_choice("scaling", self.scaling, SCALES)
        require_positive("horizon", self.horizon)
        require_positive("limit", self.limit)
        require_integer("season", self.target.season, 0, LONGEST)
        require_integer("lags", self.target.lags, 0)
        require_integer("ahead", self.target.ahead, 1, FARTHEST)
        seasonal = self.target.baseline != "season" or self.target.season > 0
        require(seasonal, "baseline", "'season' needs the rows per season, such as season(24)", "season")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features."""
        clock = ("sine of day", "cosine of day", "sine of week", "cosine of week") if self.calendar else ()
        return (*self.readings.columns, *self.target.columns, *clock)

    @property
    def busy(self) -> int:
        """How many features may differ from 0 in one sample: of the columns of a category it is one.

        >>> modes = ("mode=eco", "mode=full")
        >>> pipeline = Pipeline(Readings(("wind", *modes), modes), NumberTarget())
        >>> len(pipeline.columns), pipeline.busy
        (10, 9)
        """
        flags = self.readings.flags
        return len(self.columns) - len(flags) + len({name.partition("=")[0] for name in flags})

    @property
    def anchors(self) -> tuple[str, ...]:
        """Names of the columns after the features."""
        return self.target.anchors

    def memory(self, clients: int = 1) -> PipelineMemory:
        """Clients that have seen nothing."""
        return PipelineMemory(self.readings.memory(clients), self.target.memory(clients))

    def observe(
        self, memory: PipelineMemory, readings: Numbers, time: Numbers | None = None
    ) -> tuple[Vector, PipelineMemory]:
        """Rows [clients, columns + anchors] of the samples at hand, and the memory after reading them.

        Arguments:
            memory: of these clients.
            readings: [clients, readings]; NaN, or 1e36 and more, where one is missing.
            time: [clients], seconds since 1970, for a pipeline with `calendar`.
        """
        values = known(readings)
        if values.shape != memory.readings.last.shape:
            raise DataError(
                f"`readings` must have shape {list(memory.readings.last.shape)}, got {list(values.shape)}"
            )
        measured, seen = self.readings.observe(
            memory.readings, values, self.horizon, self.limit, self.scaling == "robust"
        )
        own, anchors = self.target.observe(cast(Any, memory.target), self.limit)
        parts = [measured, own, *self._clock(time, len(values)), anchors]
        return np.concatenate(parts, axis=1).astype(np.float32), memory._replace(readings=seen)

    def learn(self, memory: PipelineMemory, targets: Numbers) -> PipelineMemory:
        """The memory after the targets [clients] of the samples that were observed last."""
        past, values = cast(Any, memory.target), np.asarray(targets, np.float64)
        if isinstance(self.target, LabelTarget):
            return memory._replace(target=self.target.learn(past, values, self.horizon))
        unordered = self.readings.unordered(memory.readings)
        robust = self.scaling == "robust"
        return memory._replace(target=self.target.learn(past, values, self.horizon, robust, unordered))

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            **asdict(self),
            "task": "regression" if isinstance(self.target, NumberTarget) else "classification",
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Pipeline:
        """The inverse of `to_dict`."""
        try:
            parts = dict(plain)
            kind = {"regression": NumberTarget, "classification": LabelTarget}[parts.pop("task")]
            listed: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in parts["readings"].items()
            }
            return cls(**{**parts, "readings": Readings(**listed), "target": kind(**parts["target"])})
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"`pipeline` must be what `Pipeline.to_dict` writes, got {plain!r}: {error}"
            ) from None

    def _clock(self, time: Numbers | None, clients: int) -> list[Floats]:
        if not self.calendar:
            return []
        if time is None or time.shape != (clients,):
            found = "nothing" if time is None else f"shape {list(time.shape)}"
            raise DataError(f"`time` must be {clients} numbers, seconds since 1970, got {found}")
        moment = np.asarray(time, np.float64)[:, None]
        turns = 2 * np.pi * np.concatenate([(moment % _DAY) / _DAY, (moment % _WEEK) / _WEEK], axis=1)
        return [
            np.stack(
                [np.sin(turns[:, 0]), np.cos(turns[:, 0]), np.sin(turns[:, 1]), np.cos(turns[:, 1])], axis=1
            )
        ]


def take(memory: PipelineMemory, clients: Numbers) -> PipelineMemory:
    """The rows of some clients."""
    return cast(PipelineMemory, _mapped(lambda array: array[clients], memory))


def put(memory: PipelineMemory, clients: Numbers, rows: PipelineMemory) -> None:
    """Write `rows` of some clients back into `memory`, which must be the caller's own."""

    def write(old: Any, new: Any) -> None:
        if isinstance(old, tuple):
            for one, other in zip(old, new, strict=True):
                write(one, other)
        else:
            old[clients] = new

    write(memory, rows)


def _mapped(function: Any, tree: Any) -> Any:
    if isinstance(tree, tuple):
        return type(tree)(*(_mapped(function, one) for one in tree))  # a NamedTuple
    return function(tree)
