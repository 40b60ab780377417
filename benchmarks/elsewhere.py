"""OFedDuplex, OFedGrid and OFedIQ on twelve streams that chose none of their constants, at equal bytes.

Made once, after the defaults had been chosen: networks that learn networks, images, words, heavy tails, labels that
one client alone sees, wandering weights, one number to learn, one client, 35,000 parameters, short runs.
OFedDuplex gets a share of all of FedOGD's bytes, OFedGrid and OFedIQ, which broadcast whole models, of those that go
up. "Loss" is what accuracy lost in points, or by how many per cent the squared error grew, over FedOGD with Adam on
the same stream and seed, then its range over the seeds; behind x what was spent of the budget. "First model" is what
not learning loses.
`python -m benchmarks elsewhere` takes all streams, `python -m benchmarks.elsewhere words one` some.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import table
from benchmarks.bytes import loss, score
from ofediq import methods, models
from ofediq.errors import InputError
from ofediq.methods.budgets.allowance import Counted
from ofediq.methods.budgets.connection import Connection, fedogd_bytes
from ofediq.models import Model
from ofediq.simulation import Result, simulate
from ofediq.streams import Dataset, Stream
from ofediq.streams.dataset import Task

Array = NDArray[Any]
Rng = np.random.Generator
Make = Callable[[Rng, int, int], tuple[Array, Array]]  # samples [steps, clients, ...] and their targets

SEEDS, SHARES, STEP_SIZE = 3, (0.01, 0.001), 0.01
CONTENDERS: tuple[tuple[str, Counted], ...] = (
    ("ofedduplex", "total"),
    ("ofedduplex(averages=False)", "total"),
    ("ofedgrid", "uplink"),
    ("ofedgrid(averages=False)", "uplink"),
    ("ofediq", "uplink"),
)


@dataclass(frozen=True)
class Elsewhere:
    """How a stream is made, and what learns it."""

    make: Make
    clients: int
    steps: int
    model: str
    classes: int | None = None

    def stream(self, seed: int) -> Stream:
        """The stream of a seed: every client has a new sample at every step."""
        x, y = self.make(np.random.default_rng(1000 + seed), self.steps, self.clients)
        task: Task = "regression" if self.classes is None else "classification"
        data = Dataset(
            self.make.__name__, x.reshape(-1, *x.shape[2:]), y.reshape(-1), task, classes=self.classes
        )
        return Stream(data, np.arange(y.size).reshape(y.shape))

    def model_for(self, stream: Stream) -> Model:
        """What learns it."""
        data = stream.dataset
        return models.build(self.model, data.sample_shape, data.task, classes=data.classes)


def teacher(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """A small network that another one has to learn; a fifth of the targets is noise."""
    x = rng.normal(size=(steps, clients, 16))
    first, last = rng.normal(size=(16, 12)) / 4, rng.normal(size=12) / 3
    return x, np.tanh(2 * x @ first) @ last + 0.2 * rng.normal(size=(steps, clients))


def tails(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """Ten features; errors and features with the tails of Student's t with three degrees of freedom."""
    x = np.clip(rng.standard_t(3, size=(steps, clients, 10)), -20, 20) / 2
    return x, x @ rng.normal(size=10) / 3 + 0.3 * rng.standard_t(3, size=(steps, clients))


