"""The frontier's rivals against their equations, as plain loops with none of our pieces but the addressed draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.errors import InputError
from ofediq.methods.budgets.loudness import pack
from ofediq.methods.budgets.steered import Still, steered
from ofediq.methods.registry import make
from ofediq.randomness import Purpose, stream_key, uniform, words
from ofediq.simulation import simulate
from ofediq.streams import Stream
from tests.methods.test_zoo import CLIENTS, MODEL, Vector, ends_at, gradient, largest, patchy, stream, windows

__all__ = ["patchy", "stream"]  # fixtures

DIM = MODEL.dim  # 4, a power of two: a rotation is one Hadamard matrix
EVERYONE = 2**32 - 1
HADAMARD = {2: np.array([[1, 1], [1, -1]]) / np.sqrt(2)}
HADAMARD[4] = np.kron(HADAMARD[2], HADAMARD[2])
ETA = 0.02


def draws(step: int, client: int, purpose: Purpose, count: int) -> Vector:
    return np.asarray(uniform(stream_key(0, step, client, purpose), np.arange(count)), np.float64)


def rotation(step: int, client: int, size: int) -> Vector:
    """An orthogonal matrix: Hadamard's, with random signs of its columns."""
    signs = words(stream_key(0, step, client, Purpose.ROTATE), np.arange(size)) >> np.uint32(31)
    return np.asarray(HADAMARD[size] * (1.0 - 2.0 * signs))


def rounded(values: Vector, chance: Vector) -> Vector:
    """To a neighbouring whole number, at random."""
    low = np.floor(np.abs(values))
    return np.asarray(np.sign(values) * (low + (chance < np.abs(values) - low)))


def each(stream: Stream) -> list[tuple[int, list[tuple[int, Vector, float]]]]:
    """Steps from 1, and the client, x and y of each sample there."""
    return [
        (t, [(k, x, y) for k, samples in enumerate(window) for x, y in samples])
        for t, window in enumerate(windows(stream, 1), 1)
    ]


