"""Methods of the related work against their originals' equations, as plain loops that use none of our pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.codec import Lattice, Rotated
from ofediq.codec.kit import rotate_rows, rotate_rows_back
from ofediq.codec.schemes.codebook import codewords
from ofediq.methods.client import Down, Window
from ofediq.methods.registry import make
from ofediq.methods.zoo.fedvqcs import projection
from ofediq.randomness import Address, Key, Purpose, uniform, words
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


def test_fednova_is_right_where_fedavg_leans_towards_busy_clients() -> None:
    # One client wants 1 and sees a sample in every step, the other wants -1 and sees one per window of four: together
    # they want 0, and FedAvg ends near (4 - 1) / (4 + 1).
    data = Dataset("two", np.ones((2, 1), np.float32), np.array([1, -1], np.float32), "regression")
    order = np.tile(np.array([[0, 1], [0, -1], [0, -1], [0, -1]], np.int32), (500, 1))
    unequal, model = Stream(data, order), models.linear(1, intercept=False)
    ends = {
        name: float(simulate(make(f"{name}(period=4, step_size=0.005)"), unequal, model).params[0])
        for name in ("fedavg", "fednova")
    }
    assert ends["fedavg"] == pytest.approx(0.6, abs=0.02)
    assert ends["fednova"] == pytest.approx(0.0, abs=0.02)


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


# QSGD and UVeQFed --------------------------------------------------------------------------------------------------


def received(text: str, update: Vector, messages: int = 1) -> tuple[Vector, Vector]:
    """What the server decodes from many clients with the same update, and the bits of each."""
    rows = np.tile(update.astype(np.float32), (messages, 1))
    sent, bits = make(text).compress.apply(rows, Address(5, 1, np.arange(messages)))
    return np.asarray(sent, np.float64), np.asarray(bits, np.float64)


@pytest.mark.parametrize("norm", ["max", "euclidean"])
def test_qsgd_rounds_each_bucket_to_its_levels(norm: str) -> None:
    # 7 coordinates in buckets of at most 3: sizes 3, 2, 2. Each value is a multiple of norm / s next to the update,
    # and the upper neighbour comes as often as the fraction says.
    update = np.array([0.3, -1.0, 0.5, 2.0, -0.1, 0.0, 0.0])
    sent, _ = received(f"qsgd(levels=4, bucket=3, norm={norm})", update, 20_000)
    for first, last in ((0, 3), (3, 5), (5, 7)):
        part = update[first:last]
        size = np.abs(part).max() if norm == "max" else np.linalg.norm(part)
        scaled = np.abs(part) * 4 / max(size, 1e-30)
        steps = np.abs(sent[:, first:last]) * 4 / max(size, 1e-30)
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-4)
        assert (np.abs(steps - scaled) < 1 + 1e-4).all()
        np.testing.assert_allclose(steps.mean(0), scaled, atol=5 * 0.5 / np.sqrt(20_000))
        assert (np.sign(sent[:, first:last]) * np.sign(part) >= 0).all()


def test_qsgd_with_one_euclidean_bucket_is_the_papers_quantiser(stream: Stream) -> None:
    text = "qsgd(levels=5, bucket=1000, norm=euclidean, coding=packed, rate=0.6, step_size=0.05)"
    one, other = (
        simulate(make(text), stream, MODEL),
        simulate(methods.ofediq(0.6, 5, 1, 1, 0.05), stream, MODEL),
    )
    np.testing.assert_array_equal(one.params, other.params)
    np.testing.assert_array_equal(one.bits_wire, other.bits_wire)


def cell_distance(points: Vector) -> Vector:
    """Squared distance of [n, 2] points to the hexagonal lattice: the least over all points around."""
    near = [[i + 0.5 * (j % 2), j * np.sqrt(0.75)] for i in range(-4, 5) for j in range(-4, 5)]
    shifted = points - np.floor(points[:, :1]) * [1, 0]  # by whole steps along a row, near the middle
    return np.asarray(((shifted[:, None] - np.array(near)) ** 2).sum(-1).min(1))


@pytest.mark.parametrize("lattice", ["scalar", "hexagonal"])
def test_uveqfed_goes_to_the_nearest_point_after_the_dither(lattice: str) -> None:
    update = np.random.default_rng(2).standard_normal(4)
    sent, _ = received(f"uveqfed(bits=2, lattice={lattice})", update, 3000)
    step = np.linalg.norm(update) / make(f"uveqfed(lattice={lattice})").compress.points_in_norm(4)  # type: ignore[attr-defined]  # a lattice
    draws = uniform(
        Key(*(part[:, None] for part in Address(5, 1, np.arange(3000)).key(Purpose.ROUND))), np.arange(4)
    )
    height = np.array([1, np.sqrt(0.75)] * 2) if lattice == "hexagonal" else np.ones(4)
    dither = (draws - 0.5) * height
    points = (
        sent / step + dither
    )  # what the server decodes, with the dither put back, is a point of the lattice ...
    errors = (sent - update) / step
    if lattice == "scalar":
        np.testing.assert_allclose(points, np.round(points), atol=1e-4)
        assert np.abs(errors).max() <= 0.5 + 1e-4
    else:
        for pair in (slice(0, 2), slice(2, 4)):
            np.testing.assert_allclose(cell_distance(points[:, pair]), 0, atol=1e-6)
            # ... and none is nearer: the error is as long as the distance of update + dither to the lattice
            wanted = cell_distance(update[pair] / step + dither[:, pair])
            np.testing.assert_allclose((errors[:, pair] ** 2).sum(1), wanted, atol=1e-4)
    np.testing.assert_allclose(errors.mean(0), 0, atol=5 * 0.3 / np.sqrt(3000))  # unbiased
    moment = 1 / 12 if lattice == "scalar" else 5 / 72
    np.testing.assert_allclose((errors**2).mean(), moment, rtol=0.05)  # whatever the update is


def test_uveqfed_after_a_rotation_is_the_dithered_rotated_quantiser() -> None:
    update = np.random.default_rng(0).standard_normal((2, 700)).astype(np.float32)
    address = Address(3, 8, np.arange(2))
    key = address.key(Purpose.ROTATE)
    bits = words(Key(key.first[:, None], key.second[:, None]), np.arange(700, dtype=np.uint32))[:, None]
    turned = rotate_rows(update[:, None], bits)
    lattice, rotated = Lattice(2, "scalar"), Rotated(2, coding="entropy")
    symbols, _ = lattice.quantise(turned[:, 0], address)
    # The norm of what is turned is that of the update up to rounding: a symbol in a thousand may be its neighbour.
    assert (symbols != rotated.quantise(update, address)[0]).mean() < 0.002
    back = rotate_rows_back(lattice.apply(turned[:, 0], address)[0][:, None], bits)[:, 0]
    away = np.linalg.norm(back - rotated.apply(update, address)[0]) / np.linalg.norm(update)
    assert away < 0.05


def test_the_hexagonal_lattice_is_better_at_equal_bits() -> None:
    update = np.random.default_rng(1).standard_normal(40_000)
    sent, bits = zip(
        *(received(f"uveqfed(bits=2, lattice={one})", update) for one in ("hexagonal", "scalar")), strict=True
    )
    errors = [float(((one - update) ** 2).mean()) for one in sent]
    assert abs(bits[0][0] / bits[1][0] - 1) < 0.005
    assert errors[0] < 0.97 * errors[1]


def test_uveqfed_is_fedavg_with_messages_of_a_lattice(stream: Stream) -> None:
    one = simulate(make("uveqfed(bits=4, period=3, step_size=0.02)"), stream, MODEL)
    other = replace(make("fedavg(period=3, step_size=0.02)"), compress=make("uveqfed(bits=4)").compress)
    np.testing.assert_array_equal(one.params, simulate(other, stream, MODEL).params)


# FedVQCS -----------------------------------------------------------------------------------------------------------


def hard(rows: Vector, keep: int) -> Vector:
    """The largest of each row."""
    kept = np.zeros_like(rows)
    for row, out in zip(rows, kept, strict=True):
        where = np.argsort(-np.abs(row), kind="stable")[:keep]
        out[where] = row[where]
    return kept


def iterative_hard_thresholding(y: Vector, matrix: Vector, keep: int) -> Vector:
    """Blumensath and Davies' normalised form, one block."""
    x = np.zeros(matrix.shape[1])
    for _ in range(20):
        slope = matrix.T @ (y - matrix @ x)
        support = hard((x if x.any() else slope)[None], keep)[0] != 0
        along = slope * support
        if not along.any():
            break
        x = hard((x + (along @ along) / ((matrix @ along) @ (matrix @ along)) * slope)[None], keep)[0]
    return x


