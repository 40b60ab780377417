"""Compiled kernels of steered methods against the JAX path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.methods import Compressor, Method, Participation
from ofediq.models import Model
from ofediq.simulation import simulate
from ofediq.simulation.native import native_status, native_sums
from ofediq.simulation.window import Setting
from ofediq.streams import Dataset, Stream

pytestmark = pytest.mark.skipif("compiled" not in native_status(), reason="no compiler: " + native_status())

GRID = methods.ofedgrid(20_000.0, 12, step_size=0.1)


@pytest.fixture(scope="module")
def digits() -> Stream:
    return streams.partition(streams.load("digits"), clients=37, steps=12, seed=2)


def images() -> tuple[Stream, Model]:
    rng = np.random.default_rng(0)
    data = Dataset(
        "images",
        x=rng.random((40, 13, 14), np.float32),
        y=rng.integers(0, 3, 40).astype(np.int32),
        task="classification",
        classes=3,
    )
    order = rng.integers(-1, 40, (12, 9)).astype(np.int32)  # some are absent
    return Stream(data, order), models.cnn(13, 14, 3)


def assert_native_equals_jax(
    method: Method, stream: Stream, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not isinstance(native_sums(Setting(method, model, stream.clients, None)), str)
    native = simulate(method, stream, model, seed=5)
    with monkeypatch.context() as patch:
        patch.setenv("OFEDIQ_NATIVE", "0")
        assert isinstance(native_sums(Setting(method, model, stream.clients, None)), str)
        jax = simulate(method, stream, model, seed=5)
    np.testing.assert_array_equal(native.senders, jax.senders)
    np.testing.assert_allclose(native.bits_wire, jax.bits_wire, rtol=1e-4)
    np.testing.assert_allclose(native.loss, jax.loss, rtol=1e-4)
    np.testing.assert_allclose(native.params, jax.params, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("front", [0.0, 0.5])
def test_mlp(front: float, digits: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    method = methods.ofedgrid(20_000.0, 12, step_size=0.1, front=front)
    assert_native_equals_jax(method, digits, models.mlp_classifier(64, 10, hidden=(16,)), monkeypatch)


def test_windows_with_local_steps(digits: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_native_equals_jax(
        replace(GRID, period=3), digits, models.mlp_classifier(64, 10, hidden=(16,)), monkeypatch
    )


@pytest.mark.parametrize("participation", [methods.everyone(), methods.bernoulli(0.4)])
@pytest.mark.parametrize("period", [1, 3])
def test_a_grid_for_whoever_is_drawn(
    participation: Participation, period: int, digits: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = methods.make("intsgd(bits_per_step=20000, steps=12)", step_size=0.1)
    method = replace(method, participation=participation, period=period)
    model = models.mlp_classifier(64, 10, hidden=(16,))
    assert_native_equals_jax(method, digits, model, monkeypatch)
    spent = simulate(method, digits, model).bits_wire.sum()
    assert spent < 0.1 * 32 * model.dim * participation.rates(37).sum() * 12 / period


def test_two_spreads_run_in_jax(digits: Stream) -> None:
    method = replace(GRID, compress=methods.grid(spread=2.5))
    setting = Setting(method, models.mlp_classifier(64, 10, hidden=(16,)), digits.clients, None)
    assert "kernels do not know Grid(spread=2.5)" in str(native_sums(setting))


def test_a_tiny_grid_and_a_diverging_run_stay_inside_their_arrays(
    digits: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = replace(GRID, server=methods.steered(methods.descend(0.1), methods.Still(1e-12)))
    assert_native_equals_jax(tiny, digits, models.mlp_classifier(64, 10, hidden=(16,)), monkeypatch)
    wild = methods.ofedgrid(1e9, 12, step_size=1e30)
    assert simulate(wild, digits, models.mlp_classifier(64, 10, hidden=(16,))).diverged


def test_cnn_with_absent_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_native_equals_jax(GRID, *images(), monkeypatch)


@pytest.mark.parametrize("compress", [methods.quantize(3, 14, "entropy"), methods.rotate(2)])
def test_other_compressors_in_proportion_to_norms(
    compress: Compressor, digits: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = replace(methods.ofediq_norm(3, 14, 20_000.0, 12, step_size=0.1), compress=compress)
    assert_native_equals_jax(method, digits, models.mlp_classifier(64, 10, hidden=(16,)), monkeypatch)


def test_other_compressors_stay_with_jax() -> None:
    model = models.mlp_classifier(64, 10)
    plain = replace(methods.ofediq_norm(3, 14, 1e4, 12), compress=methods.identity())
    assert isinstance(native_sums(Setting(plain, model, 5, None)), str)
    assert isinstance(native_sums(Setting(GRID, models.softmax(64, 10), 5, None)), str)
