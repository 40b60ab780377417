"""The methods by name: what they are composed of, and what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq import methods, theory
from ofediq.errors import InputError
from ofediq.methods import Method


def cost(method: Method, dim: int, clients: int) -> float:
    """Expected uplink bits per step, from the pieces."""
    rate = float(method.participation.rates(clients).mean())
    return rate / method.period * clients * method.compress.formula_bits(dim)


def test_ofediq_costs_what_table_1_says() -> None:
    method = methods.ofediq(0.0862, levels=3, blocks=777)
    expected = theory.ofediq_guarantee(0.0862, levels=3, blocks=777, dim=34826, clients=1000).bits_per_step
    assert cost(method, 34826, 1000) == pytest.approx(expected)


@pytest.mark.parametrize("preset", methods.PRESETS)
@pytest.mark.parametrize("budget", [0.1, 0.01, 0.003])
@pytest.mark.parametrize("key", ["ofedavg", "fedomd", "ofediq"])
def test_equal_budgets_cost_equal_bits(key: str, budget: float, preset: str) -> None:
    method = methods.at_budget(key, budget, dim=34826, clients=1000, preset=preset)
    share = cost(method, 34826, 1000) / (32 * 1000 * 34826)
    assert share <= budget * (1 + 1e-6)
    assert share >= budget * 0.95  # whole clients, whole periods


@given(
    key=st.sampled_from(["ofedavg", "fedomd", "ofediq"]),
    preset=st.sampled_from(methods.PRESETS),
    planner=st.sampled_from(["paper", "exact"]),
    budget=st.floats(1e-5, 1.0),
    dim=st.integers(1, 100_000),
    clients=st.integers(1, 10_000),
)
def test_no_budget_is_exceeded(**choices: Any) -> None:
    dim, clients, budget = choices["dim"], choices["clients"], choices["budget"]
    share = cost(methods.at_budget(**choices), dim, clients) / (32 * clients * dim)
    assert share <= budget * (1 + 1e-6)


def test_rare_senders_of_the_authors_cost_what_the_budget_says() -> None:
    clients, budget, steps = 20, 0.001, 20_000
    piece = methods.at_budget("ofedavg", budget, dim=100, clients=clients, preset="authors").participation
    sent = [piece.active(0, step, np.arange(clients), clients) for step in range(1, steps + 1)]
    messages = np.sum(sent, 1)
    expected = budget * clients * steps
    assert messages.max() == 1
    assert abs(messages.sum() - expected) < 5 * np.sqrt(expected)
    assert piece.rates(clients) == pytest.approx(budget)  # what an update is divided by


def test_presets_differ_as_documented() -> None:
    paper, authors = (methods.ofediq(0.5, 3, 14, period=4, preset=preset) for preset in methods.PRESETS)
    assert paper.server.name == "descend"
    assert authors.server.name == "adam(0.01)"
    assert paper.client.moves
    assert not authors.client.moves
    assert type(paper.participation) is not type(authors.participation)


def test_what_sums_gradients() -> None:
    assert methods.fedogd().sums_gradients
    assert methods.fedomd(5, preset="authors").sums_gradients
    assert not methods.fedomd(5).sums_gradients
    assert not methods.ofedavg(0.5).sums_gradients


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        (
            "sgd",
            {},
            "`method` must be one of fedogd, ofedavg, fedomd, ofediq, ofedgrid, .*, got 'sgd'",
        ),
        ("ofediq", {"budget": 0.0}, r"`budget` must lie in \(0, 1\], got 0.0"),
        ("ofediq", {"preset": "mine"}, "`preset` must be one of paper, authors, got 'mine'"),
        ("fedogd", {"step_size": 0.0}, "`step_size` must be a finite number > 0, got 0.0"),
    ],
)
def test_bad_input(key: str, change: dict[str, object], message: str) -> None:
    arguments = {"budget": 0.1, "dim": 100, "clients": 10, **change}
    with pytest.raises(InputError, match=message):
        methods.at_budget(key, **arguments)  # type: ignore[arg-type]  # wrong on purpose


def test_authors_preset_takes_one_rate() -> None:
    with pytest.raises(InputError, match="`rate` must be one number with preset 'authors'"):
        methods.ofedavg([0.5, 0.5], preset="authors")


def test_a_plan_for_bits_on_the_wire_makes_entropy_coded_messages() -> None:
    chosen = theory.plan(0.01, 500, method="measured")
    compress = methods.from_plan(chosen).compress
    assert compress == methods.quantize(chosen.levels, chosen.blocks, coding="entropy", norm_bits=16)
