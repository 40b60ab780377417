"""What a budget promises, over many sizes, starts and gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq.errors import InputError
from ofediq.methods import grid
from ofediq.methods.budgets.loudness import pack, unpack
from ofediq.methods.budgets.steering import Budget, budget
from ofediq.randomness import Address
from tests.methods import fleet

MOST_WORK = 50_000  # clients x steps of one example
EVENTS = (
    "steady",
    "shrinking",
    "zero for a third",
    "x 1e12",
    "/ 1e12",
    "late fleet",
    "explodes at last",
    "always 0",
)


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    clients = int(10 ** draw(st.floats(0, 4)))
    steps = int(10 ** draw(st.floats(1.5, np.log10(max(40, min(2e3, MOST_WORK / clients))))))
    return {
        "dim": int(10 ** draw(st.floats(0, 5))),
        "clients": clients,
        "steps": steps,
        "share": 10 ** draw(st.floats(-5, 0)),
        "scale": 10 ** draw(st.floats(-20, 15)),
        "uneven": draw(st.sampled_from((0.0, 0.5, 2.0))),
        "event": draw(st.sampled_from(EVENTS)),
        "shape": draw(st.sampled_from(fleet.SHAPES)),
        "alignment": draw(st.sampled_from((0.0, 0.3, 1.0))),
        "front": draw(st.sampled_from((0.0, 0.5, 0.9))),
    }


def spend(case: dict[str, Any]) -> tuple[Budget, fleet.Spending]:
    clients, steps, event = case["clients"], case["steps"], case["event"]
    rule = budget(case["share"] * 32 * clients * case["dim"], steps, case["front"])
    here = np.arange(clients) < max(1, clients // 100)

    def norms(t: int, rng: np.random.Generator) -> Any:
        size = case["scale"] * np.exp(case["uneven"] * rng.standard_normal(clients))
        half, inside = t > steps // 2, steps // 3 < t <= 2 * steps // 3
        if event == "shrinking":
            return size / t
        if event == "zero for a third":
            return size * (not inside)
        if event == "x 1e12":
            return size * (1e12 if half else 1.0)
        if event == "/ 1e12":
            return size / (1e12 if half else 1.0)
        if event == "late fleet":
            return size * (here | (t > steps // 3))
        if event == "explodes at last":
            return size * (1e15 if t >= steps - 1 else 1.0)
        return size * (event != "always 0")

    return rule, fleet.run(
        rule, case["dim"], clients, steps, norms, shape=case["shape"], alignment=case["alignment"]
    )


@settings(max_examples=30, deadline=None)
@given(runs())
def test_a_budget_is_kept(case: dict[str, Any]) -> None:
    rule, spent = spend(case)
    whole = rule.bits_per_step * case["steps"]
    for signal in spent.signals:
        assert all(np.isfinite(part) for part in signal)
        step, loudest = unpack(signal.value)
        assert 0 < step < 1e31
        assert 0 < loudest < 1e31
    messages = spent.senders.sum()
    each = spent.bits.sum() / max(1, messages)
    first = case["steps"] ** (case["front"] - 1.0)  # the share of the first step: T (1/T)^(1-a) of T
    # Chance decides how many messages come: three of them, or three standard deviations of a round's number.
    expected = max(4 * first, 1 / 8) * whole / max(each, 1)
    chance = 3 * each * max(1, np.sqrt(min(expected, case["clients"])))
    assert spent.bits.max() <= 1.2 * max(4 * first, 1 / 8) * whole + chance
    slack = spent.bits[-2:].sum() if case["event"] == "explodes at last" else 2 * spent.bits[-1]
    assert spent.bits.sum() <= 1.02 * whole + max(slack, 3 * each)
    assert spent.bits.sum() <= rule.most_spent(case["steps"]) + 4 * each


@settings(max_examples=30, deadline=None)
@given(runs())
def test_what_can_be_spent_is_spent(case: dict[str, Any]) -> None:
    event = "shrinking" if case["event"] == "shrinking" else "steady"
    case = {**case, "event": event, "steps": max(60, case["steps"])}
    rule, spent = spend(case)
    whole = rule.bits_per_step * case["steps"]
    most = case["clients"] * fleet.largest_message(case["dim"], case["shape"])
    each = spent.bits.sum() / max(1, spent.senders.sum())
    if spent.bits.max() > 0.8 * most or whole < 40 * fleet.largest_message(case["dim"], case["shape"]):
        return  # more is due than fits, or a handful of messages
    assert spent.bits.sum() >= 0.93 * whole - 3 * each
    silence = np.diff(np.flatnonzero(np.concatenate([[1], spent.senders, [1]])))
    assert silence.max() <= 5 + 30 * each / (0.1 * rule.bits_per_step)


@pytest.mark.parametrize("steps", [None, 50])
def test_a_run_goes_on_after_its_horizon(steps: int | None) -> None:
    rule = budget(2000.0, steps)
    spent = fleet.run(rule, 500, 20, 4000, lambda t, rng: rng.random(20) + 0.5)
    np.testing.assert_allclose(spent.bits[2000:].mean(), 2000, rtol=0.02)
    np.testing.assert_allclose(spent.bits.mean(), 2000, rtol=0.02)


def test_a_night_without_clients_is_not_made_up_for_at_once() -> None:
    rule = budget(2000.0)
    spent = fleet.run(rule, 500, 20, 9000, lambda t, rng: np.ones(20) * (not 1000 < t <= 8000))
    assert spent.bits.max() <= 2000 * 1000 / 8
    assert spent.bits[8000:8010].sum() <= 12 * 8 * 2000


@pytest.mark.parametrize("event", ["grows without end", "rare spikes"])
@pytest.mark.parametrize(
    ("dim", "clients", "steps", "share"), [(6, 232, 382, 0.05), (500, 20, 300, 0.02), (50, 100, 400, 0.001)]
)
def test_an_allowance_does_not_refill(event: str, dim: int, clients: int, steps: int, share: float) -> None:
    rule = budget(share * 32 * clients * dim, steps)

    def norms(t: int, rng: np.random.Generator) -> Any:
        usual = np.exp(0.5 * rng.standard_normal(clients))
        if event == "rare spikes":
            return usual * np.where(rng.random(clients) < 0.002, 1e12, 1.0)
        return usual * 1.5 ** min(t, 178)  # beyond 1e30 there is no step of the grid left to raise

    spent = fleet.run(rule, dim, clients, steps, norms)
    each = spent.bits.sum() / max(1, spent.senders.sum())
    assert spent.bits.sum() <= rule.most_spent(steps) + 3 * each


@pytest.mark.parametrize("steps", [None, 40])
@pytest.mark.parametrize(("dim", "clients", "share"), [(6, 200, 0.05), (500, 20, 0.02), (126, 500, 0.001)])
def test_bursts_have_a_bound_at_every_step(steps: int | None, dim: int, clients: int, share: float) -> None:
    # Every third update is a million times as large: without a horizon the first 40 steps took 3.4 times the budget.
    rule = budget(share * 32 * clients * dim, steps)
    spent = fleet.run(
        rule, dim, clients, 120, lambda t, rng: 1e6 ** (rng.random() < 1 / 3) * np.ones(clients)
    )
    sums, messages = np.cumsum(spent.bits), np.cumsum(spent.senders)
    allowed = [rule.most_spent(step) for step in range(1, 121)]
    assert (sums <= allowed + 4 * sums / messages).all()


@pytest.mark.parametrize("shape", fleet.SHAPES)
@pytest.mark.parametrize("dim", [1, 7, 300])
def test_the_fleets_messages_are_as_long_as_the_coders(dim: int, shape: str) -> None:
    # On the common grid, and on one of its own (no client may be as loud as its norm): the mean of 40 roundings.
    spread, update = 3.0, fleet.direction(dim, shape, np.random.default_rng(1)).astype(np.float32)
    piece = grid(spread)
    for reach, own in ((2.0, False), (64.0, False), (2.0, True)):
        signal = float(pack(np.float32(2.0**-9 if own else 1.0), np.float32(reach / spread if own else 1e4)))
        lengths = [piece.encode(reach * update, Address(0, step, 0), signal).bits for step in range(40)]
        expected = np.interp(
            np.log2(reach), np.log2(fleet.REACHES), fleet.message_sizes(dim, shape)[int(own)]
        )
        spare = 3 * np.std(lengths) / np.sqrt(8) + 8  # eight roundings are in the table; whole bytes
        assert abs(np.mean(lengths) - expected) <= 0.03 * expected + spare


FACTORS = {
    "steady": lambda t: 1.0 + 0 * t,
    "shrinking": lambda t: 1.0 / t,
    "a day and a night": lambda t: jnp.where(t % 1000 < 500, 1.0, 0.0),
    "in waves of 1e6": lambda t: 10.0 ** (6 * jnp.sin(t / 3000.0)),
    "explodes once": lambda t: jnp.where(t == 50_000, 1e15, 1.0),
}


@pytest.mark.parametrize(
    ("dim", "clients", "share", "event"),
    [
        (1, 1, 0.5, "steady"),
        (10, 3, 0.1, "a day and a night"),
        (650, 4, 1e-4, "shrinking"),
        (650, 4, 1e-4, "in waves of 1e6"),
        (650, 10, 0.1, "explodes once"),
    ],
)
def test_a_hundred_thousand_steps(dim: int, clients: int, share: float, event: str) -> None:
    steps = 100_000
    rule = budget(share * 32 * clients * dim, steps)
    bits, signals = fleet.long_run(rule, dim, clients, steps, FACTORS[event])
    assert all(np.isfinite(part).all() for part in signals)
    whole = rule.bits_per_step * steps
    assert (0.85 if "night" in event else 0.97) <= bits.sum() / whole <= 1.02  # it wakes slowly
    tenths = bits.reshape(10, -1).sum(1) / whole
    assert tenths.min() > 0.02  # nobody falls silent
    assert tenths.max() < 0.5


def test_extra_bits_count() -> None:
    steps, clients = 2000, 50
    rule = budget(5000.0, steps, extra_bits=400.0)
    spent = fleet.run(rule, 1000, clients, steps, lambda t, rng: rng.random(clients) + 0.5)
    np.testing.assert_allclose(spent.bits.sum(), 5000.0 * steps, rtol=0.01)
    assert rule.spread > budget(5000.0, steps).spread  # dearer messages: fewer and finer ones


def test_same_signals_in_numpy_and_in_compiled_jax() -> None:
    rule, rng = budget(3000.0, 300), np.random.default_rng(0)
    here = there = rule.init(200, 30)
    step = jax.jit(lambda signal, **round_: rule.next(signal, **round_))
    for t in range(1, 200):
        senders = int(rng.integers(0, 30)) * (t % 7 > 0)
        total = (senders * rng.standard_normal(200)).astype(np.float32)
        round_: Any = {
            "total": total,
            "bits": np.float32(150 * senders),
            "senders": senders,
            "clients": 30,
            "step": t,
        }
        here, there = rule.next(here, **round_), step(there, **round_)
        np.testing.assert_allclose([*here][1:], [*there][1:], rtol=1e-3, atol=1e-5)
        there = type(there)(*(np.asarray(part) for part in here))
        assert here.value.dtype == np.float32


@pytest.mark.parametrize("front", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("period", [1, 10])
def test_what_is_planned_adds_up_to_the_budget(front: float, period: int) -> None:
    # Spend exactly what is wanted, with updates that shrink: nothing is left at the end, whatever the lean.
    steps, total = 2000, np.ones(1000, np.float32)
    rule = budget(1000.0, steps, front)
    signal, spent = rule.init(1000, 10, period), []
    for step in range(period, steps + 1, period):
        spent.append(float(signal.wanted))
        signal = rule.next(
            signal, total=total / step, bits=spent[-1], senders=10, clients=10, step=step, period=period
        )
    np.testing.assert_allclose(sum(spent), 1000.0 * steps, rtol=0.02)
    np.testing.assert_allclose(spent[0], 1000.0 * steps * (period / steps) ** (1 - front), rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bits_per_step": 0.0}, "`bits_per_step` must be"),
        ({"bits_per_step": 1.0, "steps": 0}, "`steps` must be an integer >= 1, got 0"),
        ({"bits_per_step": 1.0, "front": 1}, r"`front` must lie in \[0, 1\), got 1"),
        ({"bits_per_step": 1.0, "extra_bits": -1.0}, "`extra_bits` must be a finite number >= 0, got -1.0"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        budget(**arguments)


def _after(rule: Budget, fleets: list[int], dim: int = 50) -> list[Any]:
    """The signals of rounds in which so many clients have registered, and each sends 40 bits."""
    signal, found, rng = rule.init(dim, fleets[0]), [], np.random.default_rng(3)
    for step, clients in enumerate(fleets, 1):
        signal = rule.regroup(signal, dim, clients)
        total = np.sqrt(clients) * rng.normal(size=dim).astype(np.float32)
        bits, senders = np.float32(40 * clients), np.float32(clients)
        signal = rule.next(
            signal,
            total=total,
            bits=bits,
            senders=senders,
            clients=np.float32(clients),
            step=np.float32(step),
        )
        found.append(signal)
    return found


@pytest.mark.parametrize("steps", [None, 300])
def test_bits_of_each_client_are_those_of_all(steps: int | None) -> None:
    together, apart = (
        _after(Budget(bits, steps, each=each), [8] * 40) for bits, each in ((320.0, False), (40.0, True))
    )
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_allclose(unpack(other.value), unpack(one.value), rtol=1e-4)


def test_a_federation_that_grows_keeps_what_each_client_may_send() -> None:
    """One client, then a hundred: who shares one budget has a hundredth, who has one of its own goes on."""
    fleets = [1] * 40 + [100] * 40
    shared, own = (_after(Budget(40.0, each=each), fleets) for each in (False, True))
    assert own[-1].wanted / 100 == pytest.approx(own[38].wanted, rel=0.05)
    assert shared[-1].wanted < own[-1].wanted / 50
    assert unpack(own[-1].value)[0] < unpack(shared[-1].value)[0]  # a finer grid
