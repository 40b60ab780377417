"""Moves on a grid at growing gaps, and one budget for all bytes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ofediq import methods, models
from ofediq.errors import InputError, WireError
from ofediq.methods.budgets.allowance import expected_bytes
from ofediq.methods.budgets.connection import Connection, fedogd_bytes
from ofediq.methods.budgets.metered import metered
from ofediq.methods.budgets.steering import Budget
from ofediq.methods.budgets.windows import Growing
from ofediq.methods.client import Down, Sample, Window
from ofediq.methods.server.rule import Totals
from ofediq.methods.server.timed import timed
from ofediq.methods.zoo.walking import MeanWalk, Walk, walk
from ofediq.simulation import reference, simulate
from ofediq.streams import load, partition, synthetic

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


def test_what_is_rounded_away_comes_later() -> None:
    piece, move = metered(160.0, keeps=1.0), np.array([0.5, -1.0, 0.25, 0.0], np.float32).repeat(10)
    params, copy = move, np.zeros(40, np.float32)
    left = [float(np.linalg.norm(params - copy))]
    for step in range(1, 40):
        copy, _ = piece.send(params, copy, np.uint32(0), np.int32(step), np.int32(step))
        params = piece.resume(params, copy)
        left.append(float(np.linalg.norm(params - copy)))
    assert left[-1] < 0.1 * left[0]
    half = metered(160.0, keeps=0.5)
    np.testing.assert_allclose(half.resume(move, copy), (move + copy) / 2, atol=1e-6)


@pytest.mark.parametrize("payload", [b"\1", b"\xff\xff\1", b"\0"])
def test_a_grid_that_is_none_is_refused(payload: bytes) -> None:
    from ofediq.codec import Encoded

    with pytest.raises(WireError):
        metered(9.0).decode(Encoded(payload), True, np.zeros(3, np.float32), 3, 0, 1)


@settings(deadline=None, max_examples=60)
@given(some.floats(1, 300), some.integers(1, 3000), some.integers(1, 4000))
def test_windows_grow_and_everyone_counts_them_alike(longest: float, steps: int, until: int) -> None:
    windows = Growing(longest, steps)
    ends = windows.ends(until)
    lengths = np.diff(ends, prepend=0)
    assert (np.diff(lengths) >= 0).all()
    assert (lengths <= longest).all()
    np.testing.assert_array_equal(windows.length(ends - lengths), lengths)
    np.testing.assert_array_equal(windows.length_to(ends), lengths)
    np.testing.assert_array_equal(windows.number_to(ends), np.arange(1, len(ends) + 1))
    assert until - (ends[-1] if len(ends) else 0) < windows.length(np.int32(ends[-1] if len(ends) else 0))


def test_windows_that_grow_end_near_the_squares() -> None:
    ends = Growing(20.0, 1000).ends(1000)  # N = 2 T / longest = 100
    count = np.arange(1, len(ends) + 1)
    assert abs(np.log(len(ends) / 100)) < 0.35  # lengths are rounded down to a few
    assert np.corrcoef(np.sqrt(ends), count)[0, 1] > 0.99


def test_adam_moves_farther_after_a_longer_window() -> None:
    rule, params = timed(methods.adam(0.1), power=0.5), np.zeros(2, np.float32)
    state = rule.begin(params, 1, 1)
    moves = {}
    for length in (1, 4):
        total = {"update": np.array([3.0, -2.0], np.float32) * length}
        totals = Totals(total, np.int32(1), np.float32(0), 1, np.int32(length))
        moves[length], _ = rule.close(params, totals, length, state)
    np.testing.assert_allclose(moves[4], 2 * moves[1], rtol=1e-5)


def test_moves_grow_while_gradients_agree_with_them_and_are_adams_own_when_they_turn() -> None:
    rule, params = timed(methods.adam(0.1), longest=4.0), np.zeros(2, np.float32)
    state, gradient = rule.begin(params, 1, 1), np.array([3.0, -2.0], np.float32)
    reaches, grown = [], state
    for number in range(24):
        downhill = (-1 if number < 12 else 1) * state.last if number else gradient
        totals = Totals({"update": downhill}, np.int32(1), np.float32(0), 1, np.int32(number + 1))
        params, state = rule.close(params, totals, 1, state)
        reaches.append(float(state.reach))
        grown = state if number == 11 else grown
    assert reaches[0] == 1
    assert np.all(np.diff(reaches[:12]) >= 0)
    assert np.all(np.diff(reaches[12:]) <= 0)
    assert (reaches[11], reaches[-1]) == (4, 1)
    totals = totals._replace(vectors={"update": np.zeros(2, np.float32)})
    assert float(rule.close(params, totals, 1, grown)[1].reach) == 4  # nobody sent: nothing is known
    still = timed(methods.adam(0.1))
    assert float(still.close(params, totals, 1, still.begin(params, 1, 1))[1].reach) == 1


@pytest.mark.parametrize(
    ("preset", "budget"), [("paper", 1.0), ("authors", 0.1), ("paper", 0.03), ("authors", 0.005)]
)
def test_the_engine_does_what_the_loop_does_and_keeps_the_budget_of_all_bytes(
    preset: str, budget: float
) -> None:
    model, apart = models.softmax(64, 10), []
    method = methods.at_budget(
        "ofedduplex", budget, model.dim, CLIENTS, step_size=0.1, preset=preset, steps=STEPS
    )
    for seed in (2, 1):  # of one stream with few and large steps, rounding alone takes them 0.04 apart
        stream = partition(load("digits"), CLIENTS, STEPS, seed=seed)
        fast, slow = simulate(method, stream, model), reference(method, stream, model)
        np.testing.assert_allclose(fast.bits_downlink, slow.bits_downlink, rtol=0.12, atol=64)
        apart.append(fast.accuracy[-1] - slow.accuracy[-1])
    assert abs(np.mean(apart)) < 0.03
    spent = fast.bytes_total.sum() / (fedogd_bytes(model.dim) * CLIENTS * STEPS)
    assert spent <= 1.02 * budget
    if budget == 1.0:
        whole = simulate(methods.fedogd(0.1, preset), stream, model)
        assert abs(fast.accuracy[-1] - whole.accuracy[-1]) < 0.01


SMALL = [("regression", 30, 31), ("classification", 20, 63)]


@pytest.mark.parametrize(("task", "features", "dim"), SMALL)
def test_where_messages_are_few_clients_that_walk_learn_far_more_from_the_same_bytes(
    task: str, features: int, dim: int
) -> None:
    shape: Any = {"clients": 30, "steps": 300, "features": features, "classes": 3, "noise": 0.3, "seed": 4}
    stream = synthetic(task, **shape)  # type: ignore[arg-type]  # one of its tasks
    model = models.linear(features) if task == "regression" else models.softmax(features, 3)
    assert model.dim == dim
    whole = fedogd_bytes(dim) * stream.clients * stream.steps

    def found(key: str) -> float:
        method = methods.at_budget(
            key, 0.003, dim, 30, step_size=0.01, preset="authors", steps=stream.steps, budget_of="total"
        )
        result = reference(method, stream, model)
        assert result.bytes_total.sum() < 1.05 * 0.003 * whole
        return float(result.error.mean())

    assert isinstance(
        methods.make("ofedduplex", methods.Terms(0.003, dim, 30, 300), preset="authors").client, Walk
    )
    assert found("ofedduplex") < 0.7 * found("ofedduplex(walks=False)")


def test_few_parameters_walk_in_windows_of_four_steps() -> None:
    """Of classes that turn gradients at 1 % of all bytes learn 18 points less than FedOGD, walks one."""
    stream = synthetic("classification", 100, 150, features=20, classes=5, drift="abrupt", noise=0.3, seed=6)
    model, how = models.softmax(20, 5), {"step_size": 0.01, "preset": "authors", "steps": 150}
    ours, gradients = (
        methods.at_budget(text, 0.02, model.dim, 100, budget_of="total", **how)  # type: ignore[arg-type]
        for text in ("ofedduplex", "ofedduplex(walks=False)")
    )
    assert 3 < ours.mean_window < 10
    error = {
        one.client.__class__: float(simulate(one, stream, model).error.mean()) for one in (ours, gradients)
    }
    assert error[Walk] < 0.9 * error[type(gradients.client)]


@pytest.mark.parametrize("period", [1, 30, 4000])
def test_a_mean_walk_goes_farther_the_less_of_the_way_each_client_came(period: int) -> None:
    rule, params = MeanWalk(), np.zeros(100, np.float32)
    walks = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    state, moves = rule.init(params), []
    for sign in [1] * 6 + [-1, 1] * 12:
        totals = Totals({"update": -10 * sign * walks}, np.int32(7), np.float32(0), 10, np.int32(1))
        after, state = rule.close(params, totals, period, state)
        moves.append(float(np.linalg.norm(after - params) / np.linalg.norm(walks)))
    left = 1 / (1 - np.exp(-period / 100))
    shares = np.exp(0.3 * 0.9 * np.arange(6))  # all walks agree with the move before them
    np.testing.assert_allclose(moves[:6], np.minimum(2.5 * shares, left), rtol=1e-5)
    assert moves[-1] == pytest.approx(0.2 * min(2.5, left), rel=1e-5)  # to and fro: the moves were too long
    nobody = Totals({"update": 0 * walks}, np.int32(0), np.float32(0), 10, np.int32(1))
    np.testing.assert_array_equal(rule.close(params, nobody, period, state)[0], params)


def test_a_mean_walk_ends_where_two_of_them_say_along_the_last_move() -> None:
    """Walks go all of the way in one direction and a tenth of it in the others, where 2.5 times is not too far."""
    rule, aim = MeanWalk(), np.ones(100, np.float32)
    way = np.full(100, 0.1, np.float32)
    way[0], aim[0] = 1, 100
    params, state = np.zeros(100, np.float32), rule.init(aim)
    for _ in range(6):
        totals = Totals({"update": -10 * way * (aim - params)}, np.int32(7), np.float32(0), 10, np.int32(1))
        params, state = rule.close(params, totals, 3, state)
    assert abs(params[0] - aim[0]) < 0.05 * aim[0]
    assert params[1] > 0.7 * aim[1]  # .61 where every move is shorter because one direction was overshot


def test_no_step_of_a_walk_goes_beyond_its_sample() -> None:
    """AdaGrad's first step was as long in every coordinate: 1,000 of them ruin a regression's first predictions."""
    client, model = walk(methods.hold(), 0.2), models.linear(999)
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((1, 999)).astype(np.float32), np.array([0.5], np.float32)
    memory: Any = {
        name: np.asarray(leaf)[None]
        for name, leaf in client.memory(np.zeros(1000, np.float32)).items()
        if name != "inner"
    }
    memory |= {"inner": ()}
    down = Down(np.zeros(1000, np.float32), {}, {})
    window = Window(
        down.model, np.zeros((1, 1000), np.float32), np.zeros(1, np.float32), client.notes(down, memory)
    )
    losses = tuple(model.evaluate(one, x, y)[0] for one in (down.model, window.notes["own"]))
    sample = Sample(lambda at: model.client_gradients(at, x, y), losses)
    own = client.learn(window, sample, down, memory).notes["own"]
    assert float(model.predict(own, x)[0]) == pytest.approx(0.5, abs=1e-3)


def test_walks_are_not_taken_for_gradients() -> None:
    """Digits ended at 56 instead of 84 % where they were."""
    how: Any = {"dim": 650, "clients": 100, "steps": 300, "preset": "authors", "budget_of": "total"}
    with pytest.raises(
        InputError, match=r"`server` must be left out where OFedDuplex's clients walk.*averaged"
    ):
        methods.with_server(methods.at_budget("ofedduplex", 0.001, **how), methods.averaged(0.03))
    still = methods.at_budget("ofedduplex(walks=False)", 0.001, **how)
    assert "averaged" in methods.with_server(still, methods.averaged(0.03)).server.name


def test_only_long_windows_of_adam_walk() -> None:
    def client(key: str, budget: float, preset: str) -> object:
        return methods.at_budget(key, budget, 650, 1000, preset=preset, steps=300).client

    assert isinstance(client("ofedduplex", 0.001, "authors"), Walk)
    assert not isinstance(client("ofedduplex", 0.01, "authors"), Walk)
    assert not isinstance(client("ofedduplex", 0.001, "paper"), Walk)
    assert not isinstance(client("ofedduplex(walks=False)", 0.001, "authors"), Walk)
    with pytest.raises(InputError, match=r"`walks` needs preset authors.*got True"):
        client("ofedduplex(walks=True)", 0.001, "paper")
    with pytest.raises(InputError, match=r"`walks` must be True, False or None, got 3"):
        client("ofedduplex(walks=3)", 0.001, "authors")


@pytest.mark.parametrize("dim", [3, 20, 101])
@pytest.mark.parametrize("budget", [0.001, 0.0001])
@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_budgets_that_pay_for_a_message_or_two_have_windows_too(dim: int, budget: float, preset: str) -> None:
    for clients, steps in itertools.product((1, 10, 1000), (2, 300, 10_000)):
        method = methods.at_budget(
            "ofedduplex", budget, dim, clients, preset=preset, steps=steps, budget_of="total"
        )
        assert len(method.ends(steps)) <= steps


@pytest.mark.parametrize(("dim", "clients", "steps"), [(11, 50, 500), (2, 100, 480), (26, 500, 200)])
def test_a_contract_that_pays_for_one_broadcast_has_it(dim: int, clients: int, steps: int) -> None:
    """Also where the usual share of what goes down would not pay for it."""
    method = methods.at_budget(
        "ofedduplex", 0.001, dim, clients, preset="authors", steps=steps, budget_of="total"
    )
    paid = 0.001 * fedogd_bytes(dim) * steps
    opened = Connection().broadcast_bytes(method) + 4 + min(16, 4 * dim)  # the number that steers, a message
    assert paid / (1 + np.sqrt(185 / clients)) < opened < 0.8 * paid
    assert method.ends(steps).size == 1
    assert expected_bytes(method, "total", dim, clients) * steps <= 1.02 * paid


def test_few_windows_begin_late_and_most_of_the_budget_is_spent_before_the_last_of_them() -> None:
    with pytest.raises(InputError, match=r"`shortest` must lie in \[1, longest\], got 9"):
        Growing(8.0, 64, 9.0)
    windows = Growing(64.0, 300, 16.0)
    ends = windows.ends(300)
    assert (ends[0], ends[-1]) == (16, 288)
    np.testing.assert_array_equal(np.cumsum(windows.length(np.concatenate([[0], ends[:-1]]))), ends)
    rule = Budget(1000.0, 300, windows=Growing(200.0, 300, 40.0))
    signal, spent, before = rule.init(50, 10, 48), 0.0, 0
    for end in rule.windows.ends(300).tolist():  # type: ignore[union-attr]  # given above
        spent += float(signal.wanted)
        signal = rule.next(
            signal,
            total=np.ones(50, np.float32),
            bits=signal.wanted,
            senders=np.int32(5),
            clients=np.int32(10),
            step=np.int32(end),
            period=end - before,
        )
        before = end
    last = rule.windows.ends(300)[-1]  # type: ignore[union-attr]  # given above
    assert last < 240  # a fifth of the time comes after it
    assert 0.85 < spent / (300 * 1000.0) <= 1


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
        step_size=0.1,
        steps=STEPS,
        budget_of=counted,  # type: ignore[arg-type]  # a text of the right ones
    )
    result = simulate(method, stream, model)
    whole = simulate(methods.fedogd(0.1), stream, model)
    up = [one.bytes_total - CLIENTS * one.bits_downlink / 8 for one in (result, whole)]  # and small heads
    spent = up[0].sum() / up[1].sum()
    if counted == "total" or key == "ofedduplex":
        spent = result.bytes_total.sum() / whole.bytes_total.sum()
    assert 0.2 * budget < spent < 1.12 * budget  # senders are drawn


@pytest.mark.parametrize("dim", [40, 101, 650, 34_826])
@pytest.mark.parametrize("budget", [0.01, 0.001])
def test_small_models_plan_no_more_than_their_budget(dim: int, budget: float) -> None:
    steps = 3000
    method = methods.at_budget("ofedduplex", budget, dim, 1000, steps=steps, budget_of="total")
    assert expected_bytes(method, "total", dim, 1000) <= 1.02 * budget * fedogd_bytes(dim)


def test_a_method_whose_broadcasts_are_whole_cannot_keep_a_small_budget_of_all_bytes() -> None:
    with pytest.raises(InputError, match=r"at least 0\.5.*ofedduplex"):
        methods.at_budget("ofedavg", 0.01, 10_000, CLIENTS, budget_of="total")


@pytest.mark.parametrize(("clients", "budget"), [(1, 1.0), (2, 0.5), (20, 1.0)])
def test_what_clients_cannot_send_goes_down(clients: int, budget: float) -> None:
    dim = 650
    method = methods.at_budget("ofedduplex", budget, dim, clients, steps=300, budget_of="total")
    up = expected_bytes(method, "uplink", dim, clients)
    finest = 17 * dim / 8 + 5  # symbols of 17 bits and a norm
    assert up <= 1.02 * (finest + Connection().update_bytes(method, dim))
    assert expected_bytes(method, "total", dim, clients) > up + 0.3 * budget * fedogd_bytes(dim)


def test_few_clients_spend_their_contract() -> None:
    stream = synthetic("regression", clients=5, steps=200, features=20, seed=0)
    model = models.build("linear", (20,), "regression")
    method = methods.at_budget("ofedduplex", 0.12, model.dim, 5, steps=200, budget_of="total")
    spent = float(simulate(method, stream, model, 0).bytes_total.sum())
    assert 0.85 < spent / (0.12 * fedogd_bytes(model.dim) * 5 * 200) < 1.05


@pytest.mark.parametrize(("clients", "features"), [(1, 30), (3, 12)])
def test_few_clients_that_walk_spend_their_contract(clients: int, features: int) -> None:
    """What they cannot send goes down: of one that walks, a quarter was spent."""
    stream = synthetic("regression", clients=clients, steps=1500, features=features, seed=0)
    model = models.build("linear", (features,), "regression")
    method = methods.at_budget(
        "ofedduplex",
        0.01,
        model.dim,
        clients,
        step_size=0.01,
        preset="authors",
        steps=1500,
        budget_of="total",
    )
    assert isinstance(method.client, Walk)
    spent = float(reference(method, stream, model, 0).bytes_total.sum())
    assert 0.85 < spent / (0.01 * fedogd_bytes(model.dim) * clients * 1500) < 1.05
