from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ofediq.reproduction.convex import Case, Measured, load_case, measure_all, recipes, save_case, summarise
from tests.reproduction.test_session import Silent


def test_regret_of_a_covered_run_has_a_bound_and_stays_below_it(tmp_path: Path) -> None:
    case = Case(recipes()[0], clients=5, steps=20, seed=0, step="covered")
    assert measure_all([case], tmp_path, Silent())
    found = load_case(case, tmp_path)
    assert found is not None
    assert found.bound is not None
    assert found.curve[-1] <= found.bound[-1]
    assert measure_all([case], tmp_path, Silent(stop_at=0))  # nothing is left to start


def test_growth_is_the_slope_of_the_logarithms(tmp_path: Path) -> None:
    recipe = recipes()[0]
    cases = [Case(recipe, 5, steps, seed, "corollary") for steps in (100, 400, 1600) for seed in (0, 1)]
    for case in cases:  # regret 3 T^0.7
        save_case(Measured(case, np.array([3 * case.steps**0.7]), None, 0.1, exact=True), tmp_path)
    summary = summarise(cases, tmp_path)
    assert summary is not None
    assert summary["growth"]["FedOGD"]["slope"] == pytest.approx(0.7)


def test_nothing_is_summed_up_before_all_is_measured(tmp_path: Path) -> None:
    assert summarise([Case(recipes()[0], 5, 20, 0, "covered")], tmp_path) is None


def test_theorem_2_is_for_quantised_or_periodic_methods() -> None:
    assert [Case(recipe, 5, 20, 0, "covered").theorem for recipe in recipes()] == [1, 1, 2, 2]
