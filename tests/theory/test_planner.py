import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.errors import InputError
from ofediq.theory import Plan, plan, quantizer_variance
from ofediq.theory.planner import Method
from ofediq.theory.quantizer import VarianceBound

METHODS: tuple[Method, ...] = ("exact", "paper")
budgets = st.floats(1e-6, 1)
dims = st.integers(1, 10**6)
clients = st.integers(1, 10_000)
variances = st.sampled_from(["min", "sqrt"])
capacities = st.lists(st.floats(0.01, 100), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("budget", "dim", "levels", "blocks", "rate", "alpha"),
    [
        (0.1, 34826, 17, 1134, 0.5151, 4.536),  # the paper's example
        (0.01, 34826, 3, 777, 0.0862, 27.73),
    ],
)
def test_algorithm_3(budget: float, dim: int, levels: int, blocks: int, rate: float, alpha: float) -> None:
    result = plan(budget, dim, method="paper")
    assert (result.levels, result.blocks, result.period) == (levels, blocks, 1)
    assert result.rate == pytest.approx(rate, abs=5e-5)
    assert result.regret_constant == pytest.approx(alpha, abs=5e-3)


@pytest.mark.parametrize(
    ("budget", "dim", "expected"), [(0.01, 4548, (3, 101)), (0.01, 4353, (3, 97)), (0.1, 4353, (17, 141))]
)
def test_algorithm_3_for_the_papers_other_models(budget: float, dim: int, expected: tuple[int, int]) -> None:
    result = plan(budget, dim, method="paper")
    assert (result.levels, result.blocks) == expected


@pytest.mark.parametrize(
    ("budget", "levels", "blocks", "rate", "alpha"),
    [(0.01, 3, 491, 0.0927, 27.245), (0.1, 16, 747, 0.554, 4.464)],
)
def test_the_exact_optimum_of_table_1(
    budget: float, levels: int, blocks: int, rate: float, alpha: float
) -> None:
    result = plan(budget, 34826, variance="sqrt")
    assert result.levels == levels
    assert result.blocks == pytest.approx(blocks, abs=3)
    assert result.rate == pytest.approx(rate, abs=5e-4)
    assert result.regret_constant == pytest.approx(alpha, abs=5e-4)


def test_the_exact_optimum_with_both_branches_of_the_variance() -> None:
    assert plan(0.1, 34826).regret_constant == pytest.approx(3.97, abs=5e-3)


@given(budgets, dims, clients, st.sampled_from(METHODS), variances)
def test_a_plan_is_consistent_and_within_its_budget(
    budget: float, dim: int, clients: int, method: Method, variance: VarianceBound
) -> None:
    result = plan(budget, dim, clients, method=method, variance=variance)
    assert isinstance(result.rate, float)
    assert 0 < result.rate <= 1
    assert result.bits_per_step <= budget * 32 * dim * clients
    bits = 32 * result.blocks + dim * (1 + math.log2(result.levels + 1))
    noise = quantizer_variance(result.levels, result.blocks, dim, variance)
    assert result.bits_per_step == pytest.approx(result.rate * clients * bits)
    assert result.regret_constant == pytest.approx(
        2 / result.rate * (1 + noise * (result.rate + 1 / clients))
    )
    assert result.budget_used == pytest.approx(result.bits_per_step / (budget * 32 * dim * clients))
    assert result.ccr == pytest.approx(1 - result.bits_per_step / (32 * dim * clients), abs=1e-12)


@given(budgets, dims, clients, variances)
def test_exact_is_never_worse_than_paper_under_the_same_bound(
    budget: float, dim: int, clients: int, variance: VarianceBound
) -> None:
    exact = plan(budget, dim, clients, variance=variance)
    paper = plan(budget, dim, clients, method="paper", variance=variance)
    assert exact.regret_constant <= paper.regret_constant * (1 + 1e-12)


@given(budgets, budgets, dims, variances)
def test_a_larger_budget_never_hurts(one: float, other: float, dim: int, variance: VarianceBound) -> None:
    small, large = (plan(budget, dim, variance=variance) for budget in sorted((one, other)))
    assert large.regret_constant <= small.regret_constant * (1 + 1e-12)


@given(budgets, dims, capacities, st.sampled_from(METHODS))
def test_rates_per_client_keep_the_budget_and_the_bound(
    budget: float, dim: int, capacities: list[float], method: Method
) -> None:
    result = plan(budget, dim, method=method, capacities=capacities)
    assert isinstance(result.rate, tuple)
    assert result.clients == len(result.rate) == len(capacities)
    assert result.bits_per_step <= budget * 32 * dim * len(capacities)
    assert result.variance != "measured"
    noise = quantizer_variance(result.levels, result.blocks, dim, result.variance)
    alpha = 2 / min(result.rate) * (1 + noise * (sum(result.rate) + 1) / len(capacities))
    assert result.regret_constant == pytest.approx(alpha)


@given(budgets, dims, st.sampled_from(METHODS))
def test_equal_capacities_give_the_plan_without_capacities(budget: float, dim: int, method: Method) -> None:
    one, many = plan(budget, dim, 7, method=method), plan(budget, dim, method=method, capacities=[3.0] * 7)
    assert (many.levels, many.blocks) == (one.levels, one.blocks)
    assert many.rate == pytest.approx([one.rate] * 7)
    assert many.regret_constant == pytest.approx(one.regret_constant)
    assert many.ofedavg_constant == pytest.approx(one.ofedavg_constant)


