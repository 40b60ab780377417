"""Updates that are too large: the limit comes from earlier rounds, and the model stays finite."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq import methods
from ofediq.codec import Raw, pack_frame
from ofediq.federation import clock
from ofediq.federation.protocol.clipping import START, Clipping
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.messages import UpdateMessage, write_json
from ofediq.federation.protocol.reports import Report
from ofediq.randomness import Address
from tests.federation.network import FEDERATION
from tests.federation.test_core import CLIENTS, coordinator


def send(server: Coordinator, sizes: list[float]) -> None:
    """One round of raw updates, all in the first coordinate."""
    step = server.step + 1
    for number, size in enumerate(sizes):
        vector = np.zeros(650, np.float32)
        vector[0] = size
        body = pack_frame(Raw().encode(vector, Address(0, step, number)), step)
        server.receive(f"{FEDERATION}/u/c{number}", UpdateMessage(Report(), step, body).encode(), 0.0)


def started(clip: float | None) -> Coordinator:
    server = coordinator(methods.fedogd(1.0), clip=clip)
    server.connected(0.0)
    for number in range(CLIENTS):
        server.receive(f"{FEDERATION}/here/c{number}", write_json(online=True), 0.0)
    return server


@pytest.mark.parametrize("size", [1e18, 3.4e38])
def test_one_huge_update_in_the_first_round_is_clipped(size: float) -> None:
    server = started(clip=1000.0)
    send(server, [size] + [1.0] * (CLIENTS - 1))
    assert server.monitor.totals()["clipped"] == 1
    np.testing.assert_allclose(server.params[0], -(1000 * START + CLIENTS - 1) / CLIENTS, rtol=1e-5)


@given(st.lists(st.floats(0, 1e38), min_size=1, max_size=5), st.floats(1.5, 1e4))
def test_the_limit_is_known_before_the_round(norms: list[float], multiple: float) -> None:
    guard = Clipping(multiple)
    for _ in range(4):
        limit = guard.limit
        kept = [norm * factor for norm, factor in zip(norms, guard.factors(norms), strict=True)]
        assert all(norm <= limit * (1 + 1e-12) for norm in kept)
        assert guard.limit <= multiple * limit


def test_a_scale_far_from_the_start_value_is_found() -> None:
    guard = Clipping(1000.0)
    for _ in range(10):
        factors = guard.factors([1e9] * 3)
    assert factors == [1.0] * 3
    assert guard.limit >= 1e9


def test_a_model_that_is_not_finite_is_neither_saved_nor_published() -> None:
    server = started(clip=None)
    send(server, [3.4e38, 3.4e38] + [1.0] * (CLIENTS - 2))
    assert server.step == 1
    assert np.isfinite(server.params).all()
    assert server.monitor.rejected["not finite"] == CLIENTS
    send(server, [1.0] * CLIENTS)
    np.testing.assert_allclose(server.params[0], -1.0, rtol=1e-6)


def test_setting_the_systems_clock_moves_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= clock.now() - before < 60
