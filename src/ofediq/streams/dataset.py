"""`Dataset`: samples with their targets, checked once, so that nothing behind it has to check again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Numbers, Vector
from ofediq.errors import DataError, require_choice, require_integer

Task = Literal["classification", "regression"]
TASKS: tuple[Task, ...] = ("classification", "regression")
UNKNOWN_LABEL = -1  # in `Dataset.previous` of a classification task; a regression task uses NaN
MOST_CLASSES = 10_000


@dataclass(frozen=True)
class Truth:
    """The optimum that made a synthetic dataset, so that what was learned can be compared with it.

    Attributes:
        weights: w*(t), the mean of the clients' optima: [steps, features] or [steps, features, classes].
        offsets: how far client k's optimum lies from the mean, constant in time and summing to zero over the
            clients: [clients, features] or [clients, features, classes].
    """

    weights: Vector
    offsets: Vector


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples and targets in source order.

    Arrays are converted to the types below and must not be changed afterwards.

    Attributes:
        name: how reports call it.
        x: float32 [samples, ...], finite, or NaN for what is missing if `gaps` says so.
        y: int32 labels 0..classes-1 (classification) or finite float32 targets (regression), [samples].
        task: "classification" or "regression".
        classes: number of classes, by default the largest label + 1; None for regression.
        previous: the target that came just before each sample in the source's own time order, [samples],
            for the naive last-value reference; -1 or NaN where nothing came before. None if the source has
            no time order.
        season: the target one season before each sample's, likewise, where a season is known. None otherwise.
        time: when each sample was taken, [samples], any unit: seconds since 1970 where the source has dates. None if
            the source does not say.
        client_ids: which client each sample belongs to, 0..ids-1, [samples]; None if the source does not say.
        feature_names: one per column of a two-dimensional `x`, or empty.
        label_names: one per class, or empty.
        client_names: one per client id, or empty.
        target_name: what `y` is.
        target_range: (low, high) that were mapped to 0 and 1: `low + y * (high - low)` has the original unit.
        scaling: how the features were scaled.
        truth: the optimum behind a synthetic dataset.
        gaps: whether `x` may hold NaN; such a dataset has to go through `ofediq.streams.features` first.
        ahead: how many of a client's rows after its last known target the target of a sample is.
        own_past: whether `previous` is the last target that the sample's client itself knows.

    >>> data = Dataset("toy", x=[[0.0], [1.0], [2.0]], y=[0, 1, 1], task="classification")
    >>> len(data), data.classes, data.sample_shape
    (3, 2, (1,))
    """

    name: str
    x: Numbers
    y: Numbers
    task: Task
    classes: int | None = None
    previous: Numbers | None = None
    season: Numbers | None = None
    time: Numbers | None = None
    client_ids: Numbers | None = None
    feature_names: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    client_names: tuple[str, ...] = ()
    target_name: str = "y"
    target_range: tuple[float, float] = (0.0, 1.0)
    scaling: str = "none"
    truth: Truth | None = None
    gaps: bool = False
    ahead: int = 1
    own_past: bool = False

    def __post_init__(self) -> None:
        require_choice("task", self.task, TASKS)
        x = _numbers("x", self.x, np.float32, gaps=self.gaps)
        if x.ndim < 2 or x.shape[0] == 0:
            raise DataError(
                f"`x` must have shape [samples, ...] with at least one sample, got {list(x.shape)}"
            )
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", self._targets(len(x)))
        object.__setattr__(self, "classes", self._count_classes())
        for name in ("previous", "season"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, self._checked_past(name, len(x)))
        if self.time is not None:
            time = _column("time", np.asarray(self.time, np.float64), len(x))
            if not np.isfinite(time).all():
                raise DataError("`time` must be finite")
            object.__setattr__(self, "time", time)
        if self.client_ids is not None:
            object.__setattr__(self, "client_ids", _indices("client_ids", self.client_ids, len(x), len(x)))
        for names, count in (
            (self.feature_names, int(np.prod(x.shape[1:]))),
            (self.label_names, self.classes),
        ):
            if names and len(names) != count:
                raise DataError(
                    f"dataset {self.name!r}: {len(names)} names do not fit {count} columns or classes"
                )

    def __len__(self) -> int:
        return len(self.y)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.x.shape[1:]

    def _targets(self, samples: int) -> Numbers:
        if self.task == "classification":
            return _indices("y", self.y, samples, MOST_CLASSES)
        return _column("y", _numbers("y", self.y, np.float32), samples)

    def _count_classes(self) -> int | None:
        if self.task == "regression":
            return None
        fewest = max(2, int(self.y.max()) + 1)
        return (
            fewest if self.classes is None else require_integer("classes", self.classes, fewest, MOST_CLASSES)
        )

    def _checked_past(self, name: str, samples: int) -> Numbers:
        past = _column(name, np.asarray(getattr(self, name), dtype=self.y.dtype), samples)
        if self.classes is not None and not (past.min() >= UNKNOWN_LABEL and past.max() < self.classes):
            raise DataError(f"`{name}` must hold labels from {UNKNOWN_LABEL} to {self.classes - 1}")
        return past


def _numbers(name: str, values: Any, dtype: type[np.float32], *, gaps: bool = False) -> Vector:
    try:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite and is reported below
            array = np.ascontiguousarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise DataError(f"`{name}` must hold numbers only: {error}") from None
    fine = np.isfinite(array) | np.isnan(array) if gaps else np.isfinite(array)
    if not fine.all():
        bad = int(array.size - fine.sum())
        raise DataError(f"`{name}` must be finite in float32, got {bad} values that are not")
    return array


def _column(name: str, array: Numbers, samples: int) -> Numbers:
    if array.shape != (samples,):
        raise DataError(
            f"`{name}` must have shape [{samples}], one entry per sample, got {list(array.shape)}"
        )
    return array


def _indices(name: str, values: Any, samples: int, most: int) -> NDArray[np.int32]:
    """`values` as int32 from 0 to `most` - 1, one per sample; whole floats count as integers."""
    array = _column(name, np.asarray(values), samples)
    with np.errstate(invalid="ignore"):  # NaN becomes some integer, which differs from it
        whole = array.astype(np.int32) if array.dtype.kind in "iufb" else None
    if whole is None or not np.array_equal(array, whole):
        raise DataError(f"`{name}` must hold whole numbers from 0 up, got {array.dtype} values that are not")
    if whole.min() < 0 or whole.max() >= most:
        raise DataError(f"`{name}` must lie in 0..{most - 1}, got {whole.min()} to {whole.max()}")
    return whole
