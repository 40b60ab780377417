"""Preset auto on many streams: its skill over time, and what tuning a step size by hand would have brought.

`python -m benchmarks own_data` writes each made stream to a CSV file, as a stranger would, runs it with defaults, and
prints skill against the best naive forecast after 10 and 100 steps and at the end, the lowest after step 10, and the
error over that of the best of AdaGrad, Adam and descent over a grid of step sizes, chosen in hindsight per stream.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pandas
from numpy.typing import NDArray

from benchmarks import table
from ofediq import methods
from ofediq.experiment import Config, Experiment
from ofediq.methods import ServerRule
from ofediq.simulation import Result, simulate
from ofediq.streams import APART, naive_references

CLIENTS, STEPS, READINGS = 10, 800, 6
METHOD = "ofediq"
Frame = dict[str, Any]
Rng = np.random.Generator
NAMED = ("pm25", "energy", "room", "air")
HEADER = [
    "stream",
    "D",
    "reference",
    "skill % at 10",
    "at 100",
    "at T",
    "lowest",
    "error / tuned",
    "tuned",
]


def tuned() -> dict[str, ServerRule]:
    """What a patient user would try."""
    found: dict[str, ServerRule] = {f"descend({eta:g})": methods.descend(eta) for eta in (0.01, 0.1)}
    for eta in (0.01, 0.03, 0.1, 0.3):
        rule = optax.adagrad(eta, initial_accumulator_value=0.0)
        found[f"adagrad({eta:g})"] = methods.optimizer(rule, f"adagrad({eta:g})")
    found |= {f"adam({eta:g})": methods.adam(eta) for eta in (0.003, 0.01)}
    return found


def made() -> dict[str, Callable[[Rng, NDArray[Any]], Any]]:
    """Targets of one client from its readings [steps, readings]; a client's own draws come from the generator."""

    def follow(x: NDArray[Any], past: tuple[float, ...], rng: Rng, noise: float = 1.0) -> NDArray[Any]:
        y = np.zeros(len(x))
        for t in range(len(past), len(x)):
            y[t] = sum(a * y[t - lag] for lag, a in enumerate(past, 1)) + 0.5 * x[t, 0] + noise * rng.normal()
        return y

    def markov(scores: NDArray[Any], stay: float, rng: Rng) -> NDArray[Any]:
        labels = np.zeros(len(scores), int)
        for t in range(1, len(scores)):
            score = scores[t] + rng.gumbel(size=scores.shape[1])
            score[labels[t - 1]] += stay
            labels[t] = np.argmax(score)
        return labels

    weights = np.random.default_rng(7).normal(size=(READINGS, 3))
    linear = weights[:, 0] / np.sqrt(READINGS)

    def turned(x: NDArray[Any], period: int) -> NDArray[Any]:
        return np.where(np.arange(len(x)) // period % 2, -1.0, 1.0)

    return {
        "independent": lambda rng, x: x @ linear + 0.5 * rng.normal(size=len(x)),
        "noise": lambda rng, x: rng.normal(size=len(x)),
        "random walk": lambda rng, x: np.cumsum(rng.normal(size=len(x))),
        "own past": lambda rng, x: follow(x, (1.6, -0.7), rng),
        "in 10,000s": lambda rng, x: 1e4 * (20 + follow(x, (0.98,), rng)),
        "in 0.001s": lambda rng, x: 1e-3 * follow(x, (0.9,), rng, 0.2),
        "trend": lambda rng, x: 0.01 * np.arange(len(x)) + x @ linear + 0.3 * rng.normal(size=len(x)),
        "season": lambda rng, x: (
            np.sin(2 * np.pi * (np.arange(len(x)) + rng.integers(24)) / 24) + 0.2 * rng.normal(size=len(x))
        ),
        "abrupt drift": lambda rng, x: turned(x, STEPS // 2) * (x @ linear) + 0.3 * rng.normal(size=len(x)),
        "recurring drift": lambda rng, x: turned(x, 150) * (x @ linear) + 0.3 * rng.normal(size=len(x)),
        "heavy tails": lambda rng, x: np.cumsum(rng.standard_t(2.5, size=len(x))) + x @ linear,
        "unlike clients": lambda rng, x: (
            x @ (linear + rng.normal(size=READINGS) / 3) + 0.3 * rng.normal(size=len(x))
        ),
        "labels": lambda rng, x: np.argmax(x @ weights + rng.gumbel(size=(len(x), 3)), axis=1),
        "sticky labels": lambda rng, x: markov(0.7 * x @ weights, 3.0, rng),
        "price-like, drift": lambda rng, x: markov((turned(x, 200)[:, None] * x) @ weights[:, :2], 2.0, rng),
        "rare label": lambda rng, x: (x @ weights[:, 0] + rng.gumbel(size=len(x)) > 6).astype(int),
        "coin flips": lambda rng, x: rng.integers(0, 2, size=len(x)),
    }


def frame(name: str, seed: int = 0) -> Frame:
    """A made stream as columns: its clients, readings with a constant one, another in thousandths and gaps, and y."""
    parts: list[Any] = []
    for client in range(CLIENTS):
        rng = np.random.default_rng([seed, client])
        x = rng.normal(size=(STEPS, READINGS))
        y = np.asarray(made()[name](rng, x))
        x[rng.random(x.shape) < 0.01] = np.nan
        columns = {f"x{place}": x[:, place] * 10.0 ** (place - 3) for place in range(READINGS)}
        moments = np.arange(STEPS)
        parts.append(pandas.DataFrame({"t": moments, "who": f"c{client}", **columns, "flat": 7.0, "y": y}))
    return {"frame": pandas.concat(parts).sort_values("t", kind="stable")}


def configurations(folder: Path, only: tuple[str, ...]) -> Iterator[tuple[str, Config]]:
    """Every stream by name."""
    for name in NAMED:
        if not only or name in only:
            yield name, Config(dataset=name, preset="auto", methods=(METHOD,))
    for name in made():
        if not only or name in only:
            path = folder / f"{name.replace(' ', '-').replace(',', '')}.csv"
            frame(name)["frame"].to_csv(path, index=False)
            task = "classification" if name in _LABELLED else "regression"
            yield (
                name,
                Config(
                    data=str(path),
                    target="y",
                    client_column="who",
                    time_column="t",
                    methods=(METHOD,),
                    options={"task": task},
                ),
            )


_LABELLED = ("labels", "sticky labels", "price-like, drift", "rare label", "coin flips")


def error_of(result: Result) -> float:
    """Mean error over all predictions; infinite if the run diverged."""
    error = float(result.running_error[-1])
    return error if np.isfinite(error) else float("inf")


def row(name: str, config: Config, chosen: str = METHOD, *, tune: bool = True) -> list[str]:
    """One stream; what tuning would have brought only if asked for."""
    experiment = Experiment.set_up(config)
    stream, model, method = experiment.deal(0), experiment.model, experiment.methods[chosen]
    result = simulate(method, stream, model)
    naive = {key: one for key, one in naive_references(stream).items() if key not in APART}
    errors = {key: 1 - one if stream.task == "classification" else one for key, one in naive.items()}
    best = min(errors, key=lambda key: float(errors[key][-1]))
    with np.errstate(invalid="ignore", divide="ignore"):
        skill = 1 - result.running_error / errors[best]
    fixed = {
        key: error_of(simulate(methods.with_server(method, rule), stream, model))
        for key, rule in (tuned() if tune else {}).items()
    }
    first = min(fixed, key=lambda key: fixed[key], default="")
    shown = [f"{100 * float(skill[min(t, len(skill) - 1)]):+.1f}" for t in (9, 99, len(skill) - 1)]
    return [
        name,
        f"{model.dim}",
        best,
        *shown,
        f"{100 * float(np.nanmin(skill[9:])):+.1f}",
        f"{error_of(result) / fixed[first]:.3f}" if first else "",
        first,
    ]


def main(only: tuple[str, ...] = ()) -> None:
    """Print the table."""
    rows = [HEADER]
    with tempfile.TemporaryDirectory() as folder:
        for name, config in configurations(Path(folder), tuple(set(only) - {"untuned"})):
            rows.append(row(name, config, tune="untuned" not in only))
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print(f"OFedIQ at the default budget, K = {CLIENTS}, one pass, one seed")
    print(table(rows))


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
