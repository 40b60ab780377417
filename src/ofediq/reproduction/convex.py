"""Regret on a convex model, where the theorems speak: softmax regression on the embedded digits.

Two questions. Does the measured regret stay under Theorems 1 and 2? Does it grow like the root of the horizon when
the step size is that of Corollary 1? The presets play no part: the theorems are about plain descent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from ofediq.experiment import Config
from ofediq.models import build
from ofediq.report import Comparison
from ofediq.reproduction.panels import Scale, merged, series_name
from ofediq.reproduction.recipes import Recipe
from ofediq.simulation import Comparator, Regret, hindsight
from ofediq.streams import load, partition
from ofediq.theory import (
    best_step_size,
    ofedavg_step_limit,
    ofediq_step_limit,
    plan,
    quantizer_variance,
)

BUDGET, PENALTY, DIM = 0.1, 0.01, 650
_MODEL = build(f"softmax(l2={PENALTY})", (8, 8), "classification", classes=10)
_TOLERANCE = 1e-4  # of the gradient's norm at w*: with this penalty, below 1e-6 of loss per sample
_SAFE = 0.9  # share of the largest step size that a theorem allows
_CLIENTS, _STEPS, _HORIZONS = 100, 1600, (400, 800, 1600, 3200, 6400)
_QUICK_CLIENTS, _QUICK_STEPS, _QUICK_HORIZONS = 20, 200, (50, 100, 200)


@dataclass(frozen=True)
class Trial:
    """One run whose regret is measured.

    Attributes:
        method: the method, before it has its step size.
        clients: K.
        steps: T.
        seed: of data and draws.
        step: `corollary` for the step size of Corollary 1; `covered` for the same, cut where a theorem needs it.
    """

    method: Recipe
    clients: int
    steps: int
    seed: int
    step: Literal["corollary", "covered"]

    @property
    def theorem(self) -> int:
        """Which theorem covers the method."""
        return 2 if self.method.levels or self.method.period > 1 else 1

    @property
    def config(self) -> Config:
        """The experiment that it is a part of."""
        return Config(
            dataset="digits",
            model=f"softmax(l2={PENALTY})",
            partition="random",
            clients=self.clients,
            steps=self.steps,
            seed=self.seed,
            preset="paper",
            methods=(self.recipe.text,),
            regret=False,  # it is measured here, with a tolerance of its own
        )

    @cached_property
    def recipe(self) -> Recipe:
        """The method with its step size."""
        return replace(self.method, step_size=_step_size(self))


def trials(seeds: int, scale: Scale) -> list[Trial]:
    """All trials: first those for the bounds, then those for the growth."""
    clients = _CLIENTS if scale.full else _QUICK_CLIENTS
    steps = _STEPS if scale.full else _QUICK_STEPS
    horizons = _HORIZONS if scale.full else _QUICK_HORIZONS
    every = range(seeds)
    bounds = [Trial(method, clients, steps, seed, "covered") for method in recipes() for seed in every]
    growth = [
        Trial(method, clients, horizon, seed, "corollary")
        for method in recipes()[:-1]
        for horizon in horizons
        for seed in every
    ]
    return bounds + growth


def recipes() -> tuple[Recipe, Recipe, Recipe, Recipe]:
    """FedOGD, and at a tenth of its bits OFedAvg, OFedIQ, and OFedIQ that sends every fourth step."""
    chosen = plan(BUDGET, DIM, _CLIENTS, method="paper")
    rate, levels, blocks = chosen.mean_rate, chosen.levels, chosen.blocks
    return (
        Recipe("FedOGD", "fedogd"),
        Recipe("OFedAvg", "ofedavg", rate=BUDGET),
        Recipe("OFedIQ", "ofediq", rate, 1, levels, blocks),
        Recipe("OFedIQ L=4", "ofediq", rate, 4, levels, blocks),
    )


def trial_series(wanted: Sequence[Trial]) -> dict[str, Config]:
    """The experiments behind the trials, by the names of their folders."""
    return merged(trial.config for trial in wanted)


def measure(wanted: Sequence[Trial], done: Mapping[str, Comparison]) -> dict[Trial, Regret]:
    """The regrets of the trials that are finished; `done` has what is there of each series."""
    found = {}
    for trial in wanted:
        comparison = done.get(series_name(trial.config))
        for result in comparison.runs.get(trial.recipe.text, ()) if comparison else ():
            best, _ = _facts(trial.clients, trial.steps, trial.seed)
            found[trial] = result.regret(_TOLERANCE, best)
    return found


def summarise(wanted: Sequence[Trial], measured: Mapping[Trial, Regret]) -> dict[str, Any] | None:
    """What the trials came to, JSON-ready; None if some are missing."""
    if not wanted or not all(trial in measured for trial in wanted):
        return None
    return {
        "model": f"softmax regression, D = {DIM}, l2 = {PENALTY}",
        "clients": wanted[0].clients,
        "bounds": [_bound_row(one, measured[one]) for one in wanted if one.step == "covered"],
        "growth": _growth({one: measured[one] for one in wanted if one.step == "corollary"}),
    }


def bounded(measured: Mapping[Trial, Regret]) -> dict[str, list[Regret]]:
    """The measured trials for the bounds, by method: what a picture shows."""
    by_method: dict[str, list[Regret]] = {}
    for trial, regret in measured.items():
        if trial.step == "covered":
            by_method.setdefault(trial.method.label, []).append(regret)
    return by_method


def _bound_row(trial: Trial, regret: Regret) -> dict[str, Any]:
    bound = regret.bound
    return {
        "method": trial.method.label,
        "theorem": trial.theorem,
        "seed": trial.seed,
        "steps": trial.steps,
        "step_size": trial.recipe.step_size,
        "regret": float(regret.curve[-1]),
        "bound": None if bound is None else float(bound[-1]),
        "under_at_every_step": bound is not None and bool((regret.curve <= bound).all()),
        "comparator_exact": not regret.estimate,
    }


def _growth(measured: Mapping[Trial, Regret]) -> dict[str, Any]:
    """For each method the mean regret at each horizon, and the slope of its logarithm."""
    by_method: dict[str, dict[int, list[float]]] = {}
    for trial, regret in measured.items():
        horizons = by_method.setdefault(trial.method.label, {})
        horizons.setdefault(trial.steps, []).append(float(regret.curve[-1]))
    growth = {}
    for label, horizons in by_method.items():
        means = [float(np.mean(values)) for values in horizons.values()]
        growth[label] = {
            "horizons": list(horizons),
            "regret": means,
            "slope": _slope(list(horizons), means),
        }
    return growth


def _slope(horizons: Sequence[int], regrets: Sequence[float]) -> float | None:
    """Slope of log regret over log horizon by least squares; None where a regret is not positive."""
    if min(regrets) <= 0:
        return None
    return float(np.polyfit(np.log(horizons), np.log(regrets), 1)[0])


@lru_cache(maxsize=64)
def _facts(clients: int, steps: int, seed: int) -> tuple[Comparator, float]:
    """w* of a stream, and the smoothness of the losses on it: all methods share them."""
    stream = partition(load("digits"), clients, steps, kind="random", seed=seed)
    smoothness = _MODEL.smoothness(stream.x)
    assert smoothness is not None  # the model is convex
    return hindsight(_MODEL, stream, tolerance=_TOLERANCE), smoothness


def _step_size(trial: Trial) -> float:
    """Corollary 1's step size for the trial's stream; below the theorem's limit if it asks for that."""
    method = trial.method
    best, smoothness = _facts(trial.clients, trial.steps, trial.seed)
    common: dict[str, Any] = {"clients": trial.clients}
    if trial.theorem == 2:
        noise = quantizer_variance(method.levels, method.blocks, DIM) if method.levels else 0.0
        common |= {"quantizer_variance": noise, "period": method.period}
    chosen = best_step_size(
        method.rate,
        steps=trial.steps,
        optimum_norm=float(np.linalg.norm(best.params)),
        heterogeneity=best.heterogeneity,
        factor=2 * trial.theorem,  # Theorem 2 pays 4 where Theorem 1 pays 2
        **common,
    )
    limit = (ofediq_step_limit if trial.theorem == 2 else ofedavg_step_limit)(
        method.rate, smoothness=smoothness, **common
    )
    return min(chosen, _SAFE * limit) if trial.step == "covered" else chosen
