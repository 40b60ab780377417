"""A large fleet's updates are read together; nothing that anybody could notice depends on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ofediq import methods
from ofediq.codec import Encoded
from ofediq.federation import ModelSpec, Rules, coordinate
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.messages import UpdateMessage, write_body, write_json
from ofediq.federation.protocol.reports import Report
from ofediq.federation.protocol.updates import OpenRound
from ofediq.randomness import Address

CLIENTS, DIM = 200, 15
SPEC = ModelSpec("softmax", (4,), "classification", classes=3)
NAMES = tuple(f"c{number}" for number in range(CLIENTS))


def server(method: methods.Method) -> Coordinator:
    rules = Rules(roster=NAMES, open=False, min_clients=CLIENTS // 2, rounds=3, deadline=10.0)
    one = coordinate("f", method, SPEC, rules)
    one.connected(0.0)
    for name in NAMES:
        one.receive(f"f/here/{name}", write_json(online=True), 0.0)
    return one


def message(one: Coordinator, number: int, rng: np.random.Generator) -> bytes:
    """An update, a damaged one whose checksum is right, a report alone, or noise."""
    step, kind = one.step + 1, rng.choice(["update", "damaged", "report", "noise"], p=[0.8, 0.1, 0.05, 0.05])
    report = Report(1, float(rng.integers(2)), 1.0)
    if kind == "noise":
        return bytes(rng.bytes(12))
    if kind == "report":
        return UpdateMessage(report, step).encode()
    encoded = one.method.compress.encode(rng.standard_normal(DIM), Address(one.task.seed, step, number))
    if kind == "damaged":
        encoded = Encoded(b"\xff" * len(encoded.payload), encoded.tail)
    return UpdateMessage(report, step, write_body({"update": encoded}, step)).encode()


def run(method: methods.Method, seed: int) -> tuple[Any, ...]:
    one, rng, now = server(method), np.random.default_rng(seed), 0.0
    while not one.finished:
        now += 0.01
        number = int(rng.integers(CLIENTS))
        if rng.random() < 0.02:
            online = bool(rng.random() < 0.7)
            one.receive(f"f/here/{NAMES[number]}", write_json(online=online), now)
        else:
            one.receive(f"f/u/{NAMES[number]}", message(one, number, rng), now)
        if rng.random() < 0.01:
            one.tick(now)
    rows = [dict(vars(row)) for row in one.monitor.rows()]
    return one.params.tobytes(), dict(one.monitor.rejected), rows, one.members.present, one.monitor.sums()


@pytest.mark.parametrize(
    "method", [methods.fedogd(0.1), methods.ofediq(0.6, 3, 2, 1, 0.1)], ids=["raw", "packed"]
)
def test_together_or_one_by_one(method: methods.Method, monkeypatch: pytest.MonkeyPatch) -> None:
    together = run(method, seed=5)
    assert together[1]["malformed"] > 10
    with monkeypatch.context() as patch:
        patch.setattr(OpenRound, "together", 1)
        assert run(method, seed=5) == together


def test_a_round_waits_for_those_who_are_due_and_there() -> None:
    one = server(methods.fedogd(0.1))
    rng = np.random.default_rng(0)
    one.receive(f"f/here/{NAMES[0]}", write_json(online=False), 0.0)
    for number in range(1, CLIENTS):
        assert one.step == 0
        encoded = one.method.compress.encode(rng.standard_normal(DIM), Address(0, 1, number))
        payload = UpdateMessage(Report(), 1, write_body({"update": encoded}, 1)).encode()
        one.receive(f"f/u/{NAMES[number]}", payload, 1.0)
    assert one.step == 1
    assert one.monitor.last is not None
    assert one.monitor.last.senders == CLIENTS - 1