def test_fedvqcs_follows_its_equations() -> None:
    # 20 coordinates in two blocks of 10, with 8 measurements each and 1 coordinate kept; not quantised.
    features, clients = 19, 2
    data = streams.synthetic(task="regression", clients=clients, steps=15, features=features, seed=2)
    model = models.linear(features)
    matrix = projection(8, 10).astype(np.float64)
    assert matrix.std() == pytest.approx(8**-0.5, rel=0.2)
    w, errors = model.initial(0).astype(np.float64), np.zeros((clients, 20))
    for window in windows(data, 1):
        total = np.zeros((2, 8))
        for k, ((x, y),) in enumerate(window):
            wanted = errors[k] + gradient(w, x, y)
            kept = hard(wanted.reshape(2, 10), 1)
            errors[k] = wanted - kept.reshape(-1)
            total += kept @ matrix.T
        found = np.array([iterative_hard_thresholding(row, matrix, 2) for row in total])
        w = w - 0.05 / clients * found.reshape(-1)
    plain = replace(
        make("fedvqcs(measurements=8, keep=1, block=10, step_size=0.05)"), compress=methods.identity()
    )
    np.testing.assert_allclose(simulate(plain, data, model).params, w, rtol=1e-3, atol=1e-4)


def test_fedvqcs_sends_the_nearest_codewords() -> None:
    rows = np.random.default_rng(0).standard_normal((3, 41)).astype(np.float32)
    scheme, address = make("fedvqcs(length=2, bits=3, measurements=64)").compress, Address(0, 1, np.arange(3))
    sent, bits = scheme.apply(rows, address)
    book = codewords(2, 3).astype(np.float64)
    unit = np.pad(sent, ((0, 0), (0, 1))) / np.sqrt(
        (sent**2).sum(1, keepdims=True)
    )  # the scale is in what was sent
    assert (bits == 16 + 8 * ((21 * 3 - 1) // 8)).all()
    for row, made in zip(rows, unit, strict=True):
        words = np.pad(row, (0, 1)).reshape(-1, 2) * np.sqrt(41) / np.linalg.norm(row)
        nearest = book[((words[:, None] - book) ** 2).sum(-1).argmin(1)].reshape(-1)[:41]
        np.testing.assert_allclose(made[:41], nearest / np.linalg.norm(nearest), atol=0.01)


def recovery_error(clients: int, shared: bool) -> float:
    """How far the recovered sum is from the sum of sparse updates of many clients, relative to it."""
    rng, chosen = np.random.default_rng(0), make("fedvqcs")
    server, rule = chosen.server, chosen.client
    updates = np.zeros((clients, 512), np.float32)
    for row in updates:
        places = np.arange(16) if shared else rng.choice(512, 16, replace=False)
        row[places] = rng.standard_normal(16) + 3 * rng.choice([-1, 1])
    memory = {"error": np.zeros_like(updates)}
    down = Down(np.zeros(512, np.float32), {}, {})
    window = Window(down.model, updates, np.ones(clients, np.float32))
    total = rule.finish(window, down, memory)["update"].sum(0)
    found = server.recover(total, np.int32(clients), 512)  # type: ignore[attr-defined]  # its own rule
    return float(np.linalg.norm(found - updates.sum(0)) / np.linalg.norm(updates.sum(0)))


def test_fedvqcs_recovers_sums_that_are_sparse_and_no_others() -> None:
    assert recovery_error(1, shared=False) < 0.01
    assert recovery_error(20, shared=True) < 0.15  # it looks for twice as many coordinates as there are
    assert recovery_error(20, shared=False) > 0.5  # 300 coordinates from 128 measurements
