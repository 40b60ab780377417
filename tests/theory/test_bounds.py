import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.errors import InputError
from ofediq.theory import (
    best_step_size,
    federation_gap,
    ofedavg_regret_bound,
    ofedavg_step_limit,
    ofediq_regret_bound,
    ofediq_step_limit,
    regret_bound,
    regret_bound_curve,
    regret_constant,
)

RATES = [0.2, 0.5, 0.8]  # p_min = 0.2, p_sum = 1.5
PROBLEM: dict[str, Any] = {"clients": 3, "steps": 1000, "optimum_norm": 2.0, "heterogeneity": 0.5}

rates = st.floats(0.01, 1)
periods = st.integers(1, 20)
variances = st.floats(0, 10)


def test_theorem_1() -> None:
    step_size = 0.01
    expected = 3 * 2.0**2 / (2 * step_size) + step_size * 3 * 1000 * 0.5 / 0.2
    assert ofedavg_regret_bound(step_size, RATES, smoothness=1.0, **PROBLEM) == pytest.approx(expected)


@pytest.mark.parametrize("extra", [{}, {"quantizer_variance": 0.7}, {"period": 4}])
def test_bound_at_every_step_ends_at_the_theorem(extra: dict[str, Any]) -> None:
    gradients = np.linspace(0.0, 3.0, 1000)
    gradients *= 3 * 1000 * 0.5 / gradients.sum()  # K T sigma_diff^2
    known = {"clients": 3, "smoothness": 1.0, **extra}
    curve = regret_bound_curve(0.001, RATES, distance=2.0, gradients=gradients, **known)
    theorem = ofediq_regret_bound if extra else ofedavg_regret_bound
    last = theorem(0.001, RATES, smoothness=1.0, **PROBLEM, **extra)
    assert curve[-1] == pytest.approx(last)
    assert curve[0] == pytest.approx(3 * 2.0**2 / (2 * 0.001))  # nothing but the distance: no gradient yet
    np.testing.assert_allclose(np.diff(curve), (last - curve[0]) * gradients[1:] / gradients.sum())


def test_gradients_of_a_bound_are_checked() -> None:
    for wrong in ([-1.0], [math.nan], [math.inf], [[1.0]], 1.0):
        with pytest.raises(InputError, match="`gradients` must be one finite number >= 0 per step"):
            regret_bound_curve(0.1, 1.0, distance=1.0, gradients=wrong, clients=2, smoothness=1.0)


def test_theorem_2() -> None:
    step_size, period, variance, smoothness = 0.001, 4, 0.7, 1.5
    inflation = 1 + variance * (1.5 - 0.2 + 1) / 3
    expected = (
        3 * 2.0**2 / (2 * step_size)
        + 2 * step_size * period * 3 * 1000 * 0.5 / 0.2 * inflation
        + 3 * smoothness * step_size**2 * period * (period - 1) * 3 * 1000 * 0.5
    )
    bound = ofediq_regret_bound(
        step_size, RATES, smoothness=smoothness, quantizer_variance=variance, period=period, **PROBLEM
    )
    assert bound == pytest.approx(expected)


def test_theorem_1_has_half_of_theorem_2s_noise_term() -> None:
    start = 3 * 2.0**2 / (2 * 0.01)
    first = ofedavg_regret_bound(0.01, 0.5, smoothness=1.0, **PROBLEM)
    second = ofediq_regret_bound(0.01, 0.5, smoothness=1.0, **PROBLEM)
    assert second - start == pytest.approx(2 * (first - start))


def test_step_size_conditions() -> None:
    inflation = 1 + 0.7 * (1.5 - 0.2 + 1) / 3
    assert ofedavg_step_limit(RATES, clients=3, smoothness=1.5) == pytest.approx(0.2 / (2 * 1.5))
    limit = ofediq_step_limit(RATES, clients=3, smoothness=1.5, quantizer_variance=0.7)
    assert limit == pytest.approx(0.2 / (4 * 1.5 * inflation))


def test_the_condition_of_theorem_2_has_the_period_that_its_proof_needs() -> None:
    limit, period = ofediq_step_limit(0.5, clients=10, smoothness=2.0), 5
    long_limit = ofediq_step_limit(0.5, clients=10, smoothness=2.0, period=period)
    assert long_limit == pytest.approx(limit / period)
    # The proof divides by 1 - 4 eta beta L / p, so it must be positive for every allowed step size.
    assert 1 - 4 * long_limit * 2.0 * period / 0.5 == pytest.approx(0)


def test_a_step_size_at_its_limit_is_refused() -> None:
    with pytest.raises(InputError, match=r"^`step_size` must be below p_min / \(2 beta\) = 0.25, got 0.25$"):
        ofedavg_regret_bound(0.25, 0.5, smoothness=1.0, **PROBLEM)
    with pytest.raises(
        InputError, match=r"^`step_size` must be below p_min / \(4 beta L R\) = 0.0625, got 0.1$"
    ):
        ofediq_regret_bound(0.1, 0.5, smoothness=1.0, period=2, **PROBLEM)


@given(rates, periods, variances, st.sampled_from([2, 4]))
def test_corollary_1_is_the_minimum_over_the_step_size(
    rate: float, period: int, variance: float, factor: int
) -> None:
    spread = 3 * rate**2 * (period - 1) / 8 + 1 + variance * (rate + 1 / 3)

    def bound(step_size: float) -> float:
        return 3 * 2.0**2 / (2 * step_size) + factor / 2 * step_size * period * 3 * 1000 * 0.5 / rate * spread

    choice: dict[str, Any] = {"quantizer_variance": variance, "period": period, "factor": factor}
    best = best_step_size(rate, **choice, **PROBLEM)
    constant = regret_constant(rate, clients=3, **choice)
    assert bound(best) == pytest.approx(regret_bound(constant, **PROBLEM))
    assert bound(best) < min(bound(0.9 * best), bound(1.1 * best))


