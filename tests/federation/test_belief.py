"""What members say about their predictions is believed as far as it is usual."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.federation.protocol.belief import SAMPLES, Belief
from ofediq.federation.protocol.messages import UpdateMessage
from ofediq.federation.protocol.reports import Report
from tests.federation.network import FEDERATION
from tests.federation.test_core import CLIENTS
from tests.federation.test_guard import started


def mean_error(lie: Report | None, liars: int = 1) -> tuple[float, Belief]:
    """Of ten members that are wrong one time in five, some of which may lie instead."""
    rng, belief, total = np.random.default_rng(0), Belief(), np.zeros(2)
    for _ in range(60):
        said = [(member, Report(10, float(rng.binomial(10, 0.2)), 5.0)) for member in range(10)]
        if lie is not None:
            said[:liars] = [(member, lie) for member in range(liars)]
        total += np.sum([(one.samples, one.error) for one in belief.fit(said)], axis=0)
    return total[1] / total[0], belief


@pytest.mark.parametrize(
    "lie", [Report(65_535, 0.0, 0.0), Report(65_535, 1e18, 0.0), Report(10, 10.0, 0.0), Report(10, 0.0, 10.0)]
)
def test_one_liar_among_ten_hardly_moves_the_mean_and_carries_a_mark(lie: Report) -> None:
    honest, nobody = mean_error(None)
    found, belief = mean_error(lie)
    assert abs(found - honest) < 0.35 * honest
    assert belief.odd == {0}
    assert not nobody.odd


def test_three_liars_among_ten_are_marked_and_move_the_mean_by_no_more_than_they_would_honestly() -> None:
    honest, _ = mean_error(None)
    found, belief = mean_error(Report(10, 1e18, 0.0), liars=3)
    assert found < 2 * honest
    assert belief.odd == {0, 1, 2}


@pytest.mark.parametrize("rate", [0.03, 0.2])
def test_honest_numbers_are_taken_as_they_are(rate: float) -> None:
    """Members that speak now and then, of few predictions with rare errors, in one case half as good as others."""
    rng, belief = np.random.default_rng(1), Belief()
    waiting, said, taken = np.zeros((20, 2)), np.zeros(2), np.zeros(2)
    chance = np.where(np.arange(20) % 4 == 0, 2 * rate, rate)
    for _ in range(300):
        waiting += np.column_stack([np.ones(20), rng.random(20) < chance])
        speak = np.flatnonzero(rng.random(20) < 0.3)
        reports = [
            (int(k), Report(int(waiting[k, 0]), float(waiting[k, 1]), waiting[k, 0] / 2)) for k in speak
        ]
        said += waiting[speak].sum(0)
        taken += np.sum([(one.samples, one.error) for one in belief.fit(reports)], axis=0)
        waiting[speak] = 0
    assert taken[0] == said[0]
    assert 0.97 * said[1] <= taken[1] <= 1.001 * said[1]
    assert not belief.odd


def test_when_everyone_is_far_off_everyone_is_believed() -> None:
    """Else a model that diverges would look well."""
    belief = Belief()
    for size in [1.0] * 20 + [1e6] * 10:
        last = belief.fit([(member, Report(1, size, 1.0)) for member in range(10)])
        assert [one.error for one in last] == [size] * 10


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 65_535), st.floats(0, 1e18), st.floats(0, 1e18)),
        max_size=60,
    )
)
def test_whatever_is_said_figures_stay_finite_and_not_negative(
    said: list[tuple[int, int, float, float]],
) -> None:
    belief = Belief()
    for member, samples, error, naive in said:
        for one in belief.fit([(member, Report(samples, error, naive))]):
            assert 0 <= one.samples <= max(samples, 1)
            assert 0 <= one.error < 1e24
            assert 0 <= one.naive < 1e24


def test_the_servers_figures_and_the_clients_row() -> None:
    server = started(clip=None)
    for _ in range(24):
        step = server.step + 1
        for number in range(CLIENTS):
            said = Report(100, 100.0, 0.0) if number == 0 else Report(5, 1.0, 4.0)
            server.receive(f"{FEDERATION}/u/c{number}", UpdateMessage(said, step, b"").encode(), 0.0)
    totals = server.monitor.totals()
    assert totals["samples"] <= 24 * (5 * (CLIENTS - 1) + SAMPLES * 5) + 200
    assert 0.2 <= totals["error"] < 0.5
    assert [row.name for row in server.monitor.rows() if row.odd] == ["c0"]
