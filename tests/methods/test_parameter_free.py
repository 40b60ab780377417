"""Coin betting: the equations, the promise of its theorem, and indifference to the scale of the loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import numpy as np
import pytest

from ofediq import methods
from ofediq.errors import InputError

SCALES = [1e-3, 1.0, 1e3]


def play(gradient: Callable[[float, int], float], steps: int, start: float = 0.0) -> list[float]:
    """The models w_1 ... w_T of one coordinate whose gradient at step t is `gradient(w, t)`."""
    rule, params = methods.coin(), np.array([start], np.float32)
    state, played = rule.init(params), []
    for t in range(steps):
        played.append(float(params[0]))
        params, state = rule.apply(params, np.array([gradient(played[-1], t)], np.float32), 1, state)
        assert state.wealth[0] >= 0
    return played


def promised(gradients: Sequence[float], distance: float, stake: float = 0.1) -> float:
    """Theorem 1 of Orabona and Tommasi (2017) for one coordinate, with first wealth `stake` L."""
    largest, travel = abs(gradients[0]), sum(map(abs, gradients))
    inside = 1 + ((travel + largest) * distance / (stake * largest)) ** 2
    return stake * largest + distance * math.sqrt(largest * (travel + largest) * math.log(inside))


def test_equals_the_equations() -> None:
    gradients = [
        0.0,
        2.0,
        -1.0,
        0.0,
        5.0,
        -3.0,
        -3.0,
        0.5,
    ]  # nothing, a first scale, a larger one, signs of both
    rule, params = methods.coin(stake=0.5), np.array([1.5], np.float32)
    state = rule.init(params)
    w, h, wealth, theta, travel = 1.5, 0.0, 0.0, 0.0, 0.0
    for g in gradients:
        cut = max(-h, min(h, g)) if h else g
        wealth = wealth - cut * (w - 1.5) if h else 0.5 * abs(g)
        h, theta, travel = max(h, abs(g)), theta - cut, travel + abs(cut)
        w = 1.5 + wealth * math.tanh(theta / (travel + h)) / h if h else 1.5
        params, state = rule.apply(params, np.array([7 * g], np.float32), 7, state)
        np.testing.assert_allclose(params[0], w, rtol=1e-5)
    assert w != 1.5


@pytest.mark.parametrize("rule", [methods.coin(), methods.adaptive()])
def test_numpy_and_compiled_jax_agree(rule: methods.ServerRule) -> None:
    totals = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    totals[:, 3] = 0
    params = compiled = np.ones(30, np.float32)
    state = traced = rule.init(params)
    step = jax.jit(rule.apply, static_argnums=2)
    for total in totals:
        params, state = rule.apply(params, total, 9, state)
        compiled, traced = step(compiled, total, 9, traced)
    np.testing.assert_allclose(compiled, params, rtol=1e-4, atol=1e-6)
    assert params[3] == 1
    assert params.dtype == np.float32
    assert all(field.dtype == np.float32 for field in state)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("target", [0.02, -30.0])
def test_regret_keeps_its_promise_and_shrinks_per_step(scale: float, target: float) -> None:
    # loss = scale |w - target|: no gradient is larger than the first, as the theorem asks.
    def gradient(w: float, _: int) -> float:
        return math.copysign(scale, w - target)

    losses = np.array([scale * abs(w - target) for w in play(gradient, 1600)])
    for steps in (10, 100, 1600):
        assert losses[:steps].sum() <= promised([scale] * steps, abs(target)) * (1 + 1e-3)
    per_step = [losses[:steps].mean() for steps in (100, 400, 1600)]
    assert per_step[1] < 0.6 * per_step[0]  # sqrt(T) growth alone would halve it, up to a logarithm
    assert per_step[2] < 0.6 * per_step[1]


def test_regret_on_random_gradients_keeps_its_promise() -> None:
    rng = np.random.default_rng(0)
    for drift in (0.0, 0.1, 0.9):
        gradients = np.clip(rng.standard_normal(300) - drift, -2, 2)
        gradients[0] = 2.0
        earned = float(np.dot(gradients, play(lambda _, t, g=gradients: g[t], 300)))  # type: ignore[misc]  # a default binds it
        for target in (-5.0, 0.0, 0.3, 100.0):
            assert earned - gradients.sum() * target <= promised(gradients.tolist(), abs(target))


@pytest.mark.parametrize("scale", SCALES)
def test_from_far_away_and_with_gradients_that_grow(scale: float) -> None:
    # Every 50 steps the loss becomes ten times steeper, up to a thousand times: outside of the theorem. The steps
    # that follow still do as well as it promises to a fresh start at w_1 with the last scale known.
    def gradient(w: float, t: int) -> float:
        return scale * 10.0 ** min(t // 50, 3) * math.copysign(1.0, w - 3.0)

    played = np.array(play(gradient, 2000, start=1000.0))
    assert np.abs(played[150:] - 3).sum() <= promised([1.0] * 1850, 997.0)


def test_the_scale_of_the_loss_does_not_matter() -> None:
    def gradient(w: float, _: int) -> float:
        return w - 3.0

    plain = play(gradient, 200)
    assert plain == play(lambda w, t: 1024 * gradient(w, t), 200)  # a power of two: bit for bit
    assert plain == play(lambda w, t: gradient(w, t) / 1024, 200)
    assert abs(plain[-1] - 3) < 0.1


def test_with_server_changes_the_server_only() -> None:
    base = methods.ofediq(0.5, 3, 14, period=4)
    changed = methods.with_server(base, methods.coin())
    assert changed.server == methods.coin(0.1)
    assert (changed.client, changed.compress, changed.period) == (base.client, base.compress, 4)
    assert methods.server_rule("coin") == methods.coin()
    assert methods.server_rule("descend", 0.3) == methods.descend(0.3)
    assert methods.server_rule("adam", 0.3).name == "adam(0.3)"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: methods.coin(0), "`stake` must be a finite number > 0, got 0"),
        (
            lambda: methods.server_rule("sgd"),
            "`server` must be one of descend, adam, averaged, coin, adaptive, got 'sgd'",
        ),
        (
            lambda: methods.with_server(methods.fedogd(), 0.1),  # type: ignore[arg-type]  # wrong on purpose
            "`rule` must be a server rule",
        ),
        (
            lambda: methods.with_server(methods.fedomd(3, mirror="simplex"), methods.coin()),
            r"`rule` must use the simplex mirror map of FedOMD \(simplex\), got coin\(0.1\)",
        ),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
