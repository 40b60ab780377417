import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.errors import InputError
from ofediq.theory import (
    compare_period,
    expected_bits,
    fedogd_guarantee,
    fedomd_guarantee,
    ofedavg_guarantee,
    ofediq_guarantee,
    regret_bound,
)

DIM, CLIENTS = 34826, 1000


def test_fedogd() -> None:
    assert fedogd_guarantee(dim=DIM, clients=CLIENTS) == (2, 32 * CLIENTS * DIM)


def test_ofedavg() -> None:
    assert ofedavg_guarantee(0.01, dim=DIM, clients=CLIENTS) == pytest.approx(
        (200, 32 * 0.01 * CLIENTS * DIM)
    )


def test_ofedavg_with_a_rate_per_client() -> None:
    assert ofedavg_guarantee([0.1, 0.4], dim=10, clients=2) == pytest.approx((2 / 0.1, 32 * 0.5 * 10))


def test_fedomd_is_ofediq_at_rate_1_without_a_quantiser() -> None:
    assert fedomd_guarantee(10, dim=DIM, clients=CLIENTS) == pytest.approx(
        (2 * 10 * (1 + 27 / 8), 3.2 * CLIENTS * DIM)
    )


@given(st.integers(1, 50), st.floats(0.001, 1))
def test_ofediq_as_printed(period: int, rate: float) -> None:
    row = ofediq_guarantee(
        rate, levels=3, blocks=777, dim=DIM, clients=CLIENTS, period=period, variance="sqrt", factor=4
    )
    noise = math.sqrt(DIM / (3**2 * 777)) * (rate + 1 / CLIENTS)
    alpha = 4 * (3 * rate**2 * (period - 1) / 8 + 1 + noise) / (rate / period)
    bits = rate / period * CLIENTS * (32 * 777 + DIM * (1 + math.log2(4)))
    assert row == pytest.approx((alpha, bits))


def test_the_papers_example_has_the_constant_2() -> None:
    row = ofediq_guarantee(0.5151, levels=17, blocks=1134, dim=DIM, clients=CLIENTS, variance="sqrt")
    assert row.regret_constant == pytest.approx(4.536, abs=5e-4)
    assert row.bits_per_step <= 0.1 * 32 * CLIENTS * DIM


def test_99_percent_fewer_bits_keep_the_regret_sublinear() -> None:
    row = ofediq_guarantee(0.0862, levels=3, blocks=777, dim=DIM, clients=CLIENTS)
    short, long = (
        regret_bound(row.regret_constant, clients=CLIENTS, steps=steps, optimum_norm=1.0, heterogeneity=1.0)
        for steps in (100, 10_000)
    )
    assert long == pytest.approx(10 * short)


@given(st.integers(2, 100), st.floats(0.001, 1), st.integers(1, 100), st.integers(1, 500))
def test_a_longer_period_never_pays(period: int, rate: float, levels: int, blocks: int) -> None:
    pair = compare_period(rate, period, levels=levels, blocks=blocks, dim=500, clients=50)
    assert pair.every_step.bits_per_step == pytest.approx(pair.periodic.bits_per_step)
    longest = math.ceil(500 / blocks)
    noise = min(longest / levels**2, math.sqrt(longest) / levels)
    excess = 2 * period / rate * (period - 1) * (3 * rate**2 / 8 + noise * rate / period)
    difference = pair.periodic.regret_constant - pair.every_step.regret_constant
    assert difference == pytest.approx(excess, rel=1e-6)


def test_period_1_is_the_same_method() -> None:
    pair = compare_period(0.5, 1, levels=3, blocks=2, dim=10)
    assert pair.periodic == pair.every_step


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("rate", 0.0),
        ("rate", [0.5, 0.5]),
        ("period", 0),
        ("levels", 0),
        ("blocks", 11),
        ("dim", 0),
        ("clients", 0),
    ],
)
def test_bad_input_names_the_argument(argument: str, value: object) -> None:
    good: dict[str, Any] = {"rate": 0.5, "period": 2, "levels": 3, "blocks": 2, "dim": 10, "clients": 5}
    with pytest.raises(InputError, match=f"^`{argument}` must .*, got "):
        compare_period(**{**good, argument: value})


def test_bad_input_of_the_other_rows() -> None:
    with pytest.raises(InputError, match="`dim` must be an integer from 1"):
        fedogd_guarantee(dim=0, clients=1)
    with pytest.raises(InputError, match="`period` must be an integer from 1"):
        fedomd_guarantee(0, dim=1, clients=1)
    with pytest.raises(InputError, match="`variance` must be one of min, sqrt"):
        ofediq_guarantee(1.0, levels=1, blocks=1, dim=1, clients=1, variance="max")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InputError, match="`bits` must be a finite number > 0"):
        expected_bits(1.0, clients=1, bits=-1.0)
