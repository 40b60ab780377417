"""Finished experiments in a tracker: one run per method and seed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ofediq.experiment.config import Config
from ofediq.report import Comparison
from ofediq.simulation import Regret, Result
from ofediq.tracking import Tracker

POINTS = 500
"""At most so many points per curve; each stands for the steps since the one before it."""


def track(config: Config, comparison: Comparison, tracker: Tracker, name: str) -> None:
    """Give every result to `tracker`: parameters, thinned curves and final figures.

    Args:
        config: what was run.
        comparison: what it came to.
        tracker: where it goes.
        name: of the experiment; runs are called name/method-seed.
    """
    for key, results in comparison.runs.items():
        for result in results:
            regret = comparison.regrets.get(key, {}).get(result.seed)
            tracker.start(f"{name}/{key}-{result.seed}", _parameters(config, key, result))
            for step, values in _points(result, regret):
                tracker.log(step, values)
            tracker.finish(_figures(result, regret))


def _parameters(config: Config, key: str, result: Result) -> dict[str, Any]:
    """The choices, with method and model as they were built."""
    chosen = {**config.to_dict(), **config.options, "model": result.model.name, "dim": result.model.dim}
    for name in ("options", "methods", "seeds", "regret"):
        del chosen[name]
    chosen |= {"method": key, "seed": result.seed}
    pieces = {name: value for name, value in result.method.describe().items() if name != "name"}
    plain = {**chosen, **{f"method.{name}": value for name, value in pieces.items()}}
    return {
        name: value if isinstance(value, (str, int, float)) else str(value)
        for name, value in plain.items()
        if value is not None
    }


def _points(result: Result, regret: Regret | None) -> Iterator[tuple[int, dict[str, float]]]:
    """(step, values): means over the steps since the point before, bits and regret up to the step."""
    ends = np.unique(np.linspace(0, result.steps, min(POINTS, result.steps) + 1).round().astype(int))
    totals = {
        name: np.cumsum(getattr(result, name)) for name in ("bits_formula", "bits_wire", "bits_downlink")
    }
    if regret is not None:
        totals["regret"] = regret.curve
        if regret.bound is not None:
            totals["regret_bound"] = regret.bound
    for begin, end in pairwise(ends):
        present = result.present[begin:end].sum()
        values = {result.metric: result.curve[end - 1], "senders": result.senders[begin:end].mean()}
        if present:
            values["loss"] = result.loss[begin:end].sum() / present
        values |= {name: curve[end - 1] for name, curve in totals.items()}
        yield int(end), {name: float(value) for name, value in values.items()}


def _figures(result: Result, regret: Regret | None) -> dict[str, float]:
    figures = {
        name: float(value) for name, value in result.summary().items() if isinstance(value, (int, float))
    }
    if regret is not None:
        figures["regret"] = float(regret.curve[-1])
    return figures
