"""Methods of the related work against their originals' equations, as plain loops that use none of our pieces."""

from __future__ import annotations

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.methods.registry import make
from ofediq.simulation import simulate
from ofediq.streams import Dataset, Stream
from tests.methods.test_zoo import MODEL, Vector, ends_at, gradient, patchy, stream, windows

__all__ = ["patchy", "stream"]  # fixtures


def loss(w: Vector, x: Vector, y: float) -> float:
    return float((w @ np.append(x, 1.0) - y) ** 2)


# FedOMD in the original form ---------------------------------------------------------------------------------------


def exponentiated(w: Vector, step: Vector) -> Vector:
    moved = w * np.exp(-step)
    return np.asarray(moved / moved.sum())


@pytest.mark.parametrize(
    ("mirror", "average"), [("euclidean", "primal"), ("simplex", "primal"), ("simplex", "dual")]
)
def test_fedomd_predicts_with_the_moving_model(mirror: str, average: str, patchy: Stream) -> None:
    flat = mirror == "euclidean"
    w: Vector = MODEL.initial(0).astype(np.float64) if flat else np.full(MODEL.dim, 1 / MODEL.dim)
    suffered = 0.0
    for window in windows(patchy, 3):
        local = []
        for samples in filter(None, window):
            y = w.copy()
            for sample in samples:
                suffered += loss(y, *sample)
                step = 0.05 * gradient(y, *sample)
                y = y - step if flat else exponentiated(y, step)
            local.append(y)
        if local and average == "primal":
            w = np.mean(local, axis=0)
        elif local:
            product = np.exp(np.mean(np.log(local), axis=0))
            w = product / product.sum()
    text = f"fedomd_local(period=3, step_size=0.05, mirror={mirror}, average={average})"
    ends_at(text, patchy, w)
    assert simulate(make(text), patchy, MODEL).loss.sum() == pytest.approx(suffered, rel=1e-4)


def test_the_two_means_are_one_without_a_mirror(stream: Stream) -> None:
    one, other = (
        simulate(make(f"fedomd_local(period=4, step_size=0.02, average={average})"), stream, MODEL)
        for average in ("primal", "dual")
    )
    np.testing.assert_allclose(one.params, other.params, rtol=1e-5, atol=1e-6)
    paper = simulate(methods.fedomd(4, 0.02), stream, MODEL)
    np.testing.assert_allclose(one.params, paper.params, rtol=1e-5, atol=1e-6)  # learns the same
    assert one.loss.sum() < paper.loss.sum()  # and predicts with more of it


