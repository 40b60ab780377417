"""Everything that was run, in numbers: what results.json holds and the report shows."""

from __future__ import annotations

import datetime
import math
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from ofediq import __version__
from ofediq.reproduction.claims import check_claims
from ofediq.reproduction.convex import Case, summarise
from ofediq.reproduction.guarantees import guarantees
from ofediq.reproduction.panels import PANELS, Panel, Scale
from ofediq.reproduction.store import Curve, Record, Store
from ofediq.reproduction.units import Recipe

_PACKAGES = ("numpy", "jax", "optax", "scikit-learn")


def collect(
    names: Sequence[str], preset: str, seeds: int, scale: Scale, store: Store, convex: Sequence[Case] = ()
) -> dict[str, Any]:
    """Values of the named panels with the authors' beside them, claims and Table 1; JSON-ready.

    What is not finished is missing, and a panel says so. Off the paper's scale nothing is compared with the
    authors' values.
    """
    panels = {name: panel_results(PANELS[name], preset, seeds, scale, store) for name in names}
    results: dict[str, Any] = {
        "ofediq": __version__,
        "versions": _versions(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "preset": preset,
        "paper_scale": scale.full,
        "seeds": seeds,
        "panels": panels,
        "convex": summarise(convex, store) if convex else None,
        "table1": guarantees(),
    }
    results["claims"] = [claim.to_dict() for claim in check_claims(results)]
    return results


def records(panel: Panel, preset: str, seeds: int, scale: Scale, store: Store) -> dict[str, list[Record]]:
    """The finished runs of each method of a panel, by label."""
    found: dict[str, list[Record]] = {recipe.label: [] for recipe in panel.recipes}
    for seed in range(seeds):
        for unit in panel.units(preset, seed, scale):
            record = store.load(unit)
            if record is not None:
                found[unit.recipe.label].append(record)
    return {label: of_method for label, of_method in found.items() if of_method}


def naive_curves(panel: Panel, preset: str, seeds: int, scale: Scale, store: Store) -> dict[str, Curve]:
    """The naive references of a panel, mean over the seeds that were run."""
    by_seed = [store.load_naive(panel.data(preset, seed, scale)) for seed in range(seeds)]
    known = [curves for curves in by_seed if curves is not None]
    if not known:
        return {}
    return {name: np.mean([curves[name] for curves in known], axis=0) for name in known[0]}


def panel_results(panel: Panel, preset: str, seeds: int, scale: Scale, store: Store) -> dict[str, Any]:
    """One panel in numbers."""
    data = panel.data(preset, 0, scale)
    found = records(panel, preset, seeds, scale, store)
    naive = naive_curves(panel, preset, seeds, scale, store)
    authors = panel.authors if scale.full else {}
    methods = {
        recipe.label: _method(panel, recipe, found[recipe.label], data.clients, authors.get(recipe.label))
        for recipe in panel.recipes
        if recipe.label in found
    }
    return {
        "title": panel.title,
        "dataset": panel.task.title,
        "model": panel.task.model,
        "dim": panel.task.dim,
        "paper_dim": panel.task.paper_dim,
        "metric": panel.task.metric,
        "ccr": panel.ccr,
        "clients": data.clients,
        "steps": data.steps,
        "partition": data.partition,
        "options": dict(data.options),
        "methods": methods,
        "naive": {name: _finite(float(curve[-1])) for name, curve in naive.items()},
        "complete": all(len(found.get(recipe.label, ())) == seeds for recipe in panel.recipes),
        "same_order": _same_order(methods, authors, panel.task.metric),
    }


def _method(
    panel: Panel, recipe: Recipe, runs: Sequence[Record], clients: int, authors: float | None
) -> dict[str, Any]:
    finals = [_finite(run.final) for run in runs]
    known = [value for value in finals if value is not None]
    value = statistics.fmean(known) if len(known) == len(finals) else None
    everything = 32.0 * panel.task.dim * clients * runs[0].steps
    return {
        "parameters": recipe.parameters,
        "value": value,
        "std": statistics.stdev(known) if 1 < len(known) == len(finals) else None,
        "per_seed": finals,
        "seeds": [run.seed for run in runs],
        "authors": authors,
        "difference": None if authors is None or value is None else value - authors,
        "ccr": 1 - statistics.fmean(float(run.bits_formula.sum()) for run in runs) / everything,
        "ccr_wire": 1 - statistics.fmean(float(run.bits_wire.sum()) for run in runs) / everything,
        "seconds": [round(run.seconds, 1) for run in runs],
    }


def _same_order(methods: Mapping[str, Any], authors: Mapping[str, float], metric: str) -> bool | None:
    """Whether the methods rank as the authors' do; None where that cannot be said."""
    if not authors or not authors.keys() <= methods.keys():
        return None
    ours = {label: methods[label]["value"] for label in authors}
    if any(value is None for value in ours.values()):
        return None
    falling = metric == "accuracy"
    return sorted(authors, key=lambda label: authors[label], reverse=falling) == sorted(
        authors, key=lambda label: ours[label], reverse=falling
    )


def _versions() -> dict[str, str]:
    known = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return known


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity: a diverged value is null."""
    return value if math.isfinite(value) else None
