"""Runs with a compressed broadcast: the plain loop, bits, learning, checkpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.codec import SymbolCoding
from ofediq.codec.kit import packed_payload_bytes
from ofediq.errors import InputError
from ofediq.methods import Method
from ofediq.simulation import InterruptedRunError, native_status, reference, simulate
from ofediq.streams import Stream

SOFTMAX = models.softmax(64, 10)
PACKED = methods.delta(levels=7, blocks=14, refresh=4, coding="packed")
ENTROPY = methods.delta(levels=7, blocks=14, refresh=5, coding="entropy")
STEERED = replace(
    methods.ofedgrid(1.0, 17), server=methods.steered(methods.descend(0.01), methods.Still(0.05))
)
CASES = {
    "fedogd": methods.with_broadcast(methods.fedogd(0.1), PACKED),
    "ofediq": methods.with_broadcast(methods.ofediq(0.5, 3, 14, period=3, step_size=0.1), PACKED),
    "entropy": methods.with_broadcast(
        methods.ofedavg(0.1, 0.1), ENTROPY
    ),  # with rounds in which nobody sends
    "steered": methods.with_broadcast(STEERED, ENTROPY),
}


@pytest.mark.parametrize("key", CASES)
def test_engine_equals_reference(key: str, digits: Stream) -> None:
    method = CASES[key]
    fast, slow = simulate(method, digits, SOFTMAX, seed=7), reference(method, digits, SOFTMAX, seed=7)
    np.testing.assert_array_equal(fast.senders, slow.senders)
    np.testing.assert_allclose(fast.params, slow.params, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(fast.loss, slow.loss, rtol=2e-5)
    packed = method.broadcast == PACKED
    np.testing.assert_allclose(fast.bits_downlink, slow.bits_downlink, rtol=0 if packed else 0.05)


def test_refreshing_every_time_is_the_whole_model(digits: Stream) -> None:
    always = methods.delta(levels=7, blocks=14, refresh=1)
    for base in (methods.ofediq(0.5, 3, 14, period=3, step_size=0.1), STEERED):
        plain = simulate(base, digits, SOFTMAX)
        same = simulate(methods.with_broadcast(base, always), digits, SOFTMAX)
        np.testing.assert_allclose(same.params, plain.params, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(same.loss, plain.loss, rtol=1e-6)
        np.testing.assert_array_equal(same.bits_downlink, plain.bits_downlink)


def test_bits_of_the_downlink(digits: Stream) -> None:
    # A packed message is no longer than 14 norms of 32 bits and 650 times 1 + log2(7 + 1) bits: a seventh of 32 D.
    result = simulate(CASES["fedogd"], digits, SOFTMAX)
    short = 8 * packed_payload_bytes(650, levels=7, blocks=14)
    assert short <= 14 * 32 + 650 * 4 < 32 * 650 / 6.8
    expected = [32 * 650 if step % 4 == 0 else short for step in range(1, 18)]
    np.testing.assert_array_equal(result.bits_downlink, expected)
    assert simulate(STEERED, digits, SOFTMAX).bits_downlink.tolist() == [32 * 650 + 32] * 17  # and the signal


def test_learning_barely_suffers() -> None:
    # Digits, 100 clients, 150 steps, seeds 0 to 2: less than one point of accuracy for a tenth of the downlink.
    for seed in range(3):
        stream = streams.partition(streams.load("digits"), clients=100, steps=150, seed=seed)
        base = methods.fedogd(0.5)
        cut = methods.with_broadcast(base, methods.delta(levels=7, blocks=14))
        whole, less = simulate(base, stream, SOFTMAX, seed), simulate(cut, stream, SOFTMAX, seed)
        assert less.accuracy[-1] > whole.accuracy[-1] - 0.01
        assert less.bits_downlink.sum() < 0.1 * whole.bits_downlink.sum()


@pytest.mark.parametrize("method", [CASES["ofediq"], CASES["steered"]], ids=["plain", "steered"])
def test_resumed_run_equals_uninterrupted_one(
    method: Method, digits: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ofediq.simulation.engine._BLOCK_STEPS", 4)
    whole = simulate(method, digits, SOFTMAX)

    def interrupt(done: int, total: int) -> None:
        if done >= 8:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        simulate(method, digits, SOFTMAX, progress=interrupt, checkpoint=tmp_path / "run.npz")
    resumed = simulate(method, digits, SOFTMAX, checkpoint=tmp_path / "run.npz", resume=True)
    for name in ("params", "loss", "senders", "bits_wire", "bits_downlink"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))


MADE = streams.synthetic(task="regression", clients=6, steps=9, features=5, noise=0.1, seed=2)
MLP = models.mlp_regressor(5, hidden=(8, 6))


def test_matrix_products_and_differences() -> None:
    method = methods.with_broadcast(methods.fedogd(0.05), methods.delta(levels=7, blocks=3, coding="packed"))
    fast, slow = simulate(method, MADE, MLP), reference(method, MADE, MLP)
    np.testing.assert_allclose(fast.params, slow.params, rtol=2e-4, atol=2e-6)
    np.testing.assert_array_equal(fast.bits_downlink, slow.bits_downlink)


@pytest.mark.parametrize("coding", ["packed", "entropy"])
@pytest.mark.parametrize("refresh", [None, 3])
def test_kernels_equal_the_reference(coding: SymbolCoding, refresh: int | None) -> None:
    # Two windows of steps, the last one cut short: nothing goes down after it.
    base = methods.ofediq(0.3, 3, 7, period=2, step_size=0.05)
    method = methods.with_broadcast(base, methods.delta(7, 3, refresh=refresh, coding=coding))
    fast, slow = simulate(method, MADE, MLP, seed=3), reference(method, MADE, MLP, seed=3)
    assert fast.engine == "compiled kernels" or native_status().startswith("no compiled kernels")
    np.testing.assert_array_equal(fast.senders, slow.senders)
    np.testing.assert_allclose(fast.params, slow.params, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(fast.loss, slow.loss, rtol=2e-5)
    np.testing.assert_allclose(fast.bits_downlink, slow.bits_downlink, rtol=0 if coding == "packed" else 0.05)


def test_too_coarse_a_quantiser_is_refused(digits: Stream) -> None:
    coarse = methods.with_broadcast(methods.fedogd(), methods.delta(levels=1, blocks=1))
    for run in (simulate, reference):
        with pytest.raises(InputError, match="copies drift away, got 1"):
            run(coarse, digits, SOFTMAX)
