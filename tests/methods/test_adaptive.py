"""The rule without a step size: the equations, any unit, and learning that costs little at first."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ofediq import methods
from ofediq.errors import InputError
from ofediq.methods.server.adaptive import adaptive
from ofediq.testing import check_method


def test_equals_the_equations() -> None:
    gradients = [[0.0, 1.0], [2.0, -1.0], [-1.0, 0.5], [0.0, 0.0], [3.0, -2.0], [-3.0, -2.0]]
    rule, params = adaptive(first=0.01), np.array([1.5, -2.0], np.float32)
    state = rule.init(params)
    start, fades = [1.5, -2.0], [0.99, 0.999, 0.9999]
    squares, path, near, reach = [0.0] * 2, [0.0] * 2, [0.0] * 2, [0.0] * 2
    largest, energy, won, factor = [0.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3
    for pair in gradients:
        gain = sum(g * p for g, p in zip(pair, path, strict=True))
        for i, b in enumerate(fades):
            largest[i], energy[i] = max(b * largest[i], abs(gain)), b * b * energy[i] + gain * gain
            won[i] = max(0.0, b * won[i] - factor[i] * gain)
            factor[i] = (0.01 * largest[i] + won[i]) / math.sqrt(energy[i]) if energy[i] else 0.0
        squares = [square + g * g for square, g in zip(squares, pair, strict=True)]
        usual = sum(map(math.sqrt, squares)) / 2
        for i, g in enumerate(pair):
            move = g / math.sqrt(squares[i]) if squares[i] else 0.0
            path[i] -= move
            reach[i] = max(reach[i], abs(near[i]))
            tilt = min(10.0, math.sqrt(squares[i]) / usual)
            near[i] -= max(reach[i], 0.01 * tilt) * move
        wanted = [start[i] + sum(factor) * path[i] + near[i] for i in range(2)]
        params, state = rule.apply(params, 7 * np.array(pair, np.float32), 7, state)
        np.testing.assert_allclose(params, wanted, rtol=1e-5)


@pytest.mark.parametrize("noise", [0.0, 3.0])
@pytest.mark.parametrize("distance", [0.03, 0.3, 3.0])
def test_learns_near_and_far_optima_without_tuning(distance: float, noise: float) -> None:
    """Squared loss on features of size 1: at most a little worse than the start early on, far better in the end."""
    rng, rule = np.random.default_rng(1), adaptive()
    best = distance * rng.choice([-1.0, 1.0], 20)
    params = np.zeros(20, np.float32)
    state, losses, untouched = rule.init(params), [], []
    for _ in range(3000):
        x = rng.normal(size=(10, 20))
        miss = x @ (params - best)
        losses.append(np.mean(miss**2))
        untouched.append(np.mean((x @ best) ** 2))
        gradient = 2 * miss @ x + noise * distance * rng.normal(size=20) * np.sqrt(10)
        params, state = rule.apply(params, gradient.astype(np.float32), 10, state)
    assert np.mean(losses[:100]) < 1.05 * np.mean(untouched[:100])
    assert np.mean(losses[-500:]) < (0.01 if noise == 0 else 0.2) * np.mean(untouched[-500:])


def test_gradients_whose_squares_are_no_numbers_leave_the_model_finite() -> None:
    rule, params = adaptive(), np.zeros(3, np.float32)
    state = rule.init(params)
    for total in ([1e30, 0.0, 1.0], [1.0, 1e25, -1.0], [1e-30, 1e-30, 0.0]):
        with np.errstate(over="ignore", invalid="ignore"):
            params, state = rule.apply(params, np.array(total, np.float32), 1, state)
        assert np.isfinite(params).all()


def test_keeps_every_contract() -> None:
    check_method(methods.with_server(methods.fedogd(), adaptive()))


def test_the_first_move_must_be_positive() -> None:
    with pytest.raises(InputError, match="`first` must be a finite number > 0, got 0"):
        adaptive(0)
