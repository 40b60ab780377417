"""OFedGrid's budget in 36 settings: what it spends, what it learns beside the paper's OFedIQ at the same real bits.

3 to 34,826 parameters, 1 to 1,000 clients, 20 to 6,000 steps, budgets from 0.01 % to everything, late fleets,
streams that turn, gradients in other units; three seeds (one for the largest). A setting is lost if OFedGrid is worse
than OFedIQ by more than the ranges of their seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

import numpy as np

from benchmarks import table
from ofediq import methods, models, streams
from ofediq.errors import DataError
from ofediq.methods import Method
from ofediq.models import Model
from ofediq.simulation import Result, simulate
from ofediq.streams import Dataset, Stream


@dataclass(frozen=True)
class Case:
    """One setting; `step_size` with plain descent, or Adam (`authors`) with 0.01."""

    data: str
    clients: int
    steps: int
    share: float
    model: str = "auto"
    step_size: float = 0.1
    authors: bool = False
    change: Callable[[Stream], Stream] | None = None
    note: str = ""
    seeds: int = 3

    def stream(self, seed: int) -> Stream:
        """The stream of a seed."""
        if self.data.startswith("linear"):
            return _synthetic(self.data, self.clients, self.steps, seed)
        made = streams.partition(_load(self.data), self.clients, self.steps, kind="passes", seed=seed)
        return made if self.change is None else self.change(made)

    def method(self, key: str, share: float, dim: int) -> Method:
        """The method called `key` with `share` of FedOGD's bits."""
        preset, step_size = ("authors", 0.01) if self.authors else ("paper", self.step_size)
        return methods.at_budget(
            key, share, dim, self.clients, step_size=step_size, preset=preset, steps=self.steps
        )


@lru_cache(maxsize=2)
def _load(name: str) -> Dataset:
    return streams.load(name)


def _synthetic(name: str, clients: int, steps: int, seed: int) -> Stream:
    features, drift = (int(part) if part.isdigit() else part for part in name.split()[1:3])
    task, classes = ("classification", 2) if "two classes" in name else ("regression", 2)
    return streams.synthetic(
        task,  # type: ignore[arg-type]  # one of its tasks
        clients=clients,
        steps=steps,
        features=features,  # type: ignore[arg-type]  # a number
        classes=classes,
        drift=drift,  # type: ignore[arg-type]  # one of its drifts
        heterogeneity=0.3,
        noise=0.3,
        seed=seed,
    )