def test_eden_sends_half_a_bit(stream: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    for t, samples in each(stream):
        total = np.zeros(DIM)
        for k, x, y in samples:
            where = np.arange(2) * 2 + np.floor(2 * draws(t, k, Purpose.SUPPORT, 2)).astype(int)
            kept = 2 * gradient(w, x, y)[where]
            turned = rotation(t, k, 2) @ kept
            signs = np.where(turned < 0, -1.0, 1.0)
            total[where] += (kept @ kept) / (turned @ signs) * (rotation(t, k, 2).T @ signs)
        w = w - ETA / CLIENTS * total
    ends_at(f"eden(bits=0.5, step_size={ETA})", stream, w)


def test_clients_are_sampled_in_proportion_to_their_norms(patchy: Stream) -> None:
    scale = 4.0
    w: Vector = MODEL.initial(0).astype(np.float64)
    senders = []
    for t, samples in each(patchy):
        total, count = np.zeros(DIM), 0
        for k, x, y in samples:
            update = gradient(w, x, y)
            chance = min(1.0, float(np.linalg.norm(update)) / scale)
            if draws(t, k, Purpose.PARTICIPATE, 1)[0] < chance:
                total, count = total + update / chance, count + 1
        w = w - ETA / CLIENTS * total
        senders.append(count)
    made = make(f"ocs(bits_per_step=100, step_size={ETA})")
    made = replace(made, compress=methods.identity(), server=steered(methods.descend(ETA), Still(scale)))
    result = simulate(made, patchy, MODEL)
    np.testing.assert_array_equal(result.senders, senders)
    assert 0 < np.mean(senders) < np.mean([len(samples) for _, samples in each(patchy)])
    np.testing.assert_allclose(result.params, w, rtol=2e-4, atol=2e-5)


def test_sampling_by_norms_leaves_less_variance_than_sampling_alike() -> None:
    rng = np.random.default_rng(0)
    norms = np.abs(rng.standard_cauchy(200)).astype(np.float32)
    rule = make("ocs(bits_per_step=100)").participation
    rates = rule.probabilities(norms, pack(float(norms.sum() / 20)))  # type: ignore[attr-defined]  # its own rule
    alike = float(rates.mean())
    assert (norms**2 * (1 / rates - 1)).sum() < 0.2 * (norms**2 * (1 / alike - 1)).sum()


def test_everyone_rounds_to_the_scale_that_all_know(stream: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    square, grid = 0.0, None
    for t, samples in each(stream):
        total = np.zeros(DIM)
        for k, x, y in samples:
            update = gradient(w, x, y)
            step = np.abs(update).max() / 2**15 if grid is None else grid  # the first message: 16 bits
            total += step * rounded(update / step, draws(t, k, Purpose.ROUND, DIM))
        w = w - ETA / CLIENTS * total
        size = float((total / CLIENTS) @ (total / CLIENTS))
        square = size if grid is None else 0.9 * square + 0.1 * size
        exact = np.float32(np.sqrt(2 * CLIENTS * square / DIM))  # 1 / alpha
        grid = float(((exact.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32))
    ends_at(f"intsgd(step_size={ETA})", stream, w)


@pytest.mark.parametrize("radius", [None, 0.3])
def test_ftrl_remembers_in_both_directions(radius: float | None, stream: Stream) -> None:
    start: Vector = MODEL.initial(0).astype(np.float64)
    errors, gathered, copy, w = np.zeros((CLIENTS, DIM)), np.zeros(DIM), start, start
    for _, samples in each(stream):
        for k, x, y in samples:
            wanted = errors[k] + gradient(copy, x, y)
            sent = largest(wanted, 2)
            errors[k], gathered = wanted - sent, gathered + sent
        moves = -ETA / CLIENTS * gathered
        w = start + moves * min(1.0, (radius or np.inf) / float(np.linalg.norm(moves)))
        copy = copy + largest(w - copy, 1)
    ends_at(f"ftrl_ef(keep=2, keep_down=1, step_size={ETA}, radius={radius})", stream, w)


def test_numbers_along_common_directions(patchy: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    for t, samples in each(patchy):
        where = np.arange(2) * 2 + np.floor(2 * draws(t, EVERYONE, Purpose.SUPPORT, 2)).astype(int)
        directions = 2 * rotation(t, EVERYONE, DIM)[where]  # z, of length sqrt(D)
        numbers = sum((directions @ gradient(w, x, y) for _, x, y in samples), np.zeros(2))
        w = w - ETA / CLIENTS * (numbers @ directions) / 2
    ends_at(f"seeds_scalars(keep=2, step_size={ETA})", patchy, w)


def test_all_directions_are_fedogd_at_the_same_bits_down(stream: Stream) -> None:
    one = simulate(make(f"seeds_scalars(keep={DIM}, step_size=0.05)"), stream, MODEL)
    other = simulate(methods.fedogd(0.05), stream, MODEL)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(one.bits_downlink, other.bits_downlink)
    fewer = simulate(make("seeds_scalars(keep=1)"), stream, MODEL)
    assert set(fewer.bits_downlink) == {32}


def test_a_server_learns_from_samples(patchy: Stream) -> None:
    w: Vector = MODEL.initial(0).astype(np.float64)
    suffered, bits = 0.0, 0
    for t, samples in each(patchy):
        suffered += sum(float(w @ np.append(x, 1.0) - y) ** 2 for _, x, y in samples)
        for k, x, y in samples:
            if draws(t, k, Purpose.PARTICIPATE, 1)[0] < 0.6:
                w = w - ETA * gradient(w, x, y)
                bits += 32 * (x.size + 1)
    made = replace(make(f"send_samples(rate=0.6, step_size={ETA})"), compress=methods.identity())
    result = simulate(made, patchy, MODEL)
    np.testing.assert_allclose(result.params, w, rtol=2e-4, atol=2e-5)
    assert result.loss.sum() == pytest.approx(suffered, rel=1e-4)
    assert result.bits_wire.sum() == bits


@pytest.mark.parametrize(
    "text", ["eden", "ocs", "ocs(codec=eden)", "intsgd", "ftrl_ef", "seeds_scalars", "send_samples"]
)
def test_a_budget_is_kept(text: str) -> None:
    digits = streams.partition(streams.load("digits"), clients=20, steps=60, seed=0)
    model = models.softmax(64, 10)
    made = methods.at_budget(text, 0.01, model.dim, 20, step_size=0.1, steps=60, features=64)
    share = simulate(made, digits, model).bits_wire.sum() / (32 * model.dim * 20 * 60)
    assert 0.005 < share < 0.0115


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eden(bits=x)", "`bits` must be a finite number > 0"),
        ("eden(bits=1.5)", r"`bits` must lie in \(0, 1\), or be 1, 2, 3 or 4, got 1.5"),
        ("ocs(bits_per_step=10, codec=x)", "`codec` must be one of quantized, eden"),
        ("intsgd(decay=1)", r"`decay` must lie in \[0, 1\), got 1"),
        ("ftrl_ef(keep=1, radius=0)", "`radius` must be a finite number > 0"),
        ("ftrl_ef(keep=1, step_size=x)", "`step_size` must be a finite number > 0"),
        ("seeds_scalars(keep=0)", "`keep` must be an integer >= 1"),
        ("send_samples(rate=2)", r"`rate` must lie in \(0, 1\]"),
    ],
)
def test_wrong_values_get_a_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(text)
