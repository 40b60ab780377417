"""A bound is shown only where a theorem holds, and nothing here manages to lie above it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq import methods, models, streams
from ofediq.methods import Method
from ofediq.methods.compress import Quantize
from ofediq.methods.server.rule import Descend
from ofediq.models import Model, Network
from ofediq.randomness import Address
from ofediq.simulation import Regret, hindsight, simulate
from ofediq.simulation.oracle import reference
from ofediq.streams import Dataset, Stream
from ofediq.theory import ofedavg_step_limit, ofediq_step_limit, quantizer_variance

CLIENTS, FEATURES = 3, 2
SEEDS = 24


def made(
    steps: int, target: Callable[[np.ndarray], np.ndarray], scale: float = 1.0, classes: int = 0
) -> Stream:
    """Random features; the target is a function of the step."""
    x = scale * np.random.default_rng(0).uniform(-1, 1, (steps * CLIENTS, FEATURES))
    y = np.repeat(target(np.arange(steps)), CLIENTS)
    if classes:
        data = Dataset("made", x=x, y=y.astype(int) % classes, task="classification", classes=classes)
    else:
        data = Dataset("made", x=x, y=y, task="regression")
    return Stream(data, np.arange(steps * CLIENTS).reshape(steps, CLIENTS))


def jump(step: np.ndarray) -> np.ndarray:
    """30 for 40 steps, then 0."""
    return np.where(step < 40, 30.0, 0.0)


def within(stream: Stream, model: Model, share: float = 0.9) -> float:
    """A step size for which Theorem 1 covers FedOGD."""
    return share * ofedavg_step_limit(
        1.0, clients=stream.clients, smoothness=model.smoothness(stream.x) or 0.0
    )


def test_a_start_away_from_zero_is_paid_for() -> None:
    stream, model = streams.synthetic(task="regression", clients=8, steps=60, features=4), models.linear(4)
    eta, far = within(stream, model, 0.1), np.full(model.dim, 100.0)
    regret = simulate(methods.fedogd(eta), stream, model, initial=far).regret()
    assert regret.bound is not None, regret.reason
    assert (regret.curve <= regret.bound).all()
    distance = float(np.linalg.norm(far - regret.comparator.params))
    expected = stream.clients * distance**2 / (2 * eta) + eta * np.cumsum(regret.comparator.gradients)
    np.testing.assert_allclose(regret.bound, expected)


def test_an_early_loss_is_not_spread_over_the_run() -> None:
    stream, model = made(1000, jump), models.linear(FEATURES)
    regret = simulate(methods.fedogd(within(stream, model)), stream, model).regret()
    assert regret.bound is not None, regret.reason
    assert (regret.curve <= regret.bound).all()


def test_local_steps_must_be_the_servers() -> None:
    stream, model = made(80, jump), models.linear(FEATURES)
    eta = within(stream, model, 0.01)
    other = methods.method(methods.local_ogd(1.0), methods.descend(eta), period=8)
    regret = simulate(other, stream, model).regret()
    assert regret.bound is None
    assert regret.reason == f"the theorems assume local steps of the server's step size {eta:g}, not 1"
    assert simulate(replace(other, client=methods.local_ogd(eta)), stream, model).regret().bound is not None
    # With a period of 1 a client sends before it moves: its own step size moves nothing.
    assert simulate(replace(other, period=1), stream, model).regret().bound is not None


@pytest.mark.parametrize("classes", [0, 3])
def test_a_model_that_starts_from_a_forecast_is_covered(classes: int) -> None:
    rng = np.random.default_rng(5)
    anchors = (
        rng.normal(size=(60, classes)) if classes else np.column_stack([rng.normal(size=60), rng.random(60)])
    )
    x = np.hstack([rng.uniform(-1, 1, (60, FEATURES)), anchors])
    y = rng.integers(0, classes, 60) if classes else anchors[:, 0] + x[:, 0]
    data = Dataset(
        "anchored", x=x, y=y, task="classification" if classes else "regression", classes=classes or None
    )
    model = models.anchored(models.softmax(FEATURES, classes) if classes else models.linear(FEATURES))
    stream = Stream(data, np.arange(60).reshape(20, CLIENTS))
    regret = simulate(methods.fedogd(within(stream, model)), stream, model).regret()
    assert regret.bound is not None, regret.reason
    assert not regret.estimate
    assert (regret.curve <= regret.bound).all()


class Momentum(Descend):
    """Moves otherwise than its parent, and says nothing of its own."""

    def apply(self, params: Any, total: Any, clients: int, state: Any) -> tuple[Any, Any]:
        moved, state = super().apply(params, total, clients, state)
        return moved + np.float32(0.9) * (moved - params), state


class Halved(Quantize):
    """A biased compressor that inherits an unbiased one's variance."""

    def apply(self, updates: Any, address: Address, signal: Any = None) -> tuple[Any, Any]:
        sent, bits = super().apply(updates, address, signal)
        return sent / np.float32(2), bits


