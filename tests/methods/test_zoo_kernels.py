"""Methods on random features, against plain loops that use none of our pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.methods.broadcast import SERVER
from ofediq.methods.registry import make
from ofediq.randomness import Address, Purpose, uniform
from ofediq.simulation import reference, simulate
from ofediq.streams import Dataset, Stream
from tests.federation.network import Network
from tests.federation.test_core import coordinator, expected
from tests.federation.test_core import stream as live_stream

__all__ = ["live_stream"]  # a fixture

KERNELS, PAIRS, CLIENTS = 3, 4, 6
MODEL = models.random_features(2, kernels=KERNELS, pairs=PAIRS)


def waves(steps: int, clients: int = CLIENTS, frequency: float = 3.0, seed: int = 0) -> Stream:
    """A smooth function of two numbers, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (steps * clients, 2)).astype(np.float32)
    y = 0.5 + 0.4 * np.sin(frequency * x[:, 0]) * np.cos(frequency * x[:, 1])
    y = y + 0.02 * rng.standard_normal(len(x))
    order = np.arange(len(x), dtype=np.int32).reshape(steps, clients)
    return Stream(Dataset("waves", x, y.astype(np.float32), "regression"), order)


@pytest.fixture(scope="module")
def patchy_waves() -> Stream:
    full = waves(14)
    order = full.order.copy()
    order[np.random.default_rng(0).random(order.shape) < 0.3] = -1
    return Stream(full.dataset, order)


def samples(stream: Stream, t: int) -> list[tuple[int, Any, float]]:
    """Client, z [kernels, features] and y of everyone who is there at step t, from 0."""
    found = []
    for k in np.flatnonzero(stream.order[t] >= 0):
        row = stream.order[t, k]
        angles = (stream.x[row].astype(np.float64) @ MODEL.directions).reshape(KERNELS, PAIRS)
        z = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / np.sqrt(PAIRS)
        found.append((int(k), z, float(stream.y[row])))
    return found


def number(address: Address) -> float:
    return float(np.asarray(uniform(address.key(Purpose.KERNEL), np.zeros(1, np.uint32))).reshape(-1)[0])


def pick(chances: Any, draw: float) -> int:
    return int(np.searchsorted(np.cumsum(chances), draw))


def test_em_kofl_follows_its_equations(patchy_waves: Stream) -> None:
    eta, eta_g, seed = 0.3, 2.0, 5
    common = np.zeros((KERNELS, 2 * PAIRS))
    own = np.zeros((CLIENTS, KERNELS, 2 * PAIRS))
    total, now, wanted, losses = np.zeros(KERNELS), 0, 0, []
    for t in range(patchy_waves.steps):
        step, each, sent = 0.0, [], []
        for k, z, y in samples(patchy_waves, t):
            own[k, now] = common[now]
            errors = (own[k] * z).sum(1) - y
            step += errors[now] ** 2
            own[k] -= eta * 2 * errors[:, None] * z
            each.append(errors**2)
            sent.append(own[k, wanted].copy())
        losses.append(step)
        common[wanted] = np.mean(sent, axis=0)
        total += np.mean(each, axis=0)
        chances = np.exp(-eta_g * total) / np.exp(-eta_g * total).sum()
        now, wanted = wanted, pick(chances, number(Address(seed, t + 1, SERVER)))
    text = f"emkofl(kernels={KERNELS}, step_size={eta}, weight_step={eta_g})"
    for run in (simulate, reference):
        result = run(make(text), patchy_waves, MODEL, seed)
        np.testing.assert_allclose(result.loss, losses, rtol=2e-3, atol=1e-6)
        np.testing.assert_allclose(result.params, common.reshape(-1), rtol=1e-3, atol=1e-5)
        np.testing.assert_array_equal(result.bits_wire, 32 * (2 * PAIRS + KERNELS) * result.senders)
        assert (result.bits_downlink == 32 * (2 * PAIRS + 3)).all()


def test_pof_mkl_follows_its_equations(patchy_waves: Stream) -> None:
    eta, rate, zeta, seed = 0.2, 1.5, 0.2, 5
    theta, weights, losses = np.zeros((KERNELS, 2 * PAIRS)), np.ones((CLIENTS, KERNELS)), []
    for t in range(patchy_waves.steps):
        step, move = 0.0, np.zeros_like(theta)
        for k, z, y in samples(patchy_waves, t):
            outputs = (theta * z).sum(1)
            share = weights[k] / weights[k].sum()
            step += (share @ outputs - y) ** 2
            chances = (1 - zeta) * share + zeta / KERNELS
            chosen = pick(chances, number(Address(seed, t + 1, k)))
            move[chosen] += 2 * (outputs[chosen] - y) * z[chosen] / chances[chosen]
            weights[k] *= np.exp(-rate * (outputs - y) ** 2)
        losses.append(step)
        theta = theta - eta / CLIENTS * move
    text = f"pofmkl(kernels={KERNELS}, step_size={eta}, weight_step={rate}, explore={zeta})"
    for run in (simulate, reference):
        result = run(make(text), patchy_waves, MODEL, seed)
        np.testing.assert_allclose(result.loss, losses, rtol=2e-3, atol=1e-6)
        np.testing.assert_allclose(result.params, theta.reshape(-1), rtol=1e-3, atol=1e-5)
        np.testing.assert_array_equal(result.bits_wire, (32 * 2 * PAIRS + 8) * result.senders)


@pytest.mark.parametrize("name", ["emkofl", "pofmkl"])
def test_with_one_kernel_it_is_fedogd_on_random_features(name: str) -> None:
    stream, model = waves(20), models.random_features(2, pairs=5)
    one = simulate(make(f"{name}(kernels=1)", step_size=0.3), stream, model)
    np.testing.assert_allclose(one.loss, simulate(methods.fedogd(0.3), stream, model).loss, rtol=1e-3)


@pytest.mark.parametrize("name", ["emkofl", "pofmkl"])
def test_it_is_near_the_best_single_kernel_in_hindsight(name: str) -> None:
    stream, widths = waves(300, clients=8), (0.05, 0.4, 20.0)

    def loss(text: str, kernels: tuple[float, ...]) -> float:
        model = models.random_features(2, kernels=kernels, pairs=40)
        return float(simulate(make(text, step_size=0.5), stream, model).loss.sum())

    best, second, _ = sorted(loss("fedogd", (width,)) for width in widths)
    assert second > 4 * best  # the right width matters
    assert loss(f"{name}(kernels=3)", widths) - best < 0.1 * (second - best)


LIVE = {
    "emkofl": make("emkofl(kernels=5, rate=0.6)", step_size=0.1),
    "pofmkl": make("pofmkl(kernels=5, rate=0.6)", step_size=0.1),
}


@pytest.mark.parametrize("key", LIVE)
def test_live_equals_the_loop(key: str, live_stream: Stream) -> None:
    server = coordinator(LIVE[key])
    network = Network(server, live_stream)
    network.start()
    network.run()
    wanted = expected(LIVE[key], live_stream)
    np.testing.assert_allclose(server.params, wanted.params, rtol=1e-4, atol=1e-5)
    assert server.monitor.totals()["bits_wire"] == wanted.bits_wire.sum()