def one(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """One number to learn, which turns around at half time."""
    x = rng.normal(size=(steps, clients, 1))
    weight = np.where(np.arange(steps) < steps // 2, 0.7, -0.4)[:, None]
    return x, weight * x[..., 0] + 0.3 * rng.normal(size=(steps, clients))


def blobs(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """Ten classes, three clouds each, in 30 dimensions; at half time the names of the classes move by one."""
    centres, y = rng.normal(size=(10, 3, 30)), rng.integers(0, 10, (steps, clients))
    x = centres[y, rng.integers(0, 3, y.shape)] + rng.normal(size=(*y.shape, 30))
    return x, np.where(np.arange(steps)[:, None] < steps // 2, y, (y + 1) % 10)


def images(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """Ten shapes of 28 x 28: waves of some direction and length, somewhere, in noise."""
    y = rng.integers(0, 10, (steps, clients))
    row, column = np.mgrid[0:28, 0:28]
    turn, wave = np.pi * np.arange(10) / 10, 0.3 + 0.06 * np.arange(10)
    shift = rng.uniform(0, 2 * np.pi, y.shape)[..., None, None]
    along = np.cos(turn[y])[..., None, None] * row + np.sin(turn[y])[..., None, None] * column
    x = 0.5 + 0.3 * np.sin(wave[y][..., None, None] * along + shift)
    return np.clip(x + 0.2 * rng.normal(size=x.shape), 0, 1), y


def words(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """A thousand words, Zipf's law, twelve in a text; five classes prefer words of their own."""
    usual = 1 / np.arange(1, 1001)
    liked = usual * np.exp(1.5 * rng.normal(size=(5, 1000)))
    reach, y = np.cumsum(liked / liked.sum(1, keepdims=True), 1), rng.integers(0, 5, (steps, clients))
    x = np.zeros((steps * clients, 1000), np.float32)
    for label in range(5):
        rows = np.flatnonzero(y.ravel() == label)
        drawn = np.searchsorted(reach[label], rng.random((rows.size, 12)))
        x[rows[:, None], np.minimum(drawn, 999)] = 1
    return x.reshape(steps, clients, 1000), y


def wandering(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """Three clients, four classes, weights that walk at random all the time."""
    moves = rng.normal(size=(steps, 20, 4)) * np.where(np.arange(steps) == 0, 1, 0.03)[:, None, None]
    x = rng.normal(size=(steps, clients, 20))
    return x, (x @ np.cumsum(moves, 0) + rng.gumbel(size=(steps, clients, 4)) * 0.5).argmax(-1)


def own_labels(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """Eight classes, of which each client sees two."""
    centres = rng.normal(size=(8, 40)) * 0.6
    pairs = rng.integers(0, 8, (clients, 2))
    y = pairs[np.arange(clients), rng.integers(0, 2, (steps, clients))]
    return centres[y] + rng.normal(size=(steps, clients, 40)), y


def echoes(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """The next value of a series that bends, from its last eight: twenty series of a kind."""
    series = np.zeros((steps + 8, clients))
    for t in range(2, steps + 8):
        last, before = series[t - 1], series[t - 2]
        pull = 1.6 * last - 0.75 * before - 0.15 * np.tanh(last) ** 3
        series[t] = pull + 0.3 * rng.normal(size=clients)
    x = np.stack([series[lag : lag + steps] for lag in range(8)], -1)
    return x / 2, series[8:] / 2


def rare(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """Two classes, one of them in four of a hundred rows; 120 readings of which six tell."""
    x = rng.normal(size=(steps, clients, 120))
    loud = x[..., :6].sum(-1) / np.sqrt(6) + 0.3 * rng.normal(size=(steps, clients))
    return x, (loud > 1.83).astype(int)


def scales(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """Fifteen features whose sizes go from a hundredth to ten, and a target far from zero."""
    size = np.logspace(-2, 1, 15)
    x = rng.normal(size=(steps, clients, 15)) * size
    return x, 5 + x @ (rng.normal(size=15) / size) / 4 + 0.2 * rng.normal(size=(steps, clients))


def alone(rng: Rng, steps: int, clients: int) -> tuple[Array, Array]:
    """One client: thirty features, and weights that turn slowly."""
    x, turn = rng.normal(size=(steps, clients, 30)), np.linspace(0, np.pi, steps)[:, None]
    begin, end = rng.normal(size=(2, 30)) / 5
    weights = np.cos(turn) * begin + np.sin(turn) * end
    return x, (x * weights[:, None]).sum(-1) + 0.2 * rng.normal(size=(steps, clients))


STREAMS = {
    case.make.__name__: case
    for case in (
        Elsewhere(teacher, 300, 300, "mlp"),
        Elsewhere(tails, 50, 500, "linear"),
        Elsewhere(one, 100, 400, "linear"),
        Elsewhere(blobs, 100, 1000, "mlp", 10),
        Elsewhere(images, 200, 100, "cnn", 10),
        Elsewhere(words, 500, 100, "softmax", 5),
        Elsewhere(wandering, 3, 3000, "softmax", 4),
        Elsewhere(own_labels, 400, 300, "softmax", 8),
        Elsewhere(echoes, 20, 2000, "dense 16, relu, dense 1"),
        Elsewhere(rare, 1000, 200, "softmax", 2),
        Elsewhere(scales, 100, 500, "linear"),
        Elsewhere(alone, 1, 3000, "linear"),
    )
}


def spent(result: Result, counted: Counted) -> float:
    """Bytes as a share of FedOGD's, in all or up."""
    stream, dim = result.stream, result.model.dim
    if counted == "total":
        whole, bytes_all = fedogd_bytes(dim), float(result.bytes_total.sum())
    else:
        beside = Connection().update_bytes(result.method, dim)
        whole = 4.0 * dim + Connection().update_bytes(methods.fedogd(STEP_SIZE), dim)
        bytes_all = float(result.bits_wire.sum()) / 8 + beside * float(result.senders.sum())
    return bytes_all / (whole * stream.clients * stream.steps)


def run(case: Elsewhere, seeds: int = SEEDS) -> list[list[object]]:
    """Rows of one stream: for each share, the loss of everyone, with its range, and what was spent."""
    streams = [case.stream(seed) for seed in range(seeds)]
    model = case.model_for(streams[0])
    whole = [
        simulate(methods.fedogd(STEP_SIZE, "authors"), stream, model, seed)
        for seed, stream in enumerate(streams)
    ]
    still = [simulate(methods.fedogd(1e-60), stream, model, seed) for seed, stream in enumerate(streams)]
    unlearnt = fmean(loss(mine, theirs) for mine, theirs in zip(still, whole, strict=True))
    rows: list[list[object]] = []
    for share in SHARES:
        cells: list[object] = []
        for text, counted in CONTENDERS:
            try:
                method = methods.at_budget(
                    text, share, model.dim, case.clients, step_size=STEP_SIZE, preset="authors",
                    steps=case.steps, budget_of=counted,
                )  # fmt: skip
            except InputError:
                cells.append("cannot")
                continue
            results = [simulate(method, stream, model, seed) for seed, stream in enumerate(streams)]
            lost = [loss(mine, theirs) for mine, theirs in zip(results, whole, strict=True)]
            used = fmean(spent(result, counted) for result in results) / share
            cells.append(f"{fmean(lost):.1f} ({max(lost) - min(lost):.1f}) x{used:.2f}")
        unit = "%" if case.classes is None else "points"
        head = [case.make.__name__, model.dim, case.clients, case.steps, f"{100 * share:g}%"]
        rows.append([*head, f"{fmean(map(score, whole)):.3g}", f"{unlearnt:.1f}", *cells, unit])
    return rows


def main(chosen: Sequence[str] = (), seeds: int = SEEDS) -> None:
    """Print the table, stream by stream; of all, or of those that are named."""
    head = ["stream", "D", "K", "T", "share", "FedOGD", "first model", *(text for text, _ in CONTENDERS), ""]
    rows: list[list[object]] = [list(head)]
    for name in chosen or STREAMS:
        rows += run(STREAMS[name], seeds)
        print(table([rows[0], *rows[-len(SHARES) :]]), flush=True)
    print(f"\n{table(rows)}")


if __name__ == "__main__":
    main(sys.argv[1:])
