"""Regret on a convex model, where the theorems speak: softmax regression on the embedded digits.

Two questions. Does the measured regret stay under Theorems 1 and 2? Does it grow like the root of the horizon when
the step size is that of Corollary 1? The presets play no part: the theorems are about plain descent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ofediq.errors import CheckpointError
from ofediq.experiment import Listener
from ofediq.models import softmax
from ofediq.reproduction.panels import Scale
from ofediq.reproduction.recipes import Recipe
from ofediq.simulation import Comparator, hindsight, simulate
from ofediq.storage import Format
from ofediq.streams import Stream, load, partition
from ofediq.theory import (
    best_step_size,
    ofedavg_step_limit,
    ofediq_step_limit,
    plan,
    quantizer_variance,
)

Curve = npt.NDArray[np.float64]
BUDGET, PENALTY, DIM = 0.1, 0.01, 650
_TOLERANCE = 1e-4  # of the gradient's norm at w*: with this penalty, below 1e-6 of loss per sample
_SAFE = 0.9  # share of the largest step size that a theorem allows
_CLIENTS, _STEPS, _HORIZONS = 100, 1600, (400, 800, 1600, 3200, 6400)
_MEASURED = Format("measured regret", 1)
_QUICK_CLIENTS, _QUICK_STEPS, _QUICK_HORIZONS = 20, 200, (50, 100, 200)


@dataclass(frozen=True)
class Trial:
    """One run whose regret is measured.

    Attributes:
        recipe: the method.
        clients: K.
        steps: T.
        seed: of data and draws.
        step: `corollary` for the step size of Corollary 1; `covered` for the same, cut where a theorem needs it.
    """

    recipe: Recipe
    clients: int
    steps: int
    seed: int
    step: Literal["corollary", "covered"]

    @property
    def name(self) -> str:
        """A name for files."""
        label = self.recipe.label.replace(" ", "-")
        return f"regret-digits-K{self.clients}-T{self.steps}-seed{self.seed}-{self.step}-{label}"

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the outcome."""
        return {"trial": self.name, "method": self.recipe.parameters}

    @property
    def theorem(self) -> int:
        """Which theorem covers the method."""
        return 2 if self.recipe.levels or self.recipe.period > 1 else 1


@dataclass(frozen=True, eq=False)
class MeasuredTrial:
    """The regret of a trial; pictures take it like a `Regret`.

    Attributes:
        trial: what ran.
        curve: regret up to each step.
        bound: the theorem's value at each step, or None where the step size is too large for it.
        step_size: eta.
        exact: whether the best model in hindsight was found to the tolerance.
    """

    trial: Trial
    curve: Curve
    bound: Curve | None
    step_size: float
    exact: bool


