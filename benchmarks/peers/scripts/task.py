"""The work that every peer does, read from a file, and the figures that it gives back.

A peer predicts with the common model at every step, for every client, before it learns. At the end of a window of
`period` steps the marked senders send the sum of their gradients over `rate`, quantised if there are `levels`, and
the model moves by -step_size / clients times what arrived.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Flags = NDArray[np.bool_]
Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Task:
    """One workload.

    Attributes:
        x: samples; images are [n, 28, 28], rows [n, features].
        y: classes or numbers.
        order: [steps, clients], which sample each client sees.
        senders: [windows, clients].
        initial: the flat parameters at the start: for each layer its matrix [inputs, outputs], then its bias. The
            inputs of a convolution are (row, column, channel) of a 3 x 3 patch, those of the layer after the
            last convolution (row, column, channel) of its image.
        model: cnn, mlp or softmax.
        sizes: inputs, hidden layers, outputs; of the cnn its filters and classes.
        task: classification or regression.
        l2: factor of ||w||^2 / 2 in the loss.
        step_size: eta.
        rate: p.
        period: L.
        levels: s; 0 for no quantiser.
        blocks: b.
    """

    x: Vector
    y: NDArray[Any]
    order: Rows
    senders: Flags
    initial: Vector
    model: str
    sizes: tuple[int, ...]
    task: str
    l2: float
    step_size: float
    rate: float
    period: int
    levels: int
    blocks: int

    @property
    def clients(self) -> int:
        """K."""
        return int(self.order.shape[1])

    @property
    def dim(self) -> int:
        """D."""
        return self.initial.size

    def windows(self) -> Iterator[tuple[Rows, Flags]]:
        """The samples [period, clients] and the senders [clients] of each window."""
        for window, flags in enumerate(self.senders):
            yield self.order[window * self.period : (window + 1) * self.period], flags

    def shapes(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Shapes of each layer's weights and bias; a convolution's are [3, 3, channels, filters]."""
        if self.model == "cnn":
            first, second, classes = self.sizes
            filters: list[tuple[int, ...]] = [(3, 3, 1, first), (3, 3, first, second), (25 * second, classes)]
            return [(shape, shape[-1:]) for shape in filters]
        return [((i, o), (o,)) for i, o in zip(self.sizes[:-1], self.sizes[1:], strict=True)]

    def layers(self, flat: Vector) -> list[tuple[Vector, Vector]]:
        """A flat vector, cut into each layer's weights and bias."""
        layers, start = [], 0
        for weights, bias in self.shapes():
            cut = start + int(np.prod(weights))
            layers.append((flat[start:cut].reshape(weights), flat[cut : cut + bias[0]]))
            start = cut + bias[0]
        return layers


def save(task: Task, path: Path) -> None:
    """Write a task as .npz: arrays, and the rest as JSON."""
    arrays = {"x": task.x, "y": task.y, "order": task.order, "senders": task.senders, "initial": task.initial}
    rest = {name: value for name, value in vars(task).items() if name not in arrays}
    np.savez(path, allow_pickle=False, rest=np.array(json.dumps(rest)), **arrays)


def load(path: Path) -> Task:
    """Read what `save` wrote."""
    with np.load(path) as file:
        rest = json.loads(str(file["rest"]))
        rest["sizes"] = tuple(rest["sizes"])
        return Task(**{name: file[name] for name in file.files if name != "rest"}, **rest)


class Recorder:
    """Notes what happens window by window, and when it is time to stop.

    Attributes:
        seconds: stop after the window in which this time is over, but not before two windows are done.
    """

    def __init__(self, task: Task, seconds: float) -> None:
        self.task, self.seconds = task, seconds
        self.errors: list[float] = []
        self.times: list[float] = []
        self.work: list[float] = []
        self.first = 0.0
        self.began = self.last = time.perf_counter()
        self.worked = time.process_time()

    @property
    def over(self) -> bool:
        """Whether the time or the stream has come to its end."""
        enough = len(self.times) >= 2 and time.perf_counter() - self.began >= self.seconds
        return enough or len(self.times) == len(self.task.senders)

    def note(self, errors: list[float]) -> None:
        """A window is done; `errors` are the sums of mistakes or squared errors of each of its steps."""
        now = time.perf_counter()
        self.times.append(now - self.last)
        self.errors += [float(error) for error in errors]
        self.last = now
        worked = time.process_time()
        self.work.append(worked - self.worked)
        self.worked = worked
        if not self.first:
            self.first = time.time()

    def report(self, params: Vector, out: Path, **more: Any) -> None:
        """Save parameters and figures: seconds and processor seconds of each window, errors of each step."""
        np.save(out.with_suffix(".npy"), np.asarray(params, np.float32))
        figures = {"first": self.first, "times": self.times, "work": self.work, "errors": self.errors, **more}
        out.write_text(json.dumps(figures))


@dataclass(frozen=True)
class Arguments:
    """What a script is called with."""

    task: Task
    path: Path
    out: Path
    seconds: float


def arguments() -> Arguments:
    """From the command line: the task's file, the file for the figures, the time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    return Arguments(load(given.work), given.work, given.out, given.seconds)


def run(window: Callable[[Rows, Flags], list[float]], params: Callable[[], Vector], given: Arguments) -> None:
    """Run one window after another until the time is over, and report.

    Args:
        window: learns from one window and returns the sum of errors at each of its steps.
        params: the parameters in the task's flat order.
        given: the command line.
    """
    recorder = Recorder(given.task, given.seconds)
    for rows, flags in given.task.windows():
        recorder.note(window(rows, flags))
        if recorder.over:
            break
    recorder.report(params(), given.out)