@given(rates, periods, variances)
def test_the_simplified_bound_covers_theorem_2(rate: float, period: int, variance: float) -> None:
    long_run = {**PROBLEM, "steps": 10**9}  # long enough for the best step size to be allowed
    choice: dict[str, Any] = {"quantizer_variance": variance, "period": period}
    step_size = best_step_size(rate, factor=4, **choice, **long_run)
    theorem = ofediq_regret_bound(step_size, rate, smoothness=1.0, **choice, **long_run)
    simplified = regret_bound(regret_constant(rate, clients=3, factor=4, **choice), **long_run)
    assert theorem <= simplified * (1 + 1e-12)


def test_ofedavg_in_corollary_1() -> None:
    assert regret_constant(0.01, clients=1000) == pytest.approx(2 / 0.01)
    step_size = best_step_size(0.5, **PROBLEM)
    assert step_size == pytest.approx(math.sqrt(0.5 * 2.0**2 / (2 * 0.5 * 1000)))


def test_the_one_is_counted_once_in_the_step_size() -> None:
    # Without a quantiser C = 1; the paper's formula would have 1 + C = 2 under the root.
    printed = math.sqrt(0.5 * 2.0**2 / (4 * 0.5 * 1000 * 2))
    assert best_step_size(0.5, factor=4, **PROBLEM) == pytest.approx(math.sqrt(2) * printed)


@given(rates, periods, variances)
def test_equal_rates_in_a_list_change_nothing(rate: float, period: int, variance: float) -> None:
    one = regret_constant(rate, clients=3, quantizer_variance=variance, period=period)
    assert regret_constant(
        [rate] * 3, clients=3, quantizer_variance=variance, period=period
    ) == pytest.approx(one)


def test_unequal_rates_enter_through_the_slowest_and_the_sum() -> None:
    expected = 2 / 0.2 * (1 + 0.7 * (1.5 + 1) / 3)
    assert regret_constant(RATES, clients=3, quantizer_variance=0.7) == pytest.approx(expected)


def test_the_gap_to_central_learning() -> None:
    one = {**PROBLEM, "clients": 1}
    assert federation_gap(**one) == 0
    gap, limit = federation_gap(**{**PROBLEM, "clients": 16}), math.sqrt(2 * 2.0**2 * 0.5 / 1000)
    assert gap == pytest.approx((1 - 1 / 4) * limit)


def ofedavg(**changes: Any) -> float:
    return ofedavg_regret_bound(**{"step_size": 0.01, "rate": 0.5, "smoothness": 1.0, **PROBLEM, **changes})


def ofediq(**changes: Any) -> float:
    return ofediq_regret_bound(**{"step_size": 0.01, "rate": 0.5, "smoothness": 1.0, **PROBLEM, **changes})


def best(**changes: Any) -> float:
    return best_step_size(**{"rate": 0.5, **PROBLEM, **changes})


def from_constant(**changes: Any) -> float:
    return regret_bound(**{"constant": 2.0, **PROBLEM, **changes})


@pytest.mark.parametrize(
    ("function", "argument", "value", "rule"),
    [
        (ofedavg, "step_size", 0, "must be a finite number > 0"),
        (ofedavg, "rate", 2, "must lie in (0, 1]"),
        (ofedavg, "clients", 0, "must be an integer from 1 to 9007199254740992"),
        (ofedavg, "steps", 0.5, "must be an integer from 1 to 9007199254740992"),
        (ofedavg, "optimum_norm", -1, "must be a finite number >= 0"),
        (ofedavg, "heterogeneity", math.nan, "must be a finite number >= 0"),
        (ofedavg, "smoothness", 0, "must be a finite number > 0"),
        (ofediq, "step_size", "x", "must be a finite number > 0"),
        (ofediq, "rate", 0, "must lie in (0, 1]"),
        (ofediq, "clients", -3, "must be an integer from 1 to 9007199254740992"),
        (ofediq, "steps", 0, "must be an integer from 1 to 9007199254740992"),
        (ofediq, "quantizer_variance", -0.1, "must be a finite number >= 0"),
        (ofediq, "period", 0, "must be an integer from 1 to 9007199254740992"),
        (ofediq, "smoothness", math.inf, "must be a finite number > 0"),
        (best, "steps", 0, "must be an integer from 1 to 9007199254740992"),
        (best, "heterogeneity", 0, "must be a finite number > 0"),
        (best, "optimum_norm", 0, "must be a finite number > 0"),
        (best, "factor", 3, "must be 2 or 4"),
        (best, "period", 0, "must be an integer from 1 to 9007199254740992"),
        (from_constant, "constant", 0, "must be a finite number > 0"),
        (from_constant, "clients", 0, "must be an integer from 1 to 9007199254740992"),
    ],
)
def test_bad_input_is_one_sentence(
    function: Callable[..., float], argument: str, value: object, rule: str
) -> None:
    with pytest.raises(InputError) as caught:
        function(**{argument: value})
    shown = float(value) if argument == "rate" and isinstance(value, int) else value
    assert str(caught.value) == f"`{argument}` {rule}, got {shown!r}"
