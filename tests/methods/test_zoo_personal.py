"""Methods whose clients predict with something of their own, against plain loops that use none of our pieces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.federation.protocol.learner import Learner
from ofediq.methods.registry import make
from ofediq.methods.zoo.fedpoe import Mixed
from ofediq.simulation import reference, simulate
from ofediq.streams import Dataset, Stream
from tests.federation.network import Network
from tests.federation.test_core import CLIENTS as LIVE_CLIENTS
from tests.federation.test_core import coordinator, expected
from tests.federation.test_core import stream as live_stream
from tests.methods.test_zoo import CLIENTS, MODEL, Vector, gradient, patchy, stream

__all__ = ["live_stream", "patchy", "stream"]  # fixtures


def samples(stream: Stream, t: int) -> list[tuple[int, Vector, float]]:
    """Client, x and y of everyone who is there at step t, from 0."""
    rows = stream.order[t]
    return [
        (int(k), stream.x[rows[k]].astype(np.float64), float(stream.y[rows[k]]))
        for k in np.flatnonzero(rows >= 0)
    ]


def predict(w: Vector, x: Vector) -> float:
    return float(w @ np.append(x, 1.0))


def same_losses(result: Any, losses: list[float]) -> None:
    np.testing.assert_allclose(result.loss, losses, rtol=2e-3, atol=1e-5)


def test_fed_poe_follows_its_equations(patchy: Stream) -> None:
    eta, rate, period = 0.02, 1 / math.sqrt(patchy.steps), 3
    w: Vector = MODEL.initial(0).astype(np.float64)
    local = np.tile(w, (CLIENTS, 1))  # inside FedAvg's window
    own, a, b = local.copy(), np.ones(CLIENTS), np.ones(CLIENTS)
    losses, there = [], set[int]()
    for t in range(patchy.steps):
        total = 0.0
        for k, x, y in samples(patchy, t):
            f, g = predict(w, x), predict(own[k], x)
            total += ((a[k] * f + b[k] * g) / (a[k] + b[k]) - y) ** 2
            a[k] *= math.exp(-rate * (f - y) ** 2)
            b[k] *= math.exp(-rate * (g - y) ** 2)
            own[k] -= eta * gradient(own[k], x, y)
            local[k] -= eta * gradient(local[k], x, y)
            there.add(k)
        losses.append(total)
        if (t + 1) % period == 0:
            w = local[sorted(there)].mean(0) if there else w
            local, there = np.tile(w, (CLIENTS, 1)), set()
    text = f"fedpoe(fedavg(period=3, step_size={eta}), step_size={eta}, steps={patchy.steps})"
    result = simulate(make(text), patchy, MODEL)
    same_losses(result, losses)
    same_losses(reference(make(text), patchy, MODEL), losses)
    alone = simulate(make(f"fedavg(period=3, step_size={eta})"), patchy, MODEL)
    np.testing.assert_allclose(result.params, alone.params, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result.bits_wire, alone.bits_wire)  # it costs nothing
    np.testing.assert_array_equal(result.bits_downlink, alone.bits_downlink)


def hedge(heterogeneity: float, scale: float, seed: int) -> Stream:
    """Linear targets that differ from client to client as much as `heterogeneity` says, times `scale`."""
    made = streams.synthetic(
        task="regression",
        clients=8,
        steps=150,
        features=4,
        noise=0.2,
        heterogeneity=heterogeneity,
        seed=seed,
    )
    data = made.dataset
    return Stream(Dataset("scaled", data.x, (data.y * scale).astype(np.float32), "regression"), made.order)


@pytest.mark.parametrize("heterogeneity", [0.0, 0.5, 3.0])
def test_mixing_is_never_much_worse_than_the_better_of_the_two(heterogeneity: float) -> None:
    model, eta = models.linear(4), 0.05
    for scale in (1.0, 1e-3):
        data = hedge(heterogeneity, scale, 1)
        common, own = (
            float(simulate(make(name, step_size=eta), data, model).loss.sum()) for name in ("fedogd", "local")
        )
        for mixing in ("adaptive", "root"):
            text = f"fedpoe(fedogd, mixing={mixing}, steps={data.steps})"
            mixed = float(simulate(make(text, step_size=eta), data, model).loss.sum())
            if mixing == "adaptive":  # whatever the scale
                assert mixed <= 1.2 * min(common, own)
            else:  # the theorem, for losses that are convex in the outputs
                largest = float(simulate(make("local", step_size=eta), data, model).loss.max())
                root = math.sqrt(data.steps)
                assert mixed <= min(common, own) + data.clients * (math.log(2) + largest**2 / 8) * root
                assert mixed <= (common + own) / 2 * 1.001 + 1e-6 or mixed <= 1.2 * min(common, own)


@pytest.mark.parametrize("mixing", ["root", "adaptive"])
def test_an_own_model_that_diverges_does_no_harm(mixing: str) -> None:
    data, model = hedge(0.0, 1.0, 2), models.linear(4)
    text = f"fedpoe(fedogd(step_size=0.05), step_size=1e6, steps=150, mixing={mixing})"
    result = simulate(make(text), data, model)
    alone = simulate(methods.fedogd(0.05), data, model)
    assert not result.diverged
    assert result.loss[10:].sum() <= 1.001 * alone.loss[10:].sum()  # it is gone after a few steps


@pytest.mark.parametrize("mixing", ["root", "adaptive"])
def test_weights_are_those_of_the_equations(mixing: Any) -> None:
    rule = Mixed(methods.hold(), 0.1, None, mixing)
    gap = np.array([-1e30, -3.0, 0.0, 2.0, 1e30], np.float32)
    for spent in (0.0, 1e-3, 5.0, 1e6):
        common, own = rule._weights(gap, np.full(5, spent, np.float32))
        rate = 1 / math.sqrt(1 + spent) if mixing == "root" else math.log(2) / max(spent, 1e-18)
        with np.errstate(over="ignore"):
            wanted = 1 / (1 + np.exp(-rate * gap.astype(np.float64)))
        np.testing.assert_allclose(common, wanted, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(common + own, 1, rtol=1e-6)


LIVE = {
    "psofed": make("psofed(keep=40, rate=0.5)", step_size=0.1),
    "psofed, shifted": make("psofed(keep=40, rate=0.5, masks=shifted)", step_size=0.1),
    "fedpoe of ofedgrid": make("fedpoe(ofedgrid(bits_per_step=12480, steps=24))", step_size=0.1),
    "fedpoe of ofediq": make("fedpoe(ofediq(rate=0.4, levels=3, blocks=14), steps=24)", step_size=0.1),
    "fedpoe of scaffold": make("fedpoe(scaffold(period=4, rate=0.7), mixing=adaptive)", step_size=0.05),
}


@pytest.mark.parametrize("key", LIVE)
def test_live_equals_the_loop(key: str, live_stream: Stream) -> None:
    server = coordinator(LIVE[key])
    network = Network(server, live_stream)
    network.start()
    network.run()
    wanted = expected(LIVE[key], live_stream)
    np.testing.assert_allclose(server.params, wanted.params, rtol=1e-5, atol=1e-6)
    for learner in network.learners.values():
        for one in learner.farewell():
            server.receive(one.topic, one.payload, network.now)
    totals = server.monitor.totals()
    assert totals["bits_wire"] == wanted.bits_wire.sum()
    # The server believes a report as far as it is usual: the page's sum may differ by a little.
    assert totals["error"] * LIVE_CLIENTS * live_stream.steps == pytest.approx(wanted.error.sum(), rel=0.01)


def test_a_live_client_answers_with_its_mixture(live_stream: Stream) -> None:
    network = Network(coordinator(LIVE["fedpoe of ofediq"]), live_stream)
    network.start()
    network.run()
    learner: Learner = network.learners["c3"]
    memory, model = learner.memory, models.softmax(64, 10)
    common = float(1 / (1 + np.exp(-memory["gap"][0] / math.sqrt(live_stream.steps))))
    x = live_stream.dataset.x[:50]
    scores = (
        common * model.forward(learner.params, x)[0] + (1 - common) * model.forward(memory["own"][0], x)[0]
    )
    assert [learner.predict(one) for one in x] == scores.argmax(-1).tolist()


@pytest.mark.parametrize("masks", ["coordinated", "shifted"])
def test_pso_fed_follows_its_equations(masks: str, patchy: Stream) -> None:
    eta, keep, rate = 0.02, 3, 0.6
    text = f"psofed(keep={keep}, rate={rate}, step_size={eta}, masks={masks})"
    dim, turns = 4, 2  # pieces 0, 1, 2 and 3, 0, 1

    def mask(turn: int) -> Vector:
        return np.isin(np.arange(dim), (turn % turns * keep + np.arange(keep)) % dim).astype(np.float64)

    w = np.zeros(dim)
    own, losses = np.zeros((CLIENTS, dim)), []
    for t in range(1, patchy.steps + 1):
        drawn = np.asarray(methods.bernoulli(rate).active(7, t, np.arange(CLIENTS), CLIENTS))
        total, sent = 0.0, []
        for k, x, y in samples(patchy, t - 1):
            ahead = k if masks == "shifted" else 0
            share = mask(t + ahead) * drawn[k]
            v = share * w + (1 - share) * own[k]
            total += (predict(v, x) - y) ** 2
            own[k] = v - eta * gradient(v, x, y)
            if drawn[k]:
                then = mask(t + 1 + ahead)
                sent.append(then * own[k] + (1 - then) * w)
        losses.append(total)
        w = np.mean(sent, axis=0) if sent else w
    for run in (simulate, reference):
        result = run(make(text), patchy, MODEL, 7)
        same_losses(result, losses)
        np.testing.assert_allclose(result.params, w, rtol=2e-4, atol=2e-5)
        np.testing.assert_array_equal(result.bits_wire, 32 * keep * result.senders)
        assert (result.bits_downlink == 32 * (keep if masks == "coordinated" else dim)).all()


@pytest.mark.parametrize("masks", ["coordinated", "shifted"])
def test_pso_fed_of_everything_by_everyone_is_fedogd(masks: str, stream: Stream) -> None:
    result = simulate(make(f"psofed(keep=4, masks={masks}, step_size=0.05)"), stream, MODEL)
    expected = simulate(methods.fedogd(0.05), stream, MODEL)
    np.testing.assert_allclose(result.loss, expected.loss, rtol=1e-4, atol=1e-6)


def test_pso_fed_spends_its_budget() -> None:
    terms = methods.Terms(budget=0.001, dim=200, clients=10)
    few = methods.make("psofed", terms)  # less than a number per client and step
    assert (few.compress.keep, few.participation.rate) == (1, pytest.approx(0.2))  # type: ignore[attr-defined]  # InTurn
    assert methods.make("psofed(keep=50)", terms).participation.rate == pytest.approx(0.004)  # type: ignore[attr-defined]  # Bernoulli