def test_rates_follow_capacities() -> None:
    result = plan(0.01, 34826, capacities=[1.0, 2.0, 4.0])
    assert isinstance(result.rate, tuple)
    slow, middle, fast = result.rate
    assert (middle / slow, fast / slow) == pytest.approx((2, 4))
    assert result.mean_rate == pytest.approx((slow + middle + fast) / 3)
    # OFedAvg on the same terms: mean rate 0.01, the slowest client at 3/7 of it.
    assert result.ofedavg_constant == pytest.approx(2 / (0.01 * 3 / 7))


def test_a_rate_above_1_is_cut_and_said() -> None:
    result = plan(0.5, 34826, method="paper")
    assert result.capped
    assert (result.levels, result.rate) == (82, 1.0)
    assert "rate of 1.895; it was cut at 1" in result.notes[0]
    assert result.budget_used < 0.6


@pytest.mark.parametrize(("budget", "capped"), [(0.2295, False), (0.2297, True)])
def test_the_onset_of_rates_above_1(budget: float, capped: bool) -> None:
    assert plan(budget, 34826, method="paper").capped is capped


def test_exact_spends_what_paper_leaves() -> None:
    result = plan(0.5, 34826)
    assert not result.capped
    assert result.rate == 1.0
    assert result.budget_used > 0.9999
    assert result.notes == ()


def test_algorithm_3_keeps_its_budget_when_blocks_would_be_0() -> None:
    # floor(0.0223 x 20) = 0 blocks; one block costs more than Algorithm 3 reckons, so the rate must fall.
    result = plan(0.01, 20, method="paper")
    assert result.blocks == 1
    assert result.rate == pytest.approx(0.01 * 32 * 20 / (32 + 20 * 3))


def test_a_budget_of_1_says_that_no_quantiser_is_better() -> None:
    result = plan(1.0, 34826)
    assert result.ofedavg_constant == 2.0 < result.regret_constant < 2 + 1e-8
    assert any(
        note.startswith("OFedAvg, which does not quantise, has the smaller bound") for note in result.notes
    )


def test_a_model_of_one_parameter_says_that_no_quantiser_is_better() -> None:
    result = plan(0.5, 1)  # a quantised number takes at least 34 bits instead of 32
    assert any("does not quantise" in note for note in result.notes)


def test_unspent_bits_are_said() -> None:
    # At 2^15 levels and rate 1 a longest block of 2 needs about 16 + 16 bits per coordinate, of 3 only 16 + 32/3.
    result = plan(0.95, 30_000)
    assert (result.levels, result.blocks) == (2**15, 10_000)
    assert result.notes[0].startswith("12.3% of the budget stays unspent")


def test_a_fleet_that_is_mostly_silent_is_told() -> None:
    result = plan(1e-6, 34826, clients=1000)
    assert isinstance(result.rate, float)
    assert result.rate < 1 / 1000
    assert any("nobody does" in note for note in result.notes)


def test_a_billion_parameters_behave_like_many() -> None:
    # Table 1's bound depends on b / D only, up to rounding b to an integer.
    large, small = plan(0.01, 10**9, variance="sqrt"), plan(0.01, 10**6, variance="sqrt")
    assert large.levels == small.levels
    assert large.blocks / 10**9 == pytest.approx(small.blocks / 10**6, rel=1e-3)
    assert large.regret_constant == pytest.approx(small.regret_constant, rel=1e-6)


def test_a_plan_is_frozen_and_json_ready() -> None:
    result = plan(0.01, 34826, capacities=[1.0, 2.0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.levels = 1  # type: ignore[misc]  # the point of the test
    plain = result.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert set(plain) == {field.name for field in dataclasses.fields(Plan)}


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("budget", 0, "`budget` must lie in (0, 1], got 0"),
        ("budget", 1.1, "`budget` must lie in (0, 1], got 1.1"),
        ("budget", math.nan, "`budget` must lie in (0, 1], got nan"),
        ("budget", "x", "`budget` must lie in (0, 1], got 'x'"),
        ("budget", 1e-200, "`budget` must leave every client a rate above 1e-100, got 1e-200"),
        ("dim", 0, "`dim` must be an integer from 1 to 1099511627776, got 0"),
        ("dim", 10.5, "`dim` must be an integer from 1 to 1099511627776, got 10.5"),
        ("dim", 2**41, "`dim` must be an integer from 1 to 1099511627776, got 2199023255552"),
        ("clients", 0, "`clients` must be an integer from 1 to 9007199254740992, got 0"),
        ("method", "exakt", "`method` must be one of exact, paper, measured, got 'exakt'"),
        ("variance", "max", "`variance` must be one of min, sqrt, got 'max'"),
        ("capacities", [1.0, 0.0], "`capacities` must be finite numbers > 0, got 0.0"),
        ("capacities", [], "`capacities` must be a list, one number per client, got []"),
    ],
)
def test_bad_input_is_one_sentence(argument: str, value: object, message: str) -> None:
    good: dict[str, Any] = {"budget": 0.1, "dim": 100}
    with pytest.raises(InputError) as caught:
        plan(**{**good, argument: value})
    assert str(caught.value) == message


def test_clients_and_capacities_must_agree() -> None:
    assert plan(0.1, 100, 2, capacities=[1.0, 2.0]).clients == 2
    with pytest.raises(InputError, match=r"^`clients` must be the number of capacities, 2, got 3$"):
        plan(0.1, 100, 3, capacities=[1.0, 2.0])