# VRL-SGD -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("warmup", [False, True])
def test_vrlsgd_follows_its_equations(warmup: bool, patchy: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    delta, begun = np.zeros((patchy.clients, w.size)), np.zeros(patchy.clients, bool)
    for window in windows(patchy, 3):
        local = np.tile(w, (patchy.clients, 1))
        for k, samples in enumerate(window):
            still = warmup and not begun[k]
            for sample in samples:
                local[k] -= 0.02 * (gradient(w if still else local[k], *sample) - delta[k])
            begun[k] |= bool(samples)
        w = local.mean(0)
        delta += (w - local) / (3 * 0.02)
    np.testing.assert_allclose(delta.sum(0), 0, atol=1e-9)
    ends_at(f"vrlsgd(period=3, step_size=0.02, warmup={warmup})", patchy, w)


def test_vrlsgd_with_one_step_is_fedogd(stream: Stream) -> None:
    expected = simulate(methods.fedogd(0.05), stream, MODEL)
    result = simulate(make("vrlsgd(period=1, step_size=0.05)"), stream, MODEL)
    np.testing.assert_allclose(result.loss, expected.loss, rtol=1e-3, atol=1e-5)


def test_corrections_beat_fedavg_where_data_differ() -> None:
    # Two clients with the losses (w - 1)^2 and (3 w)^2: together least at w = 1 / 10. Ten local steps of FedAvg end
    # near the mean of what each of them wants, because both arrive there before they are averaged.
    steps = 1000
    data = Dataset("two", np.array([[1], [3]], np.float32), np.array([1, 0], np.float32), "regression")
    order = np.tile(np.array([[0, 1]], np.int32), (steps, 1))
    both, model = Stream(data, order), models.linear(1, intercept=False)
    ends = {
        name: float(simulate(make(f"{name}(period=10, step_size=0.02)"), both, model).params[0])
        for name in ("fedavg", "scaffold", "vrlsgd")
    }
    assert abs(ends["fedavg"] - 0.1) > 0.05
    assert abs(ends["scaffold"] - 0.1) < 1e-3
    assert abs(ends["vrlsgd"] - 0.1) < 1e-3


# LAQ and LASG ------------------------------------------------------------------------------------------------------


def rounded(innovation: Vector, bits: int) -> Vector:
    """Eq. (5) and (6) of the LAQ paper."""
    largest, tau = np.abs(innovation).max(), 1 / (2**bits - 1)
    q = np.floor((innovation + largest) / (2 * tau * largest) + 0.5)
    return np.asarray(2 * tau * q * largest - largest)


@pytest.mark.parametrize(
    ("name", "bits", "threshold"), [("laq", 3, 0.8), ("laq", 6, 40.0), ("lasg", 4, 0.6), ("lasg", 4, 5.0)]
)
def test_lazy_methods_follow_their_equations(name: str, bits: int, threshold: float, patchy: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    heard, old = np.zeros((patchy.clients, w.size)), np.tile(w, (patchy.clients, 1))
    last, clock = np.zeros(patchy.clients), np.full(patchy.clients, 4)
    moves: list[float] = [0.0] * 10
    senders: list[int] = []
    for (window,) in zip(windows(patchy, 1), strict=True):
        trigger = threshold / 10 / 0.05**2 * sum(moves[-10:])
        spoke = 0
        for k, samples in enumerate(window):
            for sample in samples:
                wanted = gradient(w, *sample) - heard[k]
                sent = rounded(wanted, bits)
                error = float(((wanted - sent) ** 2).sum())
                change, allowed = float((sent**2).sum()), 3 * (error + last[k])
                if name == "lasg":
                    change, allowed = (
                        float(((gradient(w, *sample) - gradient(old[k], *sample)) ** 2).sum()),
                        0.0,
                    )
                if change >= trigger + allowed or clock[k] >= 4:
                    heard[k], last[k], clock[k], old[k] = heard[k] + sent, error, 0, w
                    spoke += 1
                else:
                    clock[k] += 1
        move = 0.05 * heard.mean(0)
        w, moves, senders = w - move, [*moves, float(move @ move)], [*senders, spoke]
    text = f"{name}(bits={bits}, threshold={threshold}, patience=4, step_size=0.05)"
    np.testing.assert_array_equal(simulate(make(text), patchy, MODEL).senders, senders)
    ends_at(text, patchy, w)


@pytest.mark.parametrize("name", ["laq", "lasg"])
def test_lazy_methods_that_always_speak_in_many_bits_are_fedogd(name: str, stream: Stream) -> None:
    expected = simulate(methods.fedogd(0.05), stream, MODEL)
    result = simulate(make(f"{name}(bits=16, threshold=0.0, step_size=0.05)"), stream, MODEL)
    np.testing.assert_allclose(result.loss, expected.loss, rtol=2e-3, atol=1e-4)


def test_lasg_skips_where_laq_does_not() -> None:
    noisy = streams.synthetic(
        task="regression", clients=20, steps=100, features=8, noise=0.5, heterogeneity=0.5, seed=1
    )
    model = models.linear(8)
    runs = {name: simulate(make(f"{name}(bits=8, step_size=0.01)"), noisy, model) for name in ("laq", "lasg")}
    runs["fedogd"] = simulate(methods.fedogd(0.01), noisy, model)
    share = {name: run.senders.mean() / 20 for name, run in runs.items()}
    assert share["laq"] > 0.9
    assert share["lasg"] < 0.5
    assert runs["lasg"].loss.mean() < 1.2 * runs["fedogd"].loss.mean()
