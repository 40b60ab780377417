"""Named methods against their own equations, as plain loops that use none of our pieces, and their reductions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from ofediq import methods, models, streams
from ofediq.methods.registry import make
from ofediq.simulation import simulate
from ofediq.streams import Dataset, Stream

Vector = npt.NDArray[np.float64]
FEATURES, CLIENTS, STEPS = 3, 5, 12
MODEL = models.linear(FEATURES)


@pytest.fixture(scope="module")
def stream() -> Stream:
    return streams.synthetic(
        task="regression",
        clients=CLIENTS,
        steps=STEPS,
        features=FEATURES,
        noise=0.1,
        heterogeneity=1.0,
        seed=3,
    )


@pytest.fixture(scope="module")
def patchy(stream: Stream) -> Stream:
    order = stream.order.copy()
    order[np.random.default_rng(0).random(order.shape) < 0.4] = -1
    return Stream(stream.dataset, order)


def gradient(w: Vector, x: Vector, y: float) -> Vector:
    """Of (w x + b - y)^2."""
    inputs = np.append(x, 1.0)
    return np.asarray(2 * (w @ inputs - y) * inputs, np.float64)


def windows(stream: Stream, period: int) -> list[list[list[tuple[Vector, float]]]]:
    """The samples of each client in each whole window."""
    cut = []
    for first in range(0, stream.steps - period + 1, period):
        rows = [
            [
                (stream.x[stream.order[t, k]].astype(np.float64), float(stream.y[stream.order[t, k]]))
                for t in range(first, first + period)
                if stream.order[t, k] >= 0
            ]
            for k in range(stream.clients)
        ]
        cut.append(rows)
    return cut


def ends_at(text: str, stream: Stream, expected: Vector) -> None:
    result = simulate(make(text), stream, MODEL)
    np.testing.assert_allclose(result.params, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["full", "patchy"])
def test_fedavg_is_the_mean_of_local_models(kind: str, stream: Stream, patchy: Stream) -> None:
    data = stream if kind == "full" else patchy
    w: Vector = MODEL.initial(0).astype(np.float64)
    for window in windows(data, 3):
        local = []
        for samples in filter(None, window):
            y = w.copy()
            for sample in samples:
                y -= 0.02 * gradient(y, *sample)
            local.append(y)
        w = np.mean(local, axis=0) if local else w
    ends_at("fedavg(period=3, step_size=0.02)", data, w)


def test_fedprox_is_pulled_back(patchy: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    for window in windows(patchy, 4):
        local = []
        for samples in filter(None, window):
            y = w.copy()
            for sample in samples:
                y -= 0.02 * (gradient(y, *sample) + 0.7 * (y - w))
            local.append(y)
        w = np.mean(local, axis=0) if local else w
    ends_at("fedprox(period=4, step_size=0.02, pull=0.7)", patchy, w)


def test_fednova_normalises(patchy: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    for window in windows(patchy, 4):
        means, counts = [], []
        for samples in filter(None, window):
            y = w.copy()
            for sample in samples:
                y -= 0.02 * gradient(y, *sample)
            means.append((w - y) / (0.02 * len(samples)))
            counts.append(len(samples))
        if means:
            w = w - 0.02 * np.mean(counts) * np.mean(means, axis=0)
    ends_at("fednova(period=4, step_size=0.02)", patchy, w)


def test_scaffold_follows_its_equations(patchy: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    c, own = np.zeros_like(w), np.zeros((CLIENTS, w.size))
    for window in windows(patchy, 3):
        sent = {}
        for k, samples in enumerate(window):
            y = w.copy()
            for sample in samples:
                y -= 0.02 * (gradient(y, *sample) - own[k] + c)
            if samples:
                sent[k] = (w - y) / 0.02
        if sent:
            w = w - 0.02 * np.mean(list(sent.values()), axis=0)
        change = {k: u / 3 - c for k, u in sent.items()}
        for k, moved in change.items():
            own[k] += moved
        c = c + sum(change.values()) / CLIENTS
    np.testing.assert_allclose(c, own.mean(0))  # c stays the mean of all c_k
    ends_at("scaffold(period=3, step_size=0.02)", patchy, w)


def test_top_k_with_error_feedback_follows_its_equations(stream: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    errors = np.zeros((CLIENTS, w.size))
    for (window,) in zip(windows(stream, 1), strict=True):
        total = np.zeros_like(w)
        for k, ((x, y),) in enumerate(window):
            wanted = errors[k] + gradient(w, x, y)
            kept = np.zeros_like(w)
            largest = np.argsort(-np.abs(wanted), kind="stable")[:2]
            kept[largest] = wanted[largest]
            errors[k] = wanted - kept
            total += kept
        w = w - 0.02 / CLIENTS * total
    ends_at("topk_ef(keep=2, step_size=0.02)", stream, w)


@pytest.mark.parametrize(
    "text",
    [
        "fedsgd(step_size=0.05)",
        "fedavg(period=1, step_size=0.05)",
        "fedavg(period=1, step_size=0.05, divide=all)",
        "fedprox(period=1, step_size=0.05, pull=0.9)",
        "fednova(period=1, step_size=0.05)",
        "scaffold(period=1, step_size=0.05)",
        "topk_ef(keep=4, step_size=0.05)",
    ],
)
def test_with_one_step_and_everyone_it_is_fedogd(text: str, stream: Stream) -> None:
    expected = simulate(methods.fedogd(0.05), stream, MODEL)
    result = simulate(make(text), stream, MODEL)
    np.testing.assert_allclose(result.loss, expected.loss, rtol=1e-3, atol=1e-5)


def test_fednova_with_equal_windows_is_fedavg(stream: Stream) -> None:
    one, other = (
        simulate(make(f"{name}(period=4, step_size=0.02)"), stream, MODEL) for name in ("fednova", "fedavg")
    )
    np.testing.assert_allclose(one.params, other.params, rtol=1e-4, atol=1e-6)


def test_fedpaq_is_ofediq_with_one_block_and_fixed_sampling(stream: Stream) -> None:
    paq = make("fedpaq(period=2, rate=0.6, levels=5, step_size=0.02)")
    same = replace(methods.ofediq(0.6, 5, 1, period=2, step_size=0.02), participation=methods.fixed_size(0.6))
    one, other = simulate(paq, stream, MODEL), simulate(same, stream, MODEL)
    np.testing.assert_array_equal(one.senders, other.senders)
    # One divides before it quantises, the other after: the same draws, the same message up to its scale.
    np.testing.assert_allclose(one.params, other.params, rtol=1e-3, atol=1e-5)


def test_fedpaq_sends_quantised_moves_of_a_drawn_few() -> None:
    # All clients see the same two samples, so that all have the same move u after a window of two steps. One message
    # has every coordinate at a neighbour of its size on the grid norm / s; the mean of many comes to u.
    rng = np.random.default_rng(3)
    data = Dataset(
        "same", rng.random((2, 3)).astype(np.float32), rng.random(2).astype(np.float32), "regression"
    )
    start, levels, eta = MODEL.initial(0).astype(np.float64), 4, 0.05
    local = start.copy()
    for x, target in zip(data.x, data.y, strict=True):
        local -= eta * gradient(local, x, float(target))
    moved, clients = start - local, 2000
    order = np.tile(np.array([[0], [1]], np.int32), (1, clients))
    text = f"fedpaq(period=2, rate={{}}, levels={levels}, step_size={eta})"
    alone = simulate(make(text.format(1.0)), Stream(data, order[:, :1]), MODEL)
    points = (start - alone.params) * levels / np.linalg.norm(moved)
    exact = moved * levels / np.linalg.norm(moved)
    np.testing.assert_allclose(points, np.round(points), atol=1e-3)
    assert (np.abs(points - exact) < 1 + 1e-3).all()
    many = simulate(make(text.format(0.333)), Stream(data, order), MODEL)
    assert many.senders.tolist() == [0, 666]  # r = floor(p K), without replacement
    noise = np.linalg.norm(moved) / levels / 2 / np.sqrt(666)
    assert (np.abs(start - many.params - moved) < 5 * noise + 1e-6).all()


def test_fednova_is_right_where_fedavg_leans_to_the_busy() -> None:
    # Two clients that want 0 and 1; the second has a sample at every step, the first at every fourth. The mean of
    # what both want is 1/2: FedAvg ends nearer to 1, FedNova in the middle.
    steps = 1600
    data = Dataset("two", np.ones((2, 1), np.float32), np.array([0, 1], np.float32), "regression")
    order = np.tile(np.array([[-1, 1]], np.int32), (steps, 1))
    order[::4, 0] = 0
    stream, model = Stream(data, order), models.linear(1, intercept=False)
    nova, average = (
        float(simulate(make(f"{name}(period=4, step_size=0.02)"), stream, model).params[0])
        for name in ("fednova", "fedavg")
    )
    assert abs(nova - 0.5) < 0.03
    assert average > 0.7


def largest(wanted: Vector, keep: int) -> Vector:
    """All but the `keep` largest coordinates set to zero."""
    kept = np.zeros_like(wanted)
    places = np.argsort(-np.abs(wanted), kind="stable")[:keep]
    kept[places] = wanted[places]
    return kept


def test_ef21_sgdm_follows_its_equations(stream: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    momentum, known = np.zeros((CLIENTS, w.size)), np.zeros((CLIENTS, w.size))
    for window in windows(stream, 1):
        for k, ((x, y),) in enumerate(window):
            momentum[k] = 0.7 * momentum[k] + 0.3 * gradient(w, x, y)
            known[k] += largest(momentum[k] - known[k], 2)
        w = w - 0.02 * known.mean(0)
    ends_at("ef21_sgdm(keep=2, momentum=0.3, step_size=0.02)", stream, w)


def test_cafe_follows_its_equations(stream: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    aggregate = np.zeros_like(w)
    for window in windows(stream, 1):
        sent = [largest(gradient(w, x, y) - aggregate, 2) for ((x, y),) in window]
        aggregate = aggregate + np.mean(sent, axis=0)
        w = w - 0.02 * aggregate
    ends_at("cafe(keep=2, step_size=0.02)", stream, w)


def test_a_majority_decides_each_sign(stream: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    for window in windows(stream, 1):
        w = w - 0.02 * np.sign(sum(np.sign(gradient(w, x, y)) for ((x, y),) in window))
    ends_at("majority_vote(step_size=0.02)", stream, w)


def test_diana_is_unbiased_and_exact_where_its_quantiser_is(stream: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    for window in windows(stream, 1):  # with exact messages the shifts cancel: FedOGD
        w = w - 0.02 * np.mean([gradient(w, x, y) for ((x, y),) in window], axis=0)
    exact = replace(make("diana(step_size=0.02, pace=0.3)"), compress=methods.identity())
    np.testing.assert_allclose(simulate(exact, stream, MODEL).params, w, rtol=2e-4, atol=2e-5)
    means = np.mean(
        [simulate(make("diana(step_size=0.002, pace=0.3)"), stream, MODEL, n).params for n in range(20)],
        axis=0,
    )
    plain = simulate(make("fedogd(step_size=0.002)"), stream, MODEL).params
    assert np.abs(means - plain).max() < 0.05
