"""When rounds open and end: the server sleeps until then, also where windows grow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ofediq import methods
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.messages import write_json
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.task import ModelSpec
from ofediq.methods.budgets.windows import Growing

GROWING = replace(methods.fedomd(1, 0.1), windows=Growing(4.0, 16))


def silent(**rules: Any) -> Coordinator:
    """A server whose only client never sends anything."""
    spec = ModelSpec("linear", (3,), "regression")
    chosen = Rules(deadline=10.0, **rules)
    server = Coordinator("test", GROWING, spec, Monitor("test", "regression", {}), chosen)
    server.connected(0.0)
    server.receive("test/here/c0", write_json(online=True), 0.0)
    return server


@pytest.mark.parametrize("pace", ["asap", "interval"])
def test_the_server_never_asks_for_a_tick_that_does_nothing(pace: str) -> None:
    server = silent(pace=pace, interval=100.0, rounds=9)
    while not server.finished:
        step, opened = server.step, server._round is not None
        server.tick(server.next_tick())
        assert (server.step, server._round is not None) != (step, opened)


def test_a_server_that_knows_less_than_its_clients_waits_asleep() -> None:
    server = silent(pace="interval", interval=100.0, min_clients=2)
    for name in ("c0", "c1"):
        server.receive(f"test/here/{name}", write_json(online=True, step=1000), 1.0)
    assert server.ahead == 1000
    assert server.next_tick() == float("inf")


@pytest.mark.parametrize(
    ("pace", "interval", "deadline", "passes"),
    [("asap", 60.0, 10.0, True), ("interval", 1.0, 10.0, True), ("interval", 60.0, 10.0, False)],
)
def test_who_has_nothing_to_say_says_so_where_waiting_would_hold_up_the_next_round(
    pace: Any, interval: float, deadline: float, passes: bool
) -> None:
    """A round of a second that waits for a deadline of ten takes ten: nobody knows who will send with OFedGrid."""
    rules = Rules(pace=pace, interval=interval, deadline=deadline)
    spec = ModelSpec("linear", (3,), "regression")
    found = {}
    for key, method in {"grid": methods.ofedgrid(100.0), "paper": methods.ofediq(0.5, 3, 1)}.items():
        found[key] = Coordinator("test", method, spec, Monitor("test", "regression", {}), rules).task.passes
    assert found == {"grid": passes, "paper": False}
