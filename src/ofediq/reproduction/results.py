"""Everything that was run, in numbers: what results.json holds and the report shows."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from ofediq import __version__
from ofediq.experiment.folder import versions
from ofediq.report import Comparison, summarize
from ofediq.reproduction.claims import check_claims
from ofediq.reproduction.panels import PANELS, Panel, Scale, series_name
from ofediq.reproduction.recipes import Recipe
from ofediq.reproduction.table1 import guarantees


def collect(
    names: Sequence[str],
    preset: str,
    seeds: int,
    scale: Scale,
    done: Mapping[str, Comparison],
    convex: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Values of the named panels with the authors' beside them, claims and Table 1; JSON-ready.

    What is not finished is missing, and a panel says so. Off the paper's scale nothing is compared with the
    authors' values.
    """
    panels = {name: panel_results(PANELS[name], preset, seeds, scale, done) for name in names}
    results: dict[str, Any] = {
        "ofediq": __version__,
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "preset": preset,
        "paper_scale": scale.full,
        "seeds": seeds,
        "panels": panels,
        "convex": convex,
        "table1": guarantees(),
    }
    results["claims"] = [claim.to_dict() for claim in check_claims(results)]
    return results


def panel_results(
    panel: Panel, preset: str, seeds: int, scale: Scale, done: Mapping[str, Comparison]
) -> dict[str, Any]:
    """One panel in numbers."""
    config = panel.config(preset, seeds, scale)
    comparison = done.get(series_name(config))
    summary = {"methods": {}, "naive": {}} if comparison is None else summarize(comparison)
    authors = panel.authors if scale.full else {}
    metric = panel.problem.metric
    methods = {
        recipe.label: _method(recipe, summary["methods"][recipe.text], metric, authors.get(recipe.label))
        for recipe in panel.recipes
        if recipe.text in summary["methods"]
    }
    return {
        "title": panel.title,
        "dataset": panel.problem.title,
        "model": panel.problem.model,
        "dim": panel.problem.dim,
        "paper_dim": panel.problem.paper_dim,
        "metric": metric,
        "ccr": panel.ccr,
        "clients": config.clients,
        "steps": config.steps,
        "partition": config.partition,
        "options": dict(config.options),
        "methods": methods,
        "naive": summary["naive"],
        "complete": [len(one["seeds"]) for one in methods.values()] == [seeds] * len(panel.recipes),
        "same_order": _same_order(methods, authors, metric),
    }


def _method(recipe: Recipe, found: Mapping[str, Any], metric: str, authors: float | None) -> dict[str, Any]:
    value = found[metric]
    return {
        "parameters": recipe.parameters,
        "value": value,
        "std": found[f"{metric}_std"],
        "per_seed": found["per_seed"][metric],
        "seeds": found["seeds"],
        "authors": authors,
        "difference": None if authors is None or value is None else value - authors,
        "ccr": found["ccr"],
        "ccr_wire": found["ccr_wire"],
        "seconds": [round(seconds, 1) for seconds in found["per_seed"]["seconds"]],
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