def late(stream: Stream) -> Stream:
    """All but ten clients come at a fifth of the run."""
    order = stream.order.copy()
    order[: stream.steps // 5, 10:] = -1
    return Stream(stream.dataset, order)


def scaled(factor: float) -> Callable[[Stream], Stream]:
    """Samples in another unit, and with them the gradients."""

    def change(stream: Stream) -> Stream:
        data = stream.dataset
        moved = Dataset(data.name, data.x * np.float32(factor), data.y, data.task, data.classes)
        return Stream(moved, stream.order)

    return change


CASES = (
    Case("linear 2 none", 5, 500, 0.1),
    Case("linear 2 none", 100, 300, 0.01),
    Case("linear 8 none two classes", 5, 1000, 0.1, "softmax", 0.5),
    Case("linear 8 none two classes", 100, 1000, 0.01, "softmax", 0.5),
    Case("linear 8 abrupt two classes", 100, 300, 0.1, "softmax", 0.5),
    Case("linear 20 gradual", 50, 500, 0.03),
    Case("linear 100 abrupt", 200, 400, 0.01, step_size=0.01),
    Case("linear 100 none", 2, 2000, 0.1, step_size=0.002),
    Case("linear 1000 none", 20, 300, 0.01, step_size=0.002),
    Case("digits", 1000, 20, 1e-4),
    Case("digits", 1000, 20, 0.01),
    Case("digits", 10, 6000, 0.1),
    Case("digits", 10, 1000, 0.01),
    Case("digits", 10, 300, 1.0),
    Case("digits", 1, 3000, 0.1),
    Case("digits", 100, 200, 0.01),
    Case("digits", 100, 200, 0.001),
    Case("digits", 1000, 200, 0.001, authors=True),
    Case("digits", 1000, 200, 1e-4, authors=True),
    Case("digits", 1000, 100, 0.001, change=late, note="990 come late"),
    Case("digits", 100, 200, 0.01, step_size=1e-5, change=scaled(100.0), note="x 100"),
    Case("digits", 100, 200, 0.01, step_size=10.0, change=scaled(0.1), note="/ 10"),
    Case("digits", 100, 200, 0.01, "mlp", authors=True),
    Case("digits", 200, 200, 0.001, "dense 32, dense 10", authors=True),
    Case("room", 300, 300, 0.01, authors=True),
    Case("room", 1000, 200, 0.001, authors=True),
    Case("pm25", 300, 300, 0.01, authors=True),
    Case("pm25", 1000, 200, 0.001, authors=True),
    Case("energy", 300, 300, 0.01, authors=True),
    Case("energy", 1000, 200, 0.001, authors=True),
    Case("mnist", 300, 100, 0.001, "softmax", authors=True),
    Case("mnist", 300, 60, 0.001, "cnn", authors=True, seeds=1),
    Case("digits", 50, 60, 0.005),
    Case("linear 12 gradual", 30, 200, 0.05),
    Case("digits", 400, 40, 3e-4, authors=True),
    Case("linear 40 none two classes", 300, 25, 0.002, "softmax", 0.5),
)


def run(case: Case) -> list[object]:
    """A row of the table."""
    deals = [case.stream(seed) for seed in range(case.seeds)]
    data = deals[0].dataset
    name = "linear" if data.task == "regression" and case.data.startswith("linear") else case.model
    model = models.build(name, data.sample_shape, data.task, classes=data.classes)
    grid = [
        simulate(case.method("ofedgrid", case.share, model.dim), deal, model, n)
        for n, deal in enumerate(deals)
    ]
    paper = _at_equal_bits(case, model, deals, fmean(_spent(one) for one in grid))
    ours, theirs = ([_score(one) for one in results] for results in (grid, paper))
    spread = (max(ours) - min(ours)) + (max(theirs) - min(theirs))
    ahead = fmean(ours) - fmean(theirs)
    if data.task == "regression":
        ahead = -ahead
    most = max(float(one.bits_wire.max() / one.bits_wire.sum()) for one in grid)
    return [
        f"{case.data} {case.note}".strip(),
        model.dim,
        case.clients,
        case.steps,
        f"{100 * case.share:g}%",
        f"{fmean(_spent(one) for one in grid) / case.share:.3f}",
        f"{100 * most:.1f}%",
        f"{fmean(ours):.4f}",
        f"{fmean(theirs):.4f}",
        f"{100 * fmean(_spent(one) for one in paper):.3g}%",
        f"{spread:.4f}",
        "ahead" if ahead > spread else "even" if ahead >= -spread else "LOST",
    ]


def _at_equal_bits(case: Case, model: Model, deals: list[Stream], wanted: float) -> list[Result]:
    """OFedIQ with the plan that really spends what OFedGrid did: its formula and the bytes differ."""
    share = wanted
    for _ in range(2):
        method = case.method("ofediq", min(1.0, share), model.dim)
        results = [simulate(method, deal, model, seed) for seed, deal in enumerate(deals)]
        real = fmean(_spent(one) for one in results)
        if abs(real / wanted - 1) < 0.03 or real == 0:
            break
        share *= wanted / real
    return results


def _spent(result: Result) -> float:
    """Real uplink bits as a share of FedOGD's, with all clients there."""
    return float(result.bits_wire.sum()) / (
        32.0 * result.model.dim * result.stream.clients * result.stream.steps
    )


def _score(result: Result) -> float:
    """Accuracy or mean squared error at the last step."""
    return float((result.mse if result.stream.dataset.task == "regression" else result.accuracy)[-1])


def main() -> None:
    """Print a row as soon as it is there, and the table at the end."""
    rows: list[list[object]] = [
        ["data", "D", "K", "T", "budget", "spent", "in a step", "OFedGrid", "OFedIQ", "spent", "range", ""]
    ]
    for case in CASES:
        try:
            rows.append(run(case))
            print(*rows[-1], sep=" | ", flush=True)
        except DataError as error:
            print(f"{case.data}: left out, {error}")
    print(table(rows))
