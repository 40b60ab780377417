"""Streams that are made block by block."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq import methods, models, streams
from ofediq.errors import InputError
from ofediq.simulation import simulate
from ofediq.streams import Stream, partitioning
from ofediq.streams.dealt import Dealt


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(1, 50),
    st.sampled_from(["random", "passes", "sequential"]),
    st.integers(0, 2**32),
)
def test_every_sample_comes_equally_often(
    samples: int, steps: int, clients: int, kind: str, seed: int
) -> None:
    order = Dealt(samples, steps, clients, kind, seed)
    whole = order[:]
    assert whole.shape == order.shape == (steps, clients)
    counts = np.bincount(whole.ravel(), minlength=samples)
    assert counts.sum() == steps * clients
    assert counts.max() - counts.min() <= 1
    some = slice(steps // 3, steps // 2 + 1), slice(clients // 4, clients)
    np.testing.assert_array_equal(order[some], whole[some])
    np.testing.assert_array_equal(order[steps - 1], whole[-1])
    np.testing.assert_array_equal(order.head(1 + steps // 2)[:], whole[: 1 + steps // 2])


def test_neighbours_do_not_know_each_other() -> None:
    """Over 1000 samples: pairs of neighbours in time and among clients are as often equal as chance has it."""
    whole = Dealt(1000, 200, 500, "random", 3)[:]
    for one, other in ((whole[1:], whole[:-1]), (whole[:, 1:], whole[:, :-1])):
        equal = (one == other).mean()
        assert abs(equal - 1e-3) < 5 * np.sqrt(1e-3 / one.size)
    halves = whole[:100].mean(), whole[100:].mean()
    assert abs(halves[0] - halves[1]) < 5 * 1000 / np.sqrt(12 * 25_000)
    assert (Dealt(1000, 200, 500, "random", 4)[:] != whole).mean() > 0.99


def test_a_run_is_that_of_the_same_order_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioning, "LAID_OUT", 100)
    data = streams.load("digits")
    stream = streams.partition(data, clients=30, steps=20, seed=5)
    assert isinstance(stream.order, Dealt)
    method, model = methods.ofediq(0.5, 3, 20, step_size=0.1), models.softmax(64, 10)
    lazy, laid = (simulate(method, one, model) for one in (stream, Stream(data, stream.order[:])))
    np.testing.assert_array_equal(lazy.loss, laid.loss)
    np.testing.assert_array_equal(lazy.params, laid.params)
    np.testing.assert_array_equal(lazy.present, laid.present)
    assert lazy.regret().curve[-1] == pytest.approx(laid.regret().curve[-1])
    curves = [streams.naive_references(one)["majority"] for one in (stream, laid.stream)]
    np.testing.assert_array_equal(curves[0], curves[1])


def test_a_million_clients_cost_nothing_until_they_are_asked() -> None:
    stream = streams.partition(streams.load("digits"), clients=10**6, steps=10**6)
    assert stream.order[10**6 - 1, 5:8].shape == (3,)
    assert stream.head(7).order.shape == (7, 10**6)
    assert len(stream.fingerprint()) == 32
    with pytest.raises(InputError, match="must be at most 2\\^62"):
        Dealt(3, 2**40, 2**40, "random", 0)
