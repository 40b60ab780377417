"""Norm-proportional participation, the common grid and the budget that steers them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.errors import InputError
from ofediq.methods import Method
from ofediq.methods import round as rounds
from ofediq.methods.budgets.loudness import UNKNOWN, pack
from ofediq.methods.client import Window
from ofediq.methods.server.rule import Totals
from ofediq.randomness import Address
from ofediq.simulation import simulate
from ofediq.streams import Stream

SOFTMAX = models.softmax(64, 10)


@pytest.fixture(scope="module")
def digits() -> Stream:
    return streams.partition(streams.load("digits"), clients=60, steps=80, seed=1)


def test_grid_is_unbiased_and_its_variance_is_as_stated() -> None:
    # 4,000 independent roundings: means within 5 standard errors in each of 50 coordinates, the squared error
    # within 5 % of z^2 sum f (1 - f); the seed is fixed.
    update = np.random.default_rng(0).standard_normal(50).astype(np.float32)
    z = np.float32(0.6875)  # in 8 bits
    sent, _ = methods.grid().apply(np.tile(update, (4000, 1)), Address(0, 1, np.arange(4000)), pack(z))
    fraction = np.abs(update / z) % 1
    variance = z**2 * fraction * (1 - fraction)
    assert (np.abs(sent.mean(0) - update) <= 5 * np.sqrt(variance / 4000) + 1e-6).all()
    np.testing.assert_allclose(((sent - update) ** 2).sum(1).mean(), variance.sum(), rtol=0.05)
    assert variance.sum() <= z * np.abs(update).sum()


def test_grid_messages_travel_through_the_codec() -> None:
    update = np.random.default_rng(0).laplace(size=5000).astype(np.float32)
    sent, bits = methods.grid().apply(update[None], Address(3, 7, np.array([4])), pack(2.5))
    message = methods.grid().encode(update, Address(3, 7, 4), float(pack(2.5)))
    np.testing.assert_array_equal(
        methods.grid().decode(message, 5000, Address(3, 7, 4), float(pack(2.5))), sent[0]
    )
    assert abs(message.bits - bits[0]) <= 0.01 * bits[0]


def test_an_update_beyond_the_grid_is_neither_cut_nor_refused() -> None:
    update = np.array([1e6, 1.0, -3e5, 0.0], np.float32)
    sent, _ = methods.grid().apply(np.tile(update, (500, 1)), Address(0, 1, np.arange(500)), pack(1e-3))
    np.testing.assert_allclose(sent[:, [0, 2, 3]].mean(0), update[[0, 2, 3]], rtol=1e-4)
    message = methods.grid().encode(update, Address(0, 1, 7), float(pack(1e-3)))
    np.testing.assert_array_equal(
        methods.grid().decode(message, 4, Address(0, 1, 7), float(pack(1e-3))), sent[7]
    )


@pytest.mark.parametrize("loudest", [0.25, 1.0, 20.0])
@pytest.mark.parametrize("scale", [1e-15, 1.0, 1e15])
def test_nobody_is_louder_than_the_server_can_pay_for(loudest: float, scale: float) -> None:
    # 4,000 clients with one update: those who send, what they send, and its mean, within 5 standard errors.
    update = (scale * np.random.default_rng(0).standard_normal(40)).astype(np.float32)
    norm, spread, everyone = float(np.linalg.norm(update)), 3.0, np.arange(4000)
    for signal in (pack(norm / 1000, loudest), pack(UNKNOWN, loudest)):
        sends, rates = methods.norm_proportional(spread).draw(
            Address(0, 1, everyone), 4000, np.full(4000, norm, np.float32), signal
        )
        np.testing.assert_allclose(rates, min(1.0, loudest))
        updates = np.tile(update, (4000, 1)) / rates[:, None]
        sent, _ = methods.grid(spread).apply(updates, Address(0, 1, everyone), signal)
        steps = np.abs(sent[sent != 0]).min()  # a power of two, so that everyone finds the same one
        assert np.log2(steps) % 1 == 0
        reach = norm / min(1.0, loudest) / steps
        longest = spread * max(1.0, loudest)
        assert 0.49 * longest <= reach <= 1.01 * longest
        received = sent * sends[:, None]
        spare = 5 * received.std(0) / np.sqrt(4000) + 1e-6 * norm
        assert (np.abs(received.mean(0) - update) <= spare).all()


def test_probabilities_follow_norms_between_floor_and_one() -> None:
    piece = methods.norm_proportional(spread=2.0, floor=0.01)
    norms = np.array([0.0, 1e-6, 0.5, 1.0, 100.0], np.float32)
    np.testing.assert_allclose(piece.probabilities(norms, pack(1.0)), [0, 0.01, 0.25, 0.5, 1.0])


@pytest.mark.parametrize("front", [0.0, 0.5])
@pytest.mark.parametrize("share", [0.02, 0.2])
def test_run_meets_its_budget(front: float, share: float, digits: Stream) -> None:
    bits = share * 32 * digits.clients * SOFTMAX.dim
    result = simulate(methods.ofedgrid(bits, digits.steps, step_size=0.1, front=front), digits, SOFTMAX)
    spent = result.bits_wire.sum() / (bits * digits.steps)
    assert 0.9 < spent < 1.05
    half = result.bits_wire[:40].sum() / result.bits_wire.sum()
    assert 0.5 - 0.05 < half < 0.5 ** (1 - front) + 0.05  # leans to early steps, but not more than it may


def late(order: Any) -> Any:
    order[:20, 10:] = -1
    return order


@pytest.mark.parametrize(
    ("clients", "steps", "share", "change"),
    [
        (1000, 20, 1e-4, None),  # the first step took 2.9 times the whole budget, then all losses were NaN
        (
            10,
            600,
            0.1,
            None,
        ),  # more is due early on than can be sent: z shrank to 1e-45, the budget was gone at a third
        (1000, 60, 1e-3, late),  # 990 clients join at step 20
        (30, 40, 1.0, None),
    ],
)
def test_budget_is_kept_from_the_first_step_to_the_last(
    clients: int, steps: int, share: float, change: Any
) -> None:
    dataset = streams.load("digits")
    stream = streams.partition(dataset, clients=clients, steps=steps, seed=1)
    if change is not None:
        stream = Stream(dataset, change(stream.order.copy()))
    whole = share * 32 * clients * SOFTMAX.dim * steps
    grid = methods.at_budget("ofedgrid", share, SOFTMAX.dim, clients, step_size=0.1, steps=steps)
    result = simulate(grid, stream, SOFTMAX)
    assert np.isfinite(result.loss).all()
    assert result.bits_wire.sum() <= 1.02 * whole + whole / steps  # of the last step, nobody knows beforehand
    assert result.bits_wire.max() <= 0.25 * whole
    assert result.bits_wire[-steps // 3 :].sum() > 0.1 * min(whole, result.bits_wire.sum())
    paper = simulate(methods.at_budget("ofediq", share, SOFTMAX.dim, clients, step_size=0.1), stream, SOFTMAX)
    assert result.accuracy[-1] > paper.accuracy[-1] - 0.002


@pytest.mark.parametrize("scale", [1e-25, 1e30])
def test_gradients_of_any_size_keep_the_budget(scale: float) -> None:
    # The round alone, on gradients that do not depend on the model: 600 steps of five clients, 48 bits a step.
    clients, dim, steps, budget = 5, 3, 600, 0.1
    method = methods.at_budget("ofedgrid", budget, dim, clients, steps=steps, step_size=1e-9)
    state, rng, spent = (
        rounds.first_state(method, np.zeros(dim, np.float32), clients),
        np.random.default_rng(0),
        0.0,
    )
    for step in range(1, steps + 1):
        address = Address(0, step, np.arange(clients))
        loud = scale * np.exp(rng.standard_normal((clients, 1)))
        gradients = (loud * rng.standard_normal((clients, dim))).astype(np.float32)
        window = Window(state.down.model, gradients, np.ones(clients, np.float32))
        with np.errstate(over="ignore"):  # a quiet client's update is divided by its rate
            wanted, sends = rounds.decide(method, window, state.down, (), address, clients)
            decoded, bits = rounds.transmit(method, wanted, state.down, address)
        cost = np.float32((bits * sends).sum())
        totals = Totals({"update": sends @ decoded["update"]}, sends.sum(), cost, clients, np.int32(step))
        state, spent = rounds.server_round(method, state, totals, np.uint32(0))[0], spent + float(cost)
    assert 0.9 <= spent / (budget * 32 * clients * dim * steps) <= 1.05
    assert np.isfinite(state.server.signal).all()


def test_with_all_bits_it_is_fedogd(digits: Stream) -> None:
    grid = methods.at_budget("ofedgrid", 1.0, SOFTMAX.dim, digits.clients, step_size=0.1, steps=digits.steps)
    ours, exact = (simulate(one, digits, SOFTMAX) for one in (grid, methods.fedogd(0.1)))
    # Symbols of 2^-15 of the largest coordinate, rounded at random: 80 steps of 0.1 of a mean of 60.
    np.testing.assert_allclose(ours.params, exact.params, atol=1e-4)
    np.testing.assert_allclose(ours.loss, exact.loss, rtol=1e-3)


def test_few_parameters() -> None:
    for features in (2, 3, 4):
        stream = streams.synthetic(clients=5, steps=100, features=features, seed=2)
        model = models.build("linear", (features,), "regression")
        for share in (0.1, 1.0):
            grid = methods.at_budget("ofedgrid", share, model.dim, 5, step_size=0.1, steps=100)
            result = simulate(grid, stream, model)
            assert result.bits_wire.sum() <= 1.02 * share * 32 * 5 * model.dim * 100 + 3 * 32 * model.dim
            assert np.isfinite(result.loss).all()


@pytest.mark.parametrize(
    "method",
    [
        methods.ofedgrid(5e3, 1, step_size=0.1),
        methods.ofediq_norm(3, 14, 2e4, 1, step_size=0.1),
    ],
    ids=["grid", "norm"],
)
def test_steered_updates_are_unbiased(method: Method, digits: Stream) -> None:
    # 200 independent runs of one step, seen along 20 random directions (single coordinates are sent too seldom for
    # a normal approximation): 5 standard errors each, a false alarm in about 1e-5 of all seeds; the seed is fixed.
    stream = digits.head(1)
    directions = np.random.default_rng(0).choice([-1.0, 1.0], size=(SOFTMAX.dim, 20))
    exact = simulate(methods.fedogd(0.1), stream, SOFTMAX).params @ directions
    moves = (
        np.array([simulate(method, stream, SOFTMAX, seed=seed).params for seed in range(200)]) @ directions
    )
    assert (np.abs(moves.mean(0) - exact) <= 5 * moves.std(0) / np.sqrt(len(moves))).all()
    assert moves.std() > 0


def test_beats_the_papers_method_at_equal_real_bits(digits: Stream) -> None:
    share = 0.05
    paper = methods.at_budget("ofediq", share, SOFTMAX.dim, digits.clients, step_size=0.1)
    bits = share * 32 * digits.clients * SOFTMAX.dim
    steered = methods.ofediq_norm(3, 14, bits, digits.steps, step_size=0.1)
    ours, theirs = (
        np.mean([simulate(m, digits, SOFTMAX, s).accuracy[-1] for s in range(3)]) for m in (steered, paper)
    )
    assert ours > theirs


def test_pieces_that_need_steering_say_so() -> None:
    rules = {"client": methods.local_ogd(0.1), "server": methods.descend(0.1)}
    for piece in ({"participation": methods.norm_proportional(1.0)}, {"compress": methods.grid()}):
        with pytest.raises(InputError, match="`server` must broadcast 'grid_step'"):
            methods.method(**rules, **piece)  # type: ignore[arg-type]  # kwargs


def test_a_horizon_need_not_be_known(digits: Stream) -> None:
    share = 0.05
    result = simulate(methods.at_budget("ofedgrid", share, SOFTMAX.dim, 60, step_size=0.1), digits, SOFTMAX)
    np.testing.assert_allclose(
        result.bits_wire.sum(), share * 32 * 60 * SOFTMAX.dim * digits.steps, rtol=0.15
    )
