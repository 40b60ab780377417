"""Where a client process gets its samples: a replay by time step, or rows in order. NumPy only."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
import numpy.typing as npt

from ofediq.errors import DataError, InputError
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import Publish

Sample = tuple[Any, Any]


class Source(Protocol):
    """Samples for the steps of a federation."""

    def at(self, step: int) -> Sample | None:
        """The sample of `step` (from 1), or None if there is none."""

    @property
    def exhausted(self) -> bool:
        """Whether no sample will ever come again."""


class Replay:
    """A recorded stream: the sample of a step is always the same, however often a client is restarted.

    Args:
        path: .npz with `x` [steps, ...], `y` [steps] and `present` [steps].
    """

    def __init__(self, path: str | Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as file:
                self.x, self.y, self.present = file["x"], file["y"], file["present"]
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"cannot read the recorded stream {path}: {error}") from None
        self.exhausted = False

    def at(self, step: int) -> Sample | None:
        """The sample of `step`, if the recording has one."""
        if step > len(self.y):
            self.exhausted = True
            return None
        return (self.x[step - 1], self.y[step - 1]) if self.present[step - 1] else None


def write_replay(
    path: Path, x: npt.NDArray[Any], y: npt.NDArray[Any], present: npt.NDArray[np.bool_]
) -> None:
    """Record one client's stream for `Replay`."""
    np.savez(path, x=x, y=y, present=present)


class Rows:
    """The rows of a CSV file with a header, in order, one per step.

    Args:
        path: the file.
        target: column to predict.
        features: columns to predict from; those of the task if left out.
        announced: tells the names of the features in the task; all columns but the target if it has none.
    """

    def __init__(
        self,
        path: str | Path,
        target: str,
        features: Sequence[str] | None = None,
        announced: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._rows = _read_csv(Path(path), target, features, announced)
        self.exhausted = False

    def at(self, step: int) -> Sample | None:
        """The next row."""
        sample = next(self._rows, None)
        self.exhausted = sample is None
        return sample


def _read_csv(
    path: Path, target: str, features: Sequence[str] | None, announced: Callable[[], Sequence[str]]
) -> Iterator[Sample]:
    try:
        file = path.open(newline="")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    with file:
        reader = csv.DictReader(file)
        columns = list(reader.fieldnames or ())
        names = list(announced() if features is None else features)
        names = names or [name for name in columns if name != target]
        for name in [target, *names]:
            if name not in columns:
                raise DataError(f"{path} has no column {name!r}; it has {', '.join(columns)}")
        for row in reader:
            x, y = [_number(row[name]) for name in names], _number(row[target])
            if all(map(math.isfinite, [*x, y])):  # a row with a gap teaches nothing
                yield x, y


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def read_lines(file: TextIO) -> Iterator[tuple[Any, Any]]:
    """Samples from JSON lines, `{"x": [...], "y": ...}`; y is None where the label is missing.

    >>> import io
    >>> list(read_lines(io.StringIO('{"x": [1, 2], "y": 0}')))
    [([1, 2], 0)]
    """
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            yield content["x"], content.get("y")
        except (ValueError, KeyError, AttributeError, TypeError):
            raise InputError(
                f"line {number} must be JSON like {{'x': [..], 'y': ..}}, got {line.strip()[:60]!r}"
            ) from None


class Feeder:
    """Gives a learner its samples as fast as rounds ask for them."""

    def __init__(self, learner: Learner, source: Source) -> None:
        self.learner, self.source = learner, source

    def __call__(self) -> list[Publish]:
        """Feed the open round; returns what the learner says."""
        said: list[Publish] = []
        while self.learner.hungry and not self.source.exhausted:
            sample = self.source.at(self.learner.next_step)
            said += self.learner.skip() if sample is None else self.learner.learn(*sample)[1]
        return said
