from __future__ import annotations

import math

import numpy as np
import pytest

from ofediq.codec import HEADER_BYTES, encode, quantize
from ofediq.errors import InputError
from ofediq.theory import RateModel, fitted_rates, gaussian_rates, laplace_rates, plan
from ofediq.theory.measured import spaced

DIM = 6000
SHAPES = [(1, 6), (1, 200), (3, 130), (20, 1), (100, 20)]


def draws(kind: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.standard_normal((count, DIM)) if kind == "gaussian" else rng.laplace(size=(count, DIM))


def on_the_wire(updates: np.ndarray, levels: int, blocks: int) -> tuple[float, float]:
    """Mean payload bits and mean error of real messages with 16-bit norms."""
    bits = error = 0.0
    for client, update in enumerate(updates):
        message = quantize(update, levels=levels, blocks=blocks, seed=0, norm_bits=16, client=client)
        bits += 8 * (len(encode(message)) - HEADER_BYTES) / len(updates)
        error += float(np.square(message.dequantize() - update).sum())
    return bits, error / float(np.square(updates).sum())


@pytest.mark.parametrize(("levels", "blocks"), SHAPES)
@pytest.mark.parametrize(("kind", "model"), [("gaussian", gaussian_rates()), ("laplace", laplace_rates())])
def test_assumed_costs_against_real_messages(kind: str, model: RateModel, levels: int, blocks: int) -> None:
    bits, error = on_the_wire(draws(kind, 6), levels, blocks)
    cost = model.cost(levels, blocks, DIM)
    assert bits <= cost.bits + 0.01 * bits
    # The model counts norms in full; the code spends about half of that on norms of similar size.
    assert cost.bits <= 1.03 * bits + 8 * blocks + 100
    assert cost.variance == pytest.approx(error, rel=0.08)


@pytest.mark.parametrize(("levels", "blocks"), SHAPES)
def test_fitted_costs_against_real_messages(levels: int, blocks: int) -> None:
    updates = draws("gaussian", 6) ** 3 * (np.arange(DIM) > 1000)
    bits, error = on_the_wire(updates, levels, blocks)
    cost = fitted_rates(updates).cost(levels, blocks, DIM)
    assert cost.bits == pytest.approx(bits, rel=0.03, abs=150)
    assert cost.variance == pytest.approx(error, rel=0.1)


def test_fitted_costs_by_hand() -> None:
    """(3, 4) in one block of norm 5 with two levels: a = 1.2 and 1.6, both between 1 and 2."""
    cost = fitted_rates([3.0, 4.0]).cost(levels=2, blocks=1, dim=2)
    assert cost.variance == pytest.approx((0.2 * 0.8 + 0.6 * 0.4) * 2.5**2 / 25)
    assert cost.bits == pytest.approx(8 + 2 * math.log2(5) + 8)  # so short that the uniform code is better


@pytest.mark.parametrize("budget", [0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("kind", ["gaussian", "laplace", "fitted"])
def test_the_plan_is_the_best_of_all_candidates(budget: float, kind: str) -> None:
    dim = 60
    updates = np.random.default_rng(3).standard_normal((3, dim)) ** 3
    models: dict[str, RateModel] = {
        "gaussian": gaussian_rates(),
        "laplace": laplace_rates(),
        "fitted": fitted_rates(updates),
    }
    model = models[kind]
    values = []
    for levels in spaced(2**15, 4):
        for blocks in spaced(dim, 2):
            bits, variance = model.cost(levels, blocks, dim)
            values.append((1 + variance) / min(1, budget * 32 * dim / bits))
    chosen = plan(budget, dim, method="measured", rates=model)
    assert (1 + chosen.quantizer_variance) / chosen.mean_rate == pytest.approx(min(values), rel=1e-9)


def test_a_finer_grid_gains_less_than_one_per_cent() -> None:
    dim, model = 400, gaussian_rates()
    costs = (model.cost(levels, blocks, dim) for levels in range(1, 60) for blocks in range(1, 60))
    best = min((1 + cost.variance) * cost.bits for cost in costs)
    chosen = plan(0.01, dim, method="measured")
    assert (1 + chosen.quantizer_variance) * chosen.bits_per_message < 1.01 * best


@pytest.mark.parametrize("budget", [0.001, 0.01, 0.05, 0.2])
def test_real_messages_fit_the_budget(budget: float) -> None:
    chosen = plan(budget, DIM, clients=50, method="measured")
    bits, _ = on_the_wire(draws("gaussian", 4), chosen.levels, chosen.blocks)
    assert chosen.mean_rate * bits <= budget * 32 * DIM
    assert chosen.bits_per_step <= budget * 32 * DIM * 50


def test_it_beats_the_formulas_plan_on_the_wire() -> None:
    updates = draws("gaussian", 4)
    products = []
    for method in ("exact", "measured"):
        chosen = plan(0.01, DIM, method=method)
        bits, error = on_the_wire(updates, chosen.levels, chosen.blocks)
        products.append((1 + error) * bits)
    assert products[1] < 0.9 * products[0]


def test_a_measured_plan_says_what_it_rests_on() -> None:
    chosen = plan(0.01, DIM, method="measured", rates=fitted_rates(draws("gaussian", 3)))
    assert (chosen.method, chosen.variance) == ("measured", "measured")
    assert "3 sample updates" in chosen.notes[0]
    fleet = plan(0.01, DIM, method="measured", capacities=[1, 3])
    assert isinstance(fleet.rate, tuple)
    assert fleet.rate[1] == pytest.approx(3 * fleet.rate[0])


BAD: tuple[object, ...] = (
    [],
    [[]],
    [0.0, 0.0],
    [1.0, math.nan],
    [[1.0], [2.0, 3.0]],
    "x",
    np.ones((2, 2, 2)),
)


@pytest.mark.parametrize("updates", BAD)
def test_bad_updates(updates: object) -> None:
    with pytest.raises(InputError, match="`updates` must be"):
        fitted_rates(updates)


def test_a_model_belongs_to_the_measured_method() -> None:
    with pytest.raises(InputError, match="`rates` must be given with method 'measured' only"):
        plan(0.1, 100, rates=gaussian_rates())
