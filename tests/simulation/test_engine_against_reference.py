"""The fast engine and the plain loop draw the same numbers, so they must agree to float tolerance."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import optax
import pytest

from ofediq import methods, models
from ofediq.methods import Method
from ofediq.methods.zoo.scaffold import scaffold
from ofediq.methods.zoo.topk_ef import topk_ef
from ofediq.models import Model
from ofediq.simulation import Result, reference, simulate
from ofediq.streams import Dataset, Stream

# Adam divides by the size of the gradient: where a sum over clients cancels, it blows rounding errors up to whole
# steps. A larger epsilon keeps its arithmetic comparable.
TAME_ADAM = methods.optimizer(optax.adam(0.01, eps=1e-3), "tame adam")

CASES = {
    "fedogd": methods.fedogd(0.1),
    "fedogd-authors": replace(methods.fedogd(0.01, preset="authors"), server=TAME_ADAM),
    "ofedavg": methods.ofedavg(0.3, 0.1),
    "ofedavg-authors": replace(methods.ofedavg(0.3, 0.01, preset="authors"), server=TAME_ADAM),
    "ofedavg-per-client": methods.ofedavg(np.linspace(0.1, 1.0, 12).tolist(), 0.1),
    "fedomd": methods.fedomd(4, 0.1),
    "fedomd-authors": replace(methods.fedomd(4, 0.01, preset="authors"), server=TAME_ADAM),
    "ofediq": methods.ofediq(0.5, levels=3, blocks=14, step_size=0.1),
    "ofediq-qsgd": methods.ofediq(0.5, levels=7, blocks=1, step_size=0.1),
    "ofediq-fine": methods.ofediq(0.9, levels=17, blocks=650, step_size=0.1),
    "ofediq-period": methods.ofediq(0.6, levels=3, blocks=14, period=5, step_size=0.1),
    "ofediq-authors": replace(
        methods.ofediq(0.5, 3, 14, period=3, step_size=0.01, preset="authors"), server=TAME_ADAM
    ),
    "ofediq-entropy": methods.ofediq(0.5, levels=3, blocks=14, step_size=0.1, coding="entropy"),
    "rotated": replace(methods.ofedavg(0.5, 0.1), compress=methods.rotate(2)),
    "rotated-nearest": replace(methods.ofedavg(0.5, 0.1), compress=methods.rotate(1, "nearest")),
    "topk_ef": topk_ef(keep=20, rate=0.5, step_size=0.1),
    "topk_ef-everyone": topk_ef(keep=3, step_size=0.1),
    "scaffold": scaffold(period=3, rate=0.6, step_size=0.1),
    "scaffold-one": scaffold(period=1, step_size=0.1),
    "scaffold-quantised": replace(scaffold(period=4, step_size=0.1), compress=methods.quantize(7, 14)),
    "fedogd-coin": methods.with_server(methods.fedogd(), methods.coin()),
    "ofediq-coin": methods.with_server(methods.ofediq(0.5, 3, 14, preset="authors"), methods.coin()),
}


@pytest.mark.skipif(
    not jax.config.values["jax_disable_most_optimizations"], reason="this is how users compile"
)
def test_every_case_as_users_compile_it() -> None:
    """In a process of its own: other tests leave out most of the compiler's work, and its flags are read once."""
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "XLA_FLAGS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    command += ["-k", "not chunks and not come_and_go"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.rpartition(" passed, 1 skipped")[0].split()[-1]) > len(CASES)


@pytest.mark.parametrize("key", CASES)
def test_engine_equals_reference(key: str, digits: Stream) -> None:
    assert_same_run(CASES[key], digits, models.softmax(64, 10))


@pytest.mark.parametrize(
    "key", ["fedogd", "ofedavg", "fedomd", "ofediq", "ofediq-period", "ofediq-authors", "topk_ef", "scaffold"]
)
def test_engine_equals_reference_when_clients_come_and_go(key: str, patchy: Stream) -> None:
    assert_same_run(CASES[key], patchy, models.softmax(64, 10))


@pytest.mark.parametrize(
    ("key", "chunk"),
    [
        *(("fedogd", 1), ("fedogd", 100), ("ofediq", 5), ("ofediq", 12), ("ofediq-period", 1)),
        *(("ofediq-period", 5), ("topk_ef", 5), ("topk_ef", 100), ("scaffold", 1), ("scaffold", 12)),
    ],
)
def test_chunks_do_not_matter(key: str, chunk: int, digits: Stream) -> None:
    assert_same_run(CASES[key], digits, replace(models.softmax(64, 10), chunk=chunk))


@pytest.mark.parametrize(
    "model", [models.linear(5), models.mlp_regressor(5, hidden=(8, 6))], ids=["linear", "mlp"]
)
@pytest.mark.parametrize("period", [1, 3])
def test_regression_models(model: Model, period: int, regression: Stream) -> None:
    assert_same_run(methods.ofediq(0.7, 4, 3, period=period, step_size=0.05), regression, model)


def test_cnn() -> None:
    rng = np.random.default_rng(0)
    images = Dataset(
        "images",
        x=rng.random((30, 12, 11), np.float32),
        y=rng.integers(0, 3, 30).astype(np.int32),
        task="classification",
        classes=3,
    )
    order = rng.integers(0, 30, (6, 5)).astype(np.int32)
    for period in (1, 2):
        method = methods.ofediq(0.6, levels=3, blocks=20, period=period, step_size=0.05)
        assert_same_run(method, Stream(images, order), models.cnn(12, 11, 3))


@pytest.mark.parametrize("mirror", ["simplex", "positive"])
def test_entropic_mirror_descent(mirror: str, regression: Stream) -> None:
    assert_same_run(methods.fedomd(3, 0.02, mirror=mirror), regression, models.linear(5, intercept=False))


@pytest.mark.parametrize("steered", ["grid", "norm"])
def test_steered_methods(steered: str, digits: Stream) -> None:
    # The engine steers by ideal code lengths, the loop by real bytes: hold the signal still, and compare bits apart.
    base = methods.ofedgrid(1.0, 17) if steered == "grid" else methods.ofediq_norm(3, 14, 1.0, 17)
    still = methods.Still(0.05 if steered == "grid" else 5.0)
    server = methods.steered(methods.descend(0.01), still)
    assert_same_run(replace(base, server=server), digits, models.softmax(64, 10))


def assert_same_run(method: Method, stream: Stream, model: Model) -> None:
    fast, slow = simulate(method, stream, model, seed=7), reference(method, stream, model, seed=7)
    np.testing.assert_array_equal(fast.senders, slow.senders)
    np.testing.assert_array_equal(fast.present, slow.present)
    np.testing.assert_allclose(fast.params, slow.params, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(fast.loss, slow.loss, rtol=2e-5)
    np.testing.assert_allclose(fast.error, slow.error, rtol=2e-4, atol=1e-6)
    if not np.isnan(method.compress.formula_bits(model.dim)):
        np.testing.assert_allclose(fast.bits_formula, slow.bits_formula, rtol=1e-12)
    _assert_same_bits(method, fast, slow)


def _assert_same_bits(method: Method, fast: Result, slow: Result) -> None:
    if method.compress.coding == "entropy":  # the engine counts an ideal code length, the loop real bytes
        np.testing.assert_allclose(fast.bits_wire.sum(), slow.bits_wire.sum(), rtol=0.05)
    else:
        np.testing.assert_array_equal(fast.bits_wire, slow.bits_wire)
    assert (slow.bits_wire <= slow.bits_formula).all()