def trials(seeds: int, scale: Scale) -> list[Trial]:
    """All trials: first those for the bounds, then those for the growth."""
    clients = _CLIENTS if scale.full else _QUICK_CLIENTS
    steps = _STEPS if scale.full else _QUICK_STEPS
    horizons = _HORIZONS if scale.full else _QUICK_HORIZONS
    fedogd, ofedavg, ofediq, periodic = recipes()
    every = range(seeds)
    bounds = [
        Trial(recipe, clients, steps, seed, "covered")
        for recipe in (fedogd, ofedavg, ofediq, periodic)
        for seed in every
    ]
    growth = [
        Trial(recipe, clients, horizon, seed, "corollary")
        for recipe in (fedogd, ofedavg, ofediq)
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


def measure_all(wanted: Sequence[Trial], folder: Path, listener: Listener, *, force: bool = False) -> bool:
    """Measure the trials that `folder` does not hold. Returns whether all were measured."""
    missing = [trial for trial in wanted if force or load_trial(trial, folder) is None]
    if not missing:
        return True
    listener.started("regret on digits (softmax)", len(missing))
    try:
        for count, trial in enumerate(missing, 1):
            save_trial(_measure(trial), folder)
            listener.advanced(count)
    except KeyboardInterrupt:
        return False
    listener.finished(f"{len(missing)} runs measured against the best fixed model in hindsight")
    return True


def load_trial(trial: Trial, folder: Path) -> MeasuredTrial | None:
    """A measured trial, or None."""
    try:
        stored = _MEASURED.read(folder / f"{trial.name}.npz", identity=trial.identity)
        bound = stored.array("bound") if stored.array("bound").size else None
        return MeasuredTrial(
            trial, stored.array("curve"), bound, stored.meta["step_size"], stored.meta["exact"]
        )
    except CheckpointError:
        return None


def save_trial(one: MeasuredTrial, folder: Path) -> None:
    """Keep a measured trial."""
    arrays = {"curve": one.curve, "bound": np.zeros(0) if one.bound is None else one.bound}
    meta = {"step_size": one.step_size, "exact": one.exact}
    _MEASURED.write(folder / f"{one.trial.name}.npz", arrays, identity=one.trial.identity, meta=meta)


def summarise(wanted: Sequence[Trial], folder: Path) -> dict[str, Any] | None:
    """What the trials came to, JSON-ready; None if some are missing."""
    measured = [load_trial(trial, folder) for trial in wanted]
    done = [one for one in measured if one is not None]
    if not done or len(done) < len(measured):
        return None
    return {
        "model": f"softmax regression, D = {DIM}, l2 = {PENALTY}",
        "clients": wanted[0].clients,
        "bounds": [_bound_row(one) for one in done if one.trial.step == "covered"],
        "growth": _growth([one for one in done if one.trial.step == "corollary"]),
    }


def bounded(wanted: Sequence[Trial], folder: Path) -> dict[str, list[MeasuredTrial]]:
    """The measured trials for the bounds, by method: what a picture shows."""
    by_method: dict[str, list[MeasuredTrial]] = {}
    for trial in wanted:
        found = load_trial(trial, folder) if trial.step == "covered" else None
        if found is not None:
            by_method.setdefault(trial.recipe.label, []).append(found)
    return by_method


def _bound_row(one: MeasuredTrial) -> dict[str, Any]:
    return {
        "method": one.trial.recipe.label,
        "theorem": one.trial.theorem,
        "seed": one.trial.seed,
        "steps": one.trial.steps,
        "step_size": one.step_size,
        "regret": float(one.curve[-1]),
        "bound": float(one.bound[-1]) if one.bound is not None else None,
        "under_at_every_step": one.bound is not None and bool((one.curve <= one.bound).all()),
        "comparator_exact": one.exact,
    }


def _growth(measured: Sequence[MeasuredTrial]) -> dict[str, Any]:
    """For each method the mean regret at each horizon, and the slope of its logarithm."""
    by_method: dict[str, dict[int, list[float]]] = {}
    for one in measured:
        horizons = by_method.setdefault(one.trial.recipe.label, {})
        horizons.setdefault(one.trial.steps, []).append(float(one.curve[-1]))
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


def _measure(trial: Trial) -> MeasuredTrial:
    stream = _stream(trial.clients, trial.steps, trial.seed)
    step_size = _step_size(trial, stream)
    method = trial.recipe.build("paper", step_size)
    regret = simulate(method, stream, softmax(64, 10, l2=PENALTY), trial.seed).regret(_TOLERANCE)
    return MeasuredTrial(trial, regret.curve, regret.bound, step_size, not regret.estimate)


def _stream(clients: int, steps: int, seed: int) -> Stream:
    return partition(load("digits"), clients, steps, kind="random", seed=seed)


@lru_cache(maxsize=64)
def _best(clients: int, steps: int, seed: int) -> Comparator:
    """w* of a stream: all methods share it."""
    return hindsight(softmax(64, 10, l2=PENALTY), _stream(clients, steps, seed), tolerance=_TOLERANCE)


def _step_size(trial: Trial, stream: Stream) -> float:
    """Corollary 1's step size for this stream; below the theorem's limit if the trial asks for it."""
    model, recipe = softmax(64, 10, l2=PENALTY), trial.recipe
    best = _best(trial.clients, trial.steps, trial.seed)
    common: dict[str, Any] = {"clients": trial.clients}
    if trial.theorem == 2:
        noise = quantizer_variance(recipe.levels, recipe.blocks, model.dim) if recipe.levels else 0.0
        common |= {"quantizer_variance": noise, "period": recipe.period}
    chosen = best_step_size(
        recipe.rate,
        steps=trial.steps,
        optimum_norm=float(np.linalg.norm(best.params)),
        heterogeneity=best.heterogeneity,
        factor=2 * trial.theorem,  # Theorem 2 pays 4 where Theorem 1 pays 2
        **common,
    )
    smoothness = model.smoothness(stream.x)
    assert smoothness is not None  # the models here are convex
    limit = (ofediq_step_limit if trial.theorem == 2 else ofedavg_step_limit)(
        recipe.rate, smoothness=smoothness, **common
    )
    return min(chosen, _SAFE * limit) if trial.step == "covered" else chosen
