"""A swarm that takes samples as they come is the simulator that knows the stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.methods import Adaptive
from ofediq.methods.registry import make
from ofediq.simulation import simulate
from ofediq.swarm import ScaledSwarm, Swarm

CLIENTS, STEPS = 6, 24
NAMES = [
    "fedogd",
    "ofediq(rate=0.5, levels=3, blocks=2)",
    "ofedgrid(bits_per_step=200, steps=24)",
    "topk_ef(keep=2, rate=0.5)",
    "scaffold(period=4)",
    "fedpoe(fedavg(period=3))",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_models_and_bits_as_the_simulator(name: str) -> None:
    stream = streams.synthetic(task="regression", clients=CLIENTS, steps=STEPS, features=4, seed=3)
    model, method = models.linear(4), make(name, step_size=0.05)
    wanted = simulate(method, stream, model, seed=5)
    swarm = Swarm(method, model, CLIENTS, seed=5)
    for t in range(STEPS):
        x, y, present = stream.step(t)
        for client in np.flatnonzero(present):
            swarm.learn(int(client), x[client], y[client])
    np.testing.assert_allclose(swarm.params, wanted.params, rtol=1e-4, atol=1e-6)
    assert swarm.bits_wire == wanted.bits_wire.sum()
    assert swarm.bits_downlink == wanted.bits_downlink.sum()


def test_who_comes_twice_ends_the_step() -> None:
    swarm = Swarm(make("fedogd", step_size=0.1), models.linear(1), 3)
    swarm.learn(0, [1.0], 1.0)
    swarm.learn(0, [1.0], 1.0)
    assert swarm.step == 1
    assert swarm.bits_wire == 64  # one sender, two numbers


def test_estimators_of_numbers_begin_as_runs_on_files_do() -> None:
    """Few readings may move a prediction as far as many."""

    def first(features: int, classes: int | None) -> Any:
        server = ScaledSwarm("fedogd", features, classes, 1, 1.0, 0).swarm.method.server
        assert isinstance(server, Adaptive)
        return server.first

    assert first(4, None) == pytest.approx(20 * first(80, None))
    assert first(4, 3) == first(80, 3)


@pytest.mark.parametrize("name", ["qsgd", "diana", "intsgd", "uveqfed", "ofedgrid"])
def test_readings_that_explode_end_nothing(name: str) -> None:
    x = np.exp(np.linspace(0, 40, 60))[:, None, None].astype(np.float32) * np.ones((1, 4, 3), np.float32)
    swarm = Swarm(methods.at_budget(name, 0.5, 4, 4, steps=60), models.linear(features=3), 4)
    for step in range(60):
        swarm.take(x[step], x[step, :, 0], np.ones(4, bool))
    assert swarm.step == 60
