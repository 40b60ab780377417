"""Norm-proportional participation, the common grid and the budget that steers them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.errors import InputError
from ofediq.methods import Budget, Method
from ofediq.methods.steered import Steered
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
    z = np.float32(0.7)
    sent, _ = methods.grid().apply(np.tile(update, (4000, 1)), Address(0, 1, np.arange(4000)), z)
    fraction = np.abs(update / z) % 1
    variance = z**2 * fraction * (1 - fraction)
    assert (np.abs(sent.mean(0) - update) <= 5 * np.sqrt(variance / 4000) + 1e-6).all()
    np.testing.assert_allclose(((sent - update) ** 2).sum(1).mean(), variance.sum(), rtol=0.05)
    assert variance.sum() <= z * np.abs(update).sum()


def test_grid_messages_travel_through_the_codec() -> None:
    update = np.random.default_rng(0).laplace(size=5000).astype(np.float32)
    sent, bits = methods.grid().apply(update[None], Address(3, 7, np.array([4])), np.float32(2.5))
    message = methods.grid().encode(update, Address(3, 7, 4), 2.5)
    np.testing.assert_array_equal(methods.grid().decode(message, 5000, Address(3, 7, 4), 2.5), sent[0])
    assert abs(message.bits - bits[0]) <= 0.01 * bits[0]


def test_an_update_beyond_the_grid_is_neither_cut_nor_refused() -> None:
    update = np.array([1e6, 1.0, -3e5, 0.0], np.float32)
    sent, _ = methods.grid().apply(np.tile(update, (500, 1)), Address(0, 1, np.arange(500)), np.float32(1e-3))
    np.testing.assert_allclose(sent[:, [0, 2, 3]].mean(0), update[[0, 2, 3]], rtol=1e-4)
    message = methods.grid().encode(update, Address(0, 1, 7), 1e-3)
    np.testing.assert_array_equal(methods.grid().decode(message, 4, Address(0, 1, 7), 1e-3), sent[7])


def test_probabilities_follow_norms_between_floor_and_one() -> None:
    piece = methods.norm_proportional(spread=2.0, floor=0.01)
    norms = np.array([0.0, 1e-6, 0.5, 1.0, 100.0], np.float32)
    np.testing.assert_allclose(piece.probabilities(norms, np.float32(1.0)), [0, 0.01, 0.25, 0.5, 1.0])


@pytest.mark.parametrize("front", [0.0, 0.5])
@pytest.mark.parametrize("share", [0.02, 0.2])
def test_run_meets_its_budget(front: float, share: float, digits: Stream) -> None:
    bits = share * 32 * digits.clients * SOFTMAX.dim
    result = simulate(methods.ofedgrid(bits, digits.steps, step_size=0.1, front=front), digits, SOFTMAX)
    spent = result.bits_wire.sum() / (bits * digits.steps)
    assert 0.9 < spent < 1.05
    half = result.bits_wire[:40].sum() / result.bits_wire.sum()
    assert abs(half - 0.5 ** (1 - front)) < 0.1


def test_a_bad_first_signal_is_corrected(digits: Stream) -> None:
    bits = 0.05 * 32 * digits.clients * SOFTMAX.dim
    method = methods.ofedgrid(bits, digits.steps, step_size=0.1)
    for first in (1e-4, 1e4):
        assert isinstance(method.server, Steered)
        assert isinstance(method.server.budget, Budget)
        budget = replace(method.server.budget, first=first)
        off = replace(method, server=replace(method.server, budget=budget))
        spent = simulate(off, digits, SOFTMAX).bits_wire.sum() / (bits * digits.steps)
        assert 0.7 < spent < 1.3


@pytest.mark.parametrize(
    "method",
    [
        methods.ofedgrid(1e9, 1, step_size=0.1),
        methods.ofediq_norm(3, 14, 1e9, 1, step_size=0.1),
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
    pieces = {"client": methods.local_ogd(0.1), "server": methods.descend(0.1)}
    with pytest.raises(
        InputError, match="`server` must broadcast 'grid_step', which the method's participation"
    ):
        methods.method(**pieces, participation=methods.norm_proportional(1.0))  # type: ignore[arg-type]  # kwargs
    with pytest.raises(InputError, match="`server` must broadcast 'grid_step', which the method's compress"):
        methods.method(**pieces, compress=methods.grid())  # type: ignore[arg-type]  # kwargs
    with pytest.raises(InputError, match="`steps` must be an integer >= 1, got None"):
        methods.at_budget("ofedgrid", 0.1, 100, 10)
    with pytest.raises(InputError, match=r"`front` must lie in \[0, 1\), got 1"):
        methods.budget(100.0, 10, front=1)
