"""A comparison in a few numbers, ready for JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from ofediq.report.comparison import Comparison
from ofediq.simulation import Regret, Result
from ofediq.simulation.result import finite


def summarize(comparison: Comparison) -> dict[str, Any]:
    """Metric, methods by key and naive references, each the mean over seeds.

    Every number of a method comes three times: `name` is the mean over seeds, `name_std` the sample standard
    deviation (null for one seed), `per_seed[name]` the values in the order of `seeds`. A value that is not finite,
    such as the loss of a diverged run, is null, and so is its mean. `skill` is 1 - error / error of the best naive
    forecast (`reference`) over as many steps: above 0 is better than knowing nothing but the past. `drift` are the
    steps after which errors have risen (first seed), `recent_accuracy` or `recent_mse` the last tenth of the steps.
    """
    methods = {key: _method(comparison, key, results) for key, results in comparison.counted.items()}
    naive = {name: finite(float(curve[-1])) for name, curve in comparison.naive_curves.items()}
    for one in methods.values():
        one["skill"], one["reference"] = _skill(comparison, one)
    return {"metric": comparison.metric, "methods": methods, "naive": naive}


def _skill(comparison: Comparison, method: dict[str, Any]) -> tuple[float | None, str | None]:
    """1 - error / error of the best naive forecast, and which that is. The best constant looks ahead: it is none."""
    value, best = method[comparison.metric], comparison.best_naive(method["steps"])
    if best is None or value is None:
        return None, None
    error = 1 - value if comparison.metric == "accuracy" else value
    return (None if best[1] <= 0 else 1 - error / best[1]), best[0]


def _method(comparison: Comparison, key: str, results: Sequence[Result]) -> dict[str, Any]:
    summaries = [result.summary() for result in results]
    numbers = {name: [one[name] for one in summaries] for name in summaries[0]}
    steps, diverged, engines = (numbers.pop(name) for name in ("steps", "diverged", "engine"))
    measured = comparison.regrets.get(key, {})
    regrets = [measured[result.seed] for result in results if result.seed in measured]
    numbers |= _regret_numbers(regrets)
    spread: dict[str, Any] = {}
    for name, values in numbers.items():
        spread |= {name: _mean(values), f"{name}_std": _deviation(values)}
    return {
        "name": results[0].name,
        **spread,
        **_regret_facts(regrets),
        "steps": steps[0],
        "diverged": any(diverged),
        "drift": results[0].drift,
        "engine": engines[0],
        "interrupted": comparison.interrupted(key),
        "seeds": [result.seed for result in results],
        "per_seed": numbers,
        "parameters": results[0].method.describe(),
    }


def _regret_numbers(regrets: Sequence[Regret]) -> dict[str, list[float | None]]:
    if not regrets:
        return {}
    numbers = {
        "regret": [finite(float(regret.curve[-1])) for regret in regrets],
        "heterogeneity": [finite(regret.comparator.heterogeneity) for regret in regrets],
    }
    bounds = [None if regret.bound is None else finite(float(regret.bound[-1])) for regret in regrets]
    return {**numbers, "regret_bound": bounds}


def _regret_facts(regrets: Sequence[Regret]) -> dict[str, Any]:
    if not regrets:
        return {}
    reason = next((regret.reason for regret in regrets if regret.reason), None)
    return {
        "regret_is_estimate": any(regret.estimate for regret in regrets),
        "regret_bound_missing": reason,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def _deviation(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if 1 < len(known) == len(values) else None
