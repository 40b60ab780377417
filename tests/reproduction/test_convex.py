from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ofediq.reproduction.convex import (
    MeasuredTrial,
    Trial,
    load_trial,
    measure_all,
    recipes,
    save_trial,
    summarise,
)
from tests.reproduction.test_session import Silent


def test_regret_of_a_covered_run_has_a_bound_and_stays_below_it(tmp_path: Path) -> None:
    trial = Trial(recipes()[0], clients=5, steps=20, seed=0, step="covered")
    assert measure_all([trial], tmp_path, Silent())
    found = load_trial(trial, tmp_path)
    assert found is not None
    assert found.bound is not None
    assert found.curve[-1] <= found.bound[-1]
    assert measure_all([trial], tmp_path, Silent(stop_at=0))  # nothing is left to start


def test_growth_is_the_slope_of_the_logarithms(tmp_path: Path) -> None:
    recipe = recipes()[0]
    trials = [Trial(recipe, 5, steps, seed, "corollary") for steps in (100, 400, 1600) for seed in (0, 1)]
    for trial in trials:  # regret 3 T^0.7
        save_trial(MeasuredTrial(trial, np.array([3 * trial.steps**0.7]), None, 0.1, exact=True), tmp_path)
    summary = summarise(trials, tmp_path)
    assert summary is not None
    assert summary["growth"]["FedOGD"]["slope"] == pytest.approx(0.7)


def test_nothing_is_summed_up_before_all_is_measured(tmp_path: Path) -> None:
    assert summarise([Trial(recipes()[0], 5, 20, 0, "covered")], tmp_path) is None


def test_theorem_2_is_for_quantised_or_periodic_methods() -> None:
    assert [Trial(recipe, 5, 20, 0, "covered").theorem for recipe in recipes()] == [1, 1, 2, 2]
