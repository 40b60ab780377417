"""Where a server goes on adding what members said, a hostile one is taken back: it said what it says no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.methods import Method, Terms, make
from ofediq.methods.client import Down
from ofediq.methods.combine import Guarded
from ofediq.methods.registry import entries
from ofediq.methods.robust.ledger import Ledger
from ofediq.streams import Stream, load, partition
from ofediq.swarm import Swarm

CLIENTS, STEPS = 20, 160
MODEL = models.softmax(64, 10)
TERMS = Terms(0.1, MODEL.dim, CLIENTS, STEPS)
KEEPING = ("scaffold", "vrlsgd", "laq", "lasg", "diana", "ef21_sgdm")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return partition(load("digits"), clients=CLIENTS, steps=STEPS, seed=1)


def accuracy(swarm: Swarm, stream: Stream, honest: Any) -> float:
    """Of honest clients' predictions, in the second half."""
    errors = [swarm.take(*stream.step(step)) for step in range(STEPS)]
    return 1 - float(np.mean([one[honest] for one in errors[STEPS // 2 :] if one is not None]))


def swarm_of(method: Method) -> Swarm:
    return Swarm(replace(method, combine=Guarded()), MODEL, CLIENTS, seed=1)


def test_all_that_keep_are_tried() -> None:
    found = [name for name, one in entries().items() if one.spend and make(name, TERMS).client.kept]
    assert sorted(found) == sorted(KEEPING)


@pytest.mark.parametrize("key", KEEPING)
@pytest.mark.parametrize("attack", ["flip(share=0.3)", "flip(share=0.3, size=990)", "constant(share=0.3)"])
def test_three_in_ten_cost_little(key: str, attack: str, stream: Stream) -> None:
    method = make(key, TERMS, step_size=0.3)
    harmed = methods.attacked(method, attack)
    honest = ~np.asarray(harmed.compress.bad(np.arange(CLIENTS)))  # type: ignore[attr-defined]
    alone = accuracy(swarm_of(method), stream, honest)
    assert accuracy(swarm_of(harmed), stream, honest) > alone - 0.1


@pytest.mark.parametrize("key", ["scaffold", "laq", "diana", "ef21_sgdm"])
def test_whoever_says_something_and_then_nothing_is_not_listened_to_for_ever(
    key: str, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = make(key, TERMS, step_size=0.3)
    harmed = methods.attacked(method, "constant(share=0.3, size=2)")
    bad = np.asarray(harmed.compress.bad(np.arange(CLIENTS)))  # type: ignore[attr-defined]
    swarm, rounds = swarm_of(harmed), []
    totals = swarm._totals

    def silenced(arrived: Any, sends: Any, bits: Any) -> Any:
        rounds.append(0)
        return totals(arrived, sends & ~bad if len(rounds) > 2 else sends, bits)

    monkeypatch.setattr(swarm, "_totals", silenced)
    assert accuracy(swarm, stream, ~bad) > accuracy(swarm_of(method), stream, ~bad) - 0.1


@pytest.mark.parametrize("key", KEEPING)
def test_an_update_is_the_word_for_what_it_says(key: str) -> None:
    rule, rng = make(key, TERMS).client, np.random.default_rng(0)
    update, other = rng.normal(size=(2, 3, 5)).astype(np.float32)
    down = Down(other[0], {"control": other[1]}, {})
    np.testing.assert_allclose(rule.worded(rule.says(update, down), down), update, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("key", KEEPING)
def test_honest_members_are_heard_to_the_last_bit(key: str) -> None:
    rule, rng = make(key, TERMS).client, np.random.default_rng(0)
    ledger = Ledger(rule, 5)
    for _ in range(4):
        update = rng.normal(size=5).astype(np.float32)
        down = Down(rng.normal(size=5).astype(np.float32), {"control": update}, {})
        np.testing.assert_array_equal(ledger.counted({0: update}, {0: 1.0}, down)[0], update)
        ledger.close()


def test_a_round_that_did_not_count_leaves_no_trace() -> None:
    ledger, down = Ledger(make("laq").client, 1), Down(np.zeros(1, np.float32), {}, {})
    update = {0: np.ones(1, np.float32)}
    ledger.counted(update, {0: 1.0}, down)
    ledger.close(counted=False)
    assert ledger.latest(update, (), down)[0] == 1


def test_what_would_be_infinite_is_not_taken() -> None:
    ledger, down = Ledger(make("laq").client, 1), Down(np.zeros(1, np.float32), {}, {})
    huge = {0: np.full(1, 3e38, np.float32)}
    assert ledger.takes(0, huge[0], down)
    ledger.counted(huge, {0: 0.0}, down)
    ledger.close()
    assert not ledger.takes(0, huge[0], down)


def test_what_is_too_much_for_every_round_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, down = Ledger(make("laq").client, 2), Down(np.zeros(2, np.float32), {}, {})
    word = {0: np.array([2.0, 1.0], np.float32)}
    ledger.counted(word, {0: 1.0}, down)
    ledger.close()
    assert ledger.export()
    monkeypatch.setattr("ofediq.methods.robust.ledger.MOST_SAVED", 15)
    assert ledger.export() == {}
    after = Ledger(make("laq").client, 2)
    after.restore(ledger.export())
    np.testing.assert_array_equal(after.counted(word, {0: 0.5}, down)[0], [1.0, 0.5])  # judged by itself
