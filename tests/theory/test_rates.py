import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.errors import InputError
from ofediq.theory import rate_summary
from ofediq.theory.rates import ProportionalRates, Rate

capacities = st.lists(st.floats(0.01, 100), min_size=1, max_size=20)
means = st.floats(1e-6, 1)


def test_one_rate_stands_for_all_clients() -> None:
    assert rate_summary(0.25, 8) == rate_summary([0.25] * 8, 8) == (0.25, 2.0, 8)


def test_arrays_and_lists_are_the_same() -> None:
    assert rate_summary(np.array([0.5, 1.0]), 2) == rate_summary((0.5, 1.0), 2) == (0.5, 1.5, 2)


@pytest.mark.parametrize(
    ("rate", "clients", "message"),
    [
        (0.0, 2, r"`rate` must lie in \(0, 1\], got 0.0"),
        ([0.5, 1.5], 2, r"`rate` must lie in \(0, 1\], got 1.5"),
        ([0.5, float("nan")], 2, r"`rate` must lie in \(0, 1\], got nan"),
        ([0.5, 0.5, 0.5], 2, "`rate` must have 2 entries, one per client, got 3"),
        ([], 2, "`rate` must have 2 entries, one per client, got 0"),
        ("half", 2, "`rate` must be a number or a list of numbers, got 'half'"),
        (None, 2, r"`rate` must .*, got "),
        (
            np.ones((2, 2)),
            2,
            r"`rate` must be a number or a list of numbers, got 'an array of shape \(2, 2\)'",
        ),
        (0.5, 0, "`clients` must be an integer from 1 to .*, got 0"),
    ],
)
def test_bad_rates_are_one_sentence(rate: Rate, clients: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rate_summary(rate, clients)


@given(capacities, means)
def test_rates_meet_the_mean_and_stay_proportional_below_one(capacities: list[float], mean: float) -> None:
    rates = ProportionalRates(capacities).at(mean)
    assert rates.mean() == pytest.approx(mean)
    assert np.all((rates > 0) & (rates <= 1))
    scale = rates / capacities
    # Whoever is below 1 has the same rate per capacity; whoever is at 1 would have had more.
    assert scale[rates < 1] == pytest.approx(scale.max())


@given(capacities, means)
def test_the_lowest_rate_is_that_of_the_smallest_capacity(capacities: list[float], mean: float) -> None:
    shares = ProportionalRates(capacities)
    assert float(shares.lowest(np.array(mean))) == shares.at(mean).min()


def test_a_saturated_client_leaves_the_rest_to_the_others() -> None:
    # Proportional rates with mean 1/2 would be 1/8, 1/8, 5/4; the quarter too much is shared equally.
    assert ProportionalRates([1, 1, 10]).at(0.5) == pytest.approx([0.25, 0.25, 1.0])


@pytest.mark.parametrize(
    "wrong", [[], 3.0, [1.0, 0.0], [1.0, -1.0], [1.0, float("inf")], ["a"], [[1.0], [2.0]], None]
)
def test_bad_capacities_are_one_sentence(wrong: list[float]) -> None:
    with pytest.raises(InputError, match=r"^`capacities` must be .*, got "):
        ProportionalRates(wrong)


def test_capacities_that_no_float_can_compare_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"^`capacities` must lie within a factor of 1e100, got 'a ratio of 1e-300'"
    ):
        ProportionalRates([1e-200, 1e100])
