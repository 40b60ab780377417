"""Moves on a grid at growing gaps, and one budget for all bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ofediq import methods, models
from ofediq.errors import InputError, WireError
from ofediq.methods.connection import fedogd_bytes
from ofediq.methods.metered import metered
from ofediq.methods.paced_rule import paced
from ofediq.methods.server import Totals
from ofediq.simulation import reference, simulate
from ofediq.streams import load, partition

CLIENTS, STEPS = 20, 60


@settings(deadline=None, max_examples=40)
@given(some.integers(1, 300), some.floats(1e-6, 1e6), some.integers(40, 20_000), some.integers(0, 99))
def test_a_message_is_within_its_bits_and_decodes_to_the_copy(
    dim: int, scale: float, due: int, seed: int
) -> None:
    rng, piece = np.random.default_rng(seed), metered(float(due))
    model = (scale * rng.standard_normal(dim)).astype(np.float32)
    before = np.zeros(dim, np.float32)
    copy, bits = piece.send(model, before, np.uint32(seed), np.int32(7), np.int32(7))
    encoded, adds = piece.encode(model, before, seed, 7, 7)
    np.testing.assert_array_equal(piece.decode(encoded, adds, before, dim, seed, 7), copy)
    assert bits <= max(due, 32 * dim if due >= 32 * dim else 0)
    assert abs(encoded.bits - bits) <= max(48, 0.06 * bits)  # an ideal code, and a real one


def test_nothing_to_tell_costs_nothing() -> None:
    piece, model = metered(1000.0), np.ones(50, np.float32)
    copy, bits = piece.send(model, model, np.uint32(0), np.int32(1), np.int32(1))
    np.testing.assert_array_equal(copy, model)
    assert bits == 0
    encoded, adds = piece.encode(model, model, 0, 1, 1)
    assert (encoded.bits, adds) == (0, True)
    np.testing.assert_array_equal(piece.decode(encoded, adds, model, 50, 0, 1), model)


def test_rounding_has_no_bias() -> None:
    piece, move = metered(60.0), np.array([0.5, -1.0, 0.25, 0.0], np.float32).repeat(10)
    copies = [
        piece.send(move, np.zeros(40, np.float32), np.uint32(seed), np.int32(1), np.int32(1))[0]
        for seed in range(600)
    ]
    deviation = np.std(copies, axis=0) / np.sqrt(600)
    assert (abs(np.mean(copies, axis=0) - move) <= 5 * deviation + 1e-6).all()


@pytest.mark.parametrize("payload", [b"\1", b"\xff\xff\1", b"\0"])
def test_a_grid_that_is_none_is_refused(payload: bytes) -> None:
    from ofediq.codec import Encoded

    with pytest.raises(WireError):
        metered(9.0).decode(Encoded(payload), True, np.zeros(3, np.float32), 3, 0, 1)


def test_moves_come_ever_more_seldom_and_take_all_along() -> None:
    rounds, share = 400, 0.25
    rule = paced(methods.descend(1.0), share, rounds)
    params, total, at = np.zeros(1, np.float32), 0.0, []
    state = rule.begin(params, 1, 1)
    for step in range(1, rounds + 1):
        update = {"update": np.full(1, step, np.float32)}
        moved, state = rule.close(
            params, Totals(update, np.int32(1), np.float32(0), 1, np.int32(step)), 1, state
        )
        total += step
        if (moved != params).any():
            assert moved[0] == -total  # w - eta/K sum of everything so far
            at.append(step)
        params = moved
    gaps = np.diff([0, *at])
    assert at[:3] == [1, 2, 3]
    assert abs(len(at) - share * rounds) <= 0.15 * share * rounds
    assert (np.diff(gaps[3:]) >= 0).all()


@pytest.mark.parametrize(("preset", "budget"), [("paper", 1.0), ("authors", 0.1), ("paper", 0.03)])
def test_the_engine_does_what_the_loop_does_and_keeps_the_budget_of_all_bytes(
    preset: str, budget: float
) -> None:
    stream, model = partition(load("digits"), CLIENTS, STEPS, seed=1), models.softmax(64, 10)
    method = methods.at_budget("ofedduplex", budget, model.dim, CLIENTS, 0.1, preset, steps=STEPS)
    fast, slow = simulate(method, stream, model), reference(method, stream, model)
    np.testing.assert_allclose(fast.bits_downlink, slow.bits_downlink, rtol=0.12, atol=64)
    assert abs(fast.accuracy[-1] - slow.accuracy[-1]) < 0.03
    spent = fast.bytes_total.sum() / (fedogd_bytes(model.dim) * CLIENTS * STEPS)
    assert spent <= 1.02 * budget
    if budget == 1.0:
        whole = simulate(methods.fedogd(0.1, preset), stream, model)
        assert abs(fast.accuracy[-1] - whole.accuracy[-1]) < 0.01


@pytest.mark.parametrize("counted", ["uplink", "total"])
@pytest.mark.parametrize("key", ["ofedavg", "ofediq", "fedomd", "ofedgrid", "ofedduplex"])
def test_budgets_of_all_bytes_are_kept(key: str, counted: str) -> None:
    stream, model = partition(load("digits"), CLIENTS, STEPS, seed=1), models.softmax(64, 10)
    budget = 0.6
    method = methods.at_budget(
        key,
        budget,
        model.dim,
        CLIENTS,
        0.1,
        steps=STEPS,
        budget_of=counted,  # type: ignore[arg-type]
    )
    result = simulate(method, stream, model)
    whole = simulate(methods.fedogd(0.1), stream, model)
    up = [one.bytes_total - CLIENTS * one.bits_downlink / 8 for one in (result, whole)]  # and small heads
    spent = up[0].sum() / up[1].sum()
    if counted == "total" or key == "ofedduplex":
        spent = result.bytes_total.sum() / whole.bytes_total.sum()
    assert 0.2 * budget < spent < 1.12 * budget  # senders are drawn


def test_a_method_whose_broadcasts_are_whole_cannot_keep_a_small_budget_of_all_bytes() -> None:
    with pytest.raises(InputError, match=r"at least 0\.5.*ofedduplex"):
        methods.at_budget("ofedavg", 0.01, 10_000, CLIENTS, budget_of="total")
