from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ofediq.reproduction.convex import Trial, measure, recipes, summarise, trial_series
from ofediq.reproduction.panels import experiment_of
from ofediq.reproduction.session import load_all, run_missing
from ofediq.simulation import Comparator, Regret
from tests.reproduction.test_session import Silent


def test_regret_of_a_covered_run_has_a_bound_and_stays_below_it(tmp_path: Path) -> None:
    trial = Trial(recipes()[0], clients=5, steps=20, seed=0, step="covered")
    series = {name: experiment_of(config) for name, config in trial_series([trial]).items()}
    assert run_missing(series, tmp_path, Silent())
    found = measure([trial], load_all(series, tmp_path))[trial]
    assert found.bound is not None
    assert found.curve[-1] <= found.bound[-1]
    assert run_missing(series, tmp_path, Silent(stop_at=0))  # nothing is left to start


def test_growth_is_the_slope_of_the_logarithms() -> None:
    recipe = recipes()[0]
    trials = [Trial(recipe, 5, steps, seed, "corollary") for steps in (100, 400, 1600) for seed in (0, 1)]
    none = np.zeros(1)
    best = Comparator(none, none, none, 0.0, 0.0, exact=True)
    measured = {  # regret 3 T^0.7
        trial: Regret(np.array([3 * trial.steps**0.7]), None, "", best, none) for trial in trials
    }
    summary = summarise(trials, measured)
    assert summary is not None
    assert summary["growth"]["FedOGD"]["slope"] == pytest.approx(0.7)


def test_nothing_is_summed_up_before_all_is_measured(tmp_path: Path) -> None:
    trials = [Trial(recipes()[0], 5, 20, 0, "covered")]
    series = {name: experiment_of(config) for name, config in trial_series(trials).items()}
    assert summarise(trials, measure(trials, load_all(series, tmp_path))) is None


def test_both_questions_share_a_run_where_they_have_the_same_step_size() -> None:
    asked = [Trial(recipes()[0], 5, 20, 0, step) for step in ("covered", "corollary")]
    (series,) = trial_series(asked).values()
    assert set(series.methods) == {trial.recipe.text for trial in asked}


def test_theorem_2_is_for_quantised_or_periodic_methods() -> None:
    assert [Trial(recipe, 5, 20, 0, "covered").theorem for recipe in recipes()] == [1, 1, 2, 2]
