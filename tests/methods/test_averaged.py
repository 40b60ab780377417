"""The server rule that averages: its equations, and what it is for."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from ofediq import methods
from ofediq.errors import InputError
from ofediq.methods import Averaged, averaged, server_rule, with_server
from ofediq.methods.server.rule import Adam
from ofediq.testing import check_method


def _gradients(count: int, dim: int = 7) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((count, dim)).astype(np.float32)


def test_steps_and_their_average() -> None:
    rule, clients, eta = averaged(0.02), 4, 0.02
    y = np.full(7, 0.5, np.float32)
    state = rule.begin(y, clients, 1)
    z, x, squares, a, n = y.astype(float), y.astype(float), [], 0.0, 0.0
    first, costs, steps_back = y.astype(float), [], 0
    for number, total in enumerate(_gradients(130), 1):
        way = y - first
        y, state = rule.apply(y, total, clients, state)
        g = total.astype(float) / clients
        squares.append(g * g)
        ages = 0.999 ** np.arange(number)[::-1]
        root = np.sqrt((ages[:, None] * np.array(squares)).sum(0) / ages.sum()) + 1e-8
        u = g / root
        sizes = float(np.linalg.norm(u) * np.linalg.norm(z - x))
        c = float(-u @ (z - x)) / sizes if sizes > 0 else 0.0
        u /= max(1.0, float(np.linalg.norm(u)) / np.sqrt(7)) ** np.clip(-5 * c, 0, 1)
        a = 0.9 * a + 0.1 * c
        n = 1 + n * np.exp(-max(a, 0))
        reach = min(1 + 3 * (number - 1) / 5, 4)
        z = z - eta * reach * np.sqrt(20 / (20 + n)) * u
        x = x + (z - x) / n
        costs.append(float(g @ way) / root.max())
        fading = 0.9 ** np.arange(number)[::-1]
        energy = float(np.sum((fading * costs) ** 2))
        doubt = np.clip(float(fading @ costs) / np.sqrt(energy) - 0.5, 0, 1) if energy > 0 else 0.0
        stays, steps_back = 1 - 0.3 * (20 / (20 + n)) ** 2 * doubt / clients, steps_back + (doubt > 0)
        z, x = first + stays * (z - first), first + stays * (x - first)
        np.testing.assert_allclose(y, 0.1 * z + 0.9 * x, rtol=1e-3, atol=1e-4)
    assert 0 < steps_back < 130


def test_a_large_gradient_that_points_back_leads_no_farther_than_a_usual_one() -> None:
    rule, clients = averaged(0.01), 3
    state, y = rule.init(np.zeros(7, np.float32)), np.zeros(7, np.float32)
    for total in _gradients(40):
        y, state = rule.apply(y, total, clients, state)
    far = rule.apply(y, -1e9 * state.apart, clients, state)[0]  # downhill is ahead
    back = rule.apply(y, 1e9 * state.apart, clients, state)[0]
    still = rule.apply(y, np.zeros(7, np.float32), clients, state)[0]
    step = 0.01 * 4 * np.sqrt(20 / (20 + float(state.memory)))
    assert np.linalg.norm(back - still) <= step * np.sqrt(7) < np.linalg.norm(far - still) * 10
    assert np.linalg.norm(far - still) > 3 * np.linalg.norm(back - still)


def test_the_same_in_jax() -> None:
    rule, y = averaged(0.1), np.zeros(7, np.float32)
    here, there = (y, rule.init(y)), (jax.numpy.asarray(y), rule.init(jax.numpy.asarray(y)))
    fast = jax.jit(lambda params, total, state: rule.apply(params, total, 3, state))
    for total in _gradients(60):
        here, there = rule.apply(here[0], total, 3, here[1]), fast(there[0], total, there[1])
    np.testing.assert_allclose(here[0], there[0], rtol=1e-4, atol=1e-5)


def test_a_model_that_was_moved_meanwhile_goes_on_from_there() -> None:
    """A broadcast that is rounded moves the model: z and x move with it."""
    rule, y = averaged(0.1), np.zeros(7, np.float32)
    state = rule.init(y)
    for total in _gradients(5):
        y, state = rule.apply(y, total, 1, state)
    total = _gradients(6)[-1]
    also = state._replace(start=state.start + 1)  # or the way from the first model would be another one
    stays, shifted = rule.apply(y, total, 1, state)[0], rule.apply(y + 1, total, 1, also)[0]
    np.testing.assert_allclose(shifted, stays + 1, atol=1e-5)


def test_noise_moves_it_less_than_adam_and_change_is_followed() -> None:
    """A noisy valley whose floor jumps: nearer to it than Adam before the jump, and again some time after it."""
    goals = np.repeat([1.0, -1.0], 400)
    noise = np.random.default_rng(0).standard_normal((800, 50))
    away = {}
    rules: tuple[Any, ...] = (methods.adam(0.05), averaged(0.05))
    for rule in rules:
        w = np.zeros(50, np.float32)
        state, path = rule.init(w), []
        for goal, shock in zip(goals, noise, strict=True):
            path.append(float(np.mean((w - goal) ** 2)))
            w, state = rule.apply(w, (w - goal + shock).astype(np.float32), 1, state)
        away[type(rule)] = np.mean(path[200:400]), np.mean(path[700:])
    adams, ours = away[Adam], away[Averaged]
    assert ours[0] < 0.7 * adams[0]
    assert ours[1] < 0.7 * adams[1]


def test_one_client_whose_world_turns_is_better_than_no_model() -> None:
    """Eighty gradients of single samples, in ever longer gaps: what was learnt is soon wrong."""
    squares: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        begin, end = rng.standard_normal((2, 20)) / np.sqrt(20)
        for learns in squares:
            rng = np.random.default_rng(100 + seed)
            rule, w = averaged(0.01), np.zeros(20, np.float32)
            state = rule.init(w)
            for angle in np.linspace(0, np.pi, 80) ** 2 / np.pi:
                goal = np.cos(angle) * begin + np.sin(angle) * end
                squares[learns].append(float(np.sum((w - goal) ** 2)))
                x = rng.standard_normal(20)
                gradient = 2 * (x @ (w - goal) + 0.3 * rng.standard_normal()) * x
                if learns:
                    w, state = rule.apply(w, gradient.astype(np.float32), 1, state)
    assert np.mean(squares[True]) < 0.95 * np.mean(squares[False])


def test_it_is_a_server_like_the_others() -> None:
    assert server_rule("averaged", 0.05) == averaged(0.05)
    steered = with_server(methods.ofedgrid(bits_per_step=1e4, steps=300, preset="authors"), averaged(0.01))
    names = ["server: no hidden state", "server: NumPy = JAX", "server: zeros and extremes"]
    assert check_method(steered, contracts=names).ok


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("pull", 1.0, r"`pull` must lie in \[0, 1\), got 1"),
        ("reach", 0.5, r"`reach` must be a finite number >= 1, got 0.5"),
        ("square_decay", 1.0, r"`square_decay` must lie in \(0, 1\), got 1"),
        ("step_size", 0.0, r"`step_size` must"),
    ],
)
def test_numbers_out_of_range(name: str, value: float, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Averaged(**{"step_size": 0.1, name: value})
