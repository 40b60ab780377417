"""The planner's search against the plain one: every level, every number of blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ofediq.theory import Plan, plan
from ofediq.theory.quantizer import VarianceBound

Floats = NDArray[np.float64]
LEVELS = np.arange(1, 2**15 + 1)[:, None]

budgets = st.one_of(st.floats(1e-6, 0.05), st.floats(0.05, 1), st.just(1.0))
variances = st.sampled_from(["min", "sqrt"])


def lowest_rate(mean: Floats, capacities: list[float]) -> Floats:
    """Water-filling, one case for each number of clients that send always."""
    ordered = sorted(capacities, reverse=True)
    lowest = np.ones_like(mean)
    for saturated in range(len(ordered)):
        # With too few saturated the next one would be above 1: the scale is then too small for the rest.
        scale = (mean * len(ordered) - saturated) / sum(ordered[saturated:])
        fits = (scale * ordered[saturated] <= 1) & (
            saturated == 0 or scale * ordered[saturated - 1] >= 1 - 1e-12
        )
        lowest = np.where(fits, np.minimum(lowest, scale * ordered[-1]), lowest)
    return lowest


def brute_force(
    budget: float, dim: int, clients: int, variance: VarianceBound, capacities: list[float] | None = None
) -> Floats:
    """alpha / 2 - 1 for every (levels, blocks), as a matrix."""
    blocks = np.arange(1, dim + 1)[None, :]
    inverse_mean = np.maximum(1.0, (32 * blocks + dim * (1 + np.log2(LEVELS + 1))) / (32 * budget * dim))
    if variance == "sqrt":
        noise = np.sqrt(dim / blocks) / LEVELS
    else:
        longest = np.ceil(dim / blocks)
        noise = np.minimum(longest / LEVELS**2, np.sqrt(longest) / LEVELS)
    inverse = inverse_mean if capacities is None else 1 / lowest_rate(1 / inverse_mean, capacities)
    result: Floats = (inverse - 1) + noise * (1 / inverse_mean + 1 / clients) * inverse
    return result


def check(result: Plan, values: Floats) -> None:
    # Equal up to rounding errors; no other point is better.
    assert values[result.levels - 1, result.blocks - 1] <= values.min() * (1 + 1e-9)
    assert result.regret_constant == pytest.approx(2 * (1 + values.min()), rel=1e-12)


@settings(max_examples=60)
@given(budgets, st.integers(1, 24), st.integers(1, 2000), variances)
def test_equal_rates(budget: float, dim: int, clients: int, variance: VarianceBound) -> None:
    check(plan(budget, dim, clients, variance=variance), brute_force(budget, dim, clients, variance))


@settings(max_examples=40)
@given(budgets, st.integers(1, 12), st.lists(st.floats(0.1, 10), min_size=1, max_size=4), variances)
def test_rates_per_client(budget: float, dim: int, capacities: list[float], variance: VarianceBound) -> None:
    values = brute_force(budget, dim, len(capacities), variance, capacities)
    check(plan(budget, dim, capacities=capacities, variance=variance), values)


@pytest.mark.parametrize("variance", ["min", "sqrt"])
@pytest.mark.parametrize("budget", [0.001, 0.1, 0.4, 0.97])
def test_a_larger_model(budget: float, variance: VarianceBound) -> None:
    check(plan(budget, 211, variance=variance), brute_force(budget, 211, 1000, variance))


@given(st.floats(0.3, 1), st.integers(1, 1000))
def test_among_equal_bounds_the_shorter_message_wins(budget: float, dim: int) -> None:
    # One block fewer would make the longest block longer: no block is idle.
    result = plan(budget, dim)
    longest = -(-dim // result.blocks)
    assert result.blocks == 1 or -(-dim // (result.blocks - 1)) > longest