ETA = 1e-3
PLAIN = methods.fedogd(ETA)
UNCOVERED = {
    "rotated": replace(PLAIN, compress=methods.rotate(1)),
    "delta": methods.with_broadcast(PLAIN, methods.delta(levels=7, blocks=1)),
    "grid": methods.ofedgrid(100.0, 20, ETA),
    "norms": methods.ofediq_norm(3, 1, 100.0, 20, ETA),
    "fixed size": replace(PLAIN, participation=methods.fixed_size(0.5)),
    "hold": methods.method(methods.hold(), methods.descend(ETA), period=4),
    "mirror": methods.fedomd(4, ETA, mirror="positive"),
    "coin": methods.with_server(PLAIN, methods.coin()),
    "adam": methods.fedogd(ETA, preset="authors"),
    "central": methods.ogd(ETA),
    "alone": methods.local(ETA),
    "own server": replace(PLAIN, server=Momentum(ETA)),
    "own compressor": replace(PLAIN, compress=Halved(3, 1)),
}


@pytest.mark.parametrize("method", UNCOVERED.values(), ids=UNCOVERED)
def test_no_theorem_no_bound(method: Method) -> None:
    stream, model = made(20, jump), models.linear(FEATURES)
    regret = simulate(method, stream, model).regret()
    assert regret.bound is None
    assert regret.reason.startswith("the theorems ")


def away(model: Network, distance: float) -> Network:
    """`model` with another start than zero."""
    first = distance * np.random.default_rng(3).standard_normal(model.dim)
    return replace(model, start=lambda _: first.astype(np.float32))


@dataclass(frozen=True)
class Problem:
    """A small convex problem, and a method at a step size that a theorem covers."""

    stream: Stream
    model: Network
    method: Method

    def regrets(self, seeds: int) -> list[Regret]:
        """Of the plain loop, which has nothing to compile; the engine is held against it elsewhere."""
        best = hindsight(self.model, self.stream)
        runs = (reference(self.method, self.stream, self.model, seed) for seed in range(seeds))
        return [run.regret(comparator=best) for run in runs]


TARGETS = {
    "early": lambda step: np.where(step <= step.max() * 0.05, 30.0, 0.0),
    "late": lambda step: np.where(step < step.max() * 0.9, 0.0, 30.0),
    "explodes": lambda step: 1.3 ** np.minimum(step, 40),
    "alternates": lambda step: 10.0 * (-1.0) ** step,
    "constant": lambda step: np.full(step.shape, 3.0),
    "noise": lambda step: np.random.default_rng(1).standard_cauchy(step.shape),
}


@st.composite
def problems(draw: st.DrawFn, *, random: bool) -> Problem:
    """`random`: with participation or a quantiser, so that a bound holds on average only."""
    classes, steps = (
        draw(st.sampled_from([0, 0, 3])),
        draw(st.sampled_from([7, 45] if random else [7, 90])),
    )
    stream = made(
        steps,
        TARGETS[draw(st.sampled_from(sorted(TARGETS)))],
        draw(st.sampled_from([0.1, 1.0, 5.0])),
        classes,
    )
    if draw(st.booleans()):  # gaps
        absent = np.random.default_rng(2).random(stream.order.shape) < 0.3
        absent[0, 0] = False
        stream = Stream(stream.dataset, np.where(absent, -1, stream.order))
    model = models.softmax(FEATURES, classes) if classes else models.linear(FEATURES)
    model = away(model, draw(st.sampled_from([0.0, 0.0, 100.0])))
    period, share = draw(st.sampled_from([1, 2, 5, 8])), draw(st.floats(0.01, 0.999))
    rates: list[float | list[float]] = [1.0, 0.9, 0.3, [0.2, 0.5, 1.0]]
    rate = draw(st.sampled_from(rates)) if random else 1.0
    compress, noise = None, 0.0
    if random and (rate == 1.0 or draw(st.booleans())):
        levels, blocks = draw(st.sampled_from([1, 3])), draw(st.sampled_from([1, 2]))
        compress, noise = methods.quantize(levels, blocks), quantizer_variance(levels, blocks, model.dim)
    known: dict[str, Any] = {"clients": CLIENTS, "smoothness": model.smoothness(stream.x)}
    if period == 1 and compress is None:
        limit = ofedavg_step_limit(rate, **known)
    else:
        limit = ofediq_step_limit(rate, quantizer_variance=noise, period=period, **known)
    local, server = methods.local_ogd(share * limit), methods.descend(share * limit)
    method = methods.method(local, server, methods.bernoulli(rate), compress, period=period)
    return Problem(stream, model, method)


@settings(max_examples=100, deadline=None)
@given(problems(random=False))
def test_nothing_lies_above_a_bound(problem: Problem) -> None:
    (regret,) = problem.regrets(1)
    assert regret.bound is not None, regret.reason
    rounding = 1e-4 * np.cumsum(regret.comparator.losses) + 1e-5 * regret.bound
    assert (regret.curve <= regret.bound + rounding).all()


@settings(max_examples=25, deadline=None)
@given(problems(random=True))
def test_no_mean_lies_above_a_bound(problem: Problem) -> None:
    regrets = problem.regrets(SEEDS)
    curves = np.stack([regret.curve for regret in regrets])
    bound = regrets[0].bound
    assert bound is not None, regrets[0].reason
    margin = 4 * curves.std(0, ddof=1) / np.sqrt(SEEDS) + 1e-4 * np.abs(bound)
    assert (curves.mean(0) <= bound + margin).all()
