"""Learning per byte: OFedDuplex at 1 % and 0.1 % of all bytes beside FedOGD, over streams of every kind.

Bytes on all sockets, both directions, frames, topics and acknowledgements included. "Loss" is what accuracy lost in
points, or by how many per cent the squared error grew, over FedOGD with Adam on the same stream and seed.
`python -m benchmarks bytes` takes every stream, three seeds each, `python -m benchmarks.bytes digits room` some.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean

from benchmarks import table
from ofediq import methods, models, streams
from ofediq.errors import DataError
from ofediq.methods import Method
from ofediq.methods.budgets.connection import fedogd_bytes
from ofediq.models import Model
from ofediq.simulation import Result, simulate
from ofediq.streams import Dataset, Stream

SHARES = (0.01, 0.001)
SEEDS = 3
_READINGS = ["PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN", "WSPM", "hour", "month"]


@dataclass(frozen=True)
class Case:
    """One stream and a model for it."""

    name: str
    data: str
    model: str
    clients: int = 1000
    steps: int = 300
    step_size: float = 0.01

    def stream(self, seed: int) -> Stream:
        """The stream of a seed."""
        if self.data.startswith("synthetic"):
            _, task, features, drift = self.data.split()
            return streams.synthetic(
                task,  # type: ignore[arg-type]  # one of its tasks
                clients=self.clients,
                steps=self.steps,
                features=int(features),
                classes=5,
                drift=drift,  # type: ignore[arg-type]  # one of its drifts
                heterogeneity=0.3,
                noise=0.3,
                seed=seed,
            )
        data = _load(self.data)
        if self.data == "stations":
            return streams.partition(data, kind="column", steps=self.steps)
        return streams.partition(data, self.clients, self.steps, kind="passes", seed=seed)


CASES = (
    Case("mnist", "mnist", "softmax"),
    Case("digits", "digits", "softmax"),
    Case("room", "room", "mlp"),
    Case("pm25", "pm25", "mlp"),
    Case("energy", "energy", "mlp"),
    Case("stations", "stations", "mlp", clients=12, steps=1500),
    Case("linear", "synthetic regression 100 none", "linear"),
    Case("turning", "synthetic classification 40 abrupt", "softmax"),
    Case("net", "synthetic classification 20 gradual", "mlp", clients=200),
)


@lru_cache(maxsize=2)
def _load(name: str) -> Dataset:
    if name != "stations":
        return streams.load(name)
    path = Path(os.environ.get("OFEDIQ_DATA", "data")) / "beijing_multisite.csv.gz"
    return streams.load_file(
        path,
        "PM2.5",
        client_column="station",
        time_column="No",
        features=_READINGS,
        scaling_fit=0.1,
        missing="drop",
    )


def model_of(case: Case) -> Model:
    """The model of a case."""
    data = case.stream(0).dataset
    return models.build(case.model, data.sample_shape, data.task, classes=data.classes)


def score(result: Result) -> float:
    """Accuracy or mean squared error over all predictions."""
    return float((result.mse if result.stream.dataset.task == "regression" else result.accuracy)[-1])


def spent(result: Result) -> float:
    """All bytes as a share of FedOGD's."""
    stream = result.stream
    whole = fedogd_bytes(result.model.dim) * stream.clients * stream.steps
    return float(result.bytes_total.sum()) / whole


def loss(result: Result, whole: Result) -> float:
    """Points of accuracy lost, or per cent by which the squared error grew."""
    ours, theirs = score(result), score(whole)
    return 100 * (ours / theirs - 1 if result.stream.dataset.task == "regression" else theirs - ours)


def fitted(case: Case, method: str, share: float, stream: Stream, model: Model) -> Method:
    """`method` within a share of all of FedOGD's bytes."""
    return methods.at_budget(
        method,
        share,
        model.dim,
        stream.clients,
        step_size=case.step_size,
        preset="authors",
        steps=stream.steps,
        budget_of="total",
    )


def run(case: Case, shares: Sequence[float] = SHARES, method: str = "ofedduplex") -> list[list[object]]:
    """Rows of one stream, one for each share."""
    model, found = model_of(case), []
    for seed in range(SEEDS):
        stream = case.stream(seed)
        whole = simulate(methods.fedogd(case.step_size, "authors"), stream, model, seed)
        chosen = (fitted(case, method, share, stream, model) for share in shares)
        found.append((whole, [simulate(one, stream, model, seed) for one in chosen]))
    unit = "%" if found[0][0].stream.dataset.task == "regression" else "points"
    rows: list[list[object]] = []
    for place, share in enumerate(shares):
        losses = [loss(results[place], whole) for whole, results in found]
        rows.append(
            [
                case.name,
                model.dim,
                found[0][0].stream.clients,
                found[0][0].stream.steps,
                f"{100 * share:g}%",
                f"{100 * fmean(spent(results[place]) for _, results in found):.3g}%",
                f"{fmean(score(whole) for whole, _ in found):.4g}",
                f"{fmean(score(results[place]) for _, results in found):.4g}",
                f"{fmean(losses):.2f}",
                f"{max(losses) - min(losses):.2f}",
                unit,
            ]
        )
    return rows


def main(chosen: Sequence[str] = ()) -> None:
    """Print the table, row by row as they come; of all streams, or of those that are named."""
    head = ["stream", "D", "K", "T", "budget", "spent", "FedOGD", "OFedDuplex", "loss", "range", ""]
    rows: list[list[object]] = [list(head)]
    for case in CASES:
        if chosen and case.name not in chosen:
            continue
        try:
            rows += run(case)
        except DataError as error:
            print(f"{case.name}: left out, {error}")
        else:
            print(table([rows[0], *rows[-len(SHARES) :]]), flush=True)
    print(f"\n{table(rows)}")


if __name__ == "__main__":
    main(sys.argv[1:])
