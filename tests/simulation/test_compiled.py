"""Kernels inside JAX's programs: for methods that the compiled window does not know, and slow parts of the codec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq import methods, models
from ofediq.codec.kit import MAX_LEVELS, class_counts, largest, rotate_rows
from ofediq.kernels import library
from ofediq.methods import Method
from ofediq.models import Network
from ofediq.simulation import Result, simulate
from ofediq.simulation.native import native_model, native_status
from ofediq.simulation.native.compiled import Compiled
from ofediq.simulation.window import Setting
from tests.models.stacks import stacks
from tests.simulation.test_native import MODELS, patchy_stream, some_samples

pytestmark = pytest.mark.skipif(not native_status().startswith("compiled"), reason=native_status())

IQ = methods.ofediq(0.5, levels=3, blocks=20, step_size=0.1)
METHODS = {
    "entropy": replace(IQ, compress=methods.quantize(3, 20, "entropy", norm_bits=16)),
    "rotated": replace(IQ, compress=methods.rotate(2, "nearest")),
    "signs": replace(IQ, compress=methods.signs()),
    "topk": replace(
        methods.make("topk_ef(keep=30, rate=0.5, step_size=0.1)"),
        compress=methods.keep_largest(30, methods.signs()),
    ),
    "scaffold": replace(
        methods.make("scaffold(period=3, rate=0.6, step_size=0.1)"), compress=methods.keep_largest(100)
    ),
    "fedavg": methods.make("fedavg(period=3, step_size=0.1)"),
}


@pytest.fixture(autouse=True)
def forget_libraries() -> Iterator[None]:
    """Each test finds the library for its own environment."""
    library.forget()
    yield
    library.forget()


@pytest.mark.parametrize("name", METHODS)
def test_any_method_on_kernels_is_what_it_is_in_jax(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = "cnn" if name in ("rotated", "topk") else "mlp-classifier"
    fast = run(METHODS[name], model)
    assert fast.engine.startswith("compiled kernels in JAX: kernels ")
    monkeypatch.setenv(library.SWITCH, "0")
    library.forget()
    slow = run(METHODS[name], model)
    assert slow.engine.startswith("JAX: ")
    np.testing.assert_array_equal(fast.senders, slow.senders)
    np.testing.assert_allclose(fast.loss, slow.loss, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(fast.bits_wire, slow.bits_wire, rtol=1e-3)
    # A draw between the two roundings of a fraction gives the level beside; a choice between equals another one.
    apart = ~np.isclose(fast.params, slow.params, rtol=1e-3, atol=1e-5)
    assert apart.sum() <= 10


def run(method: Method, model: str) -> Result:
    return simulate(method, patchy_stream(model), MODELS[model], seed=7)


@settings(max_examples=10, deadline=None)
@given(stacks())
def test_seam_of_any_stack(model: Network) -> None:
    """Losses, errors and gradients: under one model, under one each, and added up."""
    x, y = some_samples(model, 11)
    params = model.initial(3)
    own = params * np.linspace(0.5, 1.5, 11, dtype=np.float32)[:, None]
    weights = np.linspace(0, 2, 11, dtype=np.float32)
    compiled = Compiled.of(model)
    for at in (params, own):
        wanted, found = model.client_gradients(at, x, y), compiled.client_gradients(jnp.asarray(at), x, y)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * max(1e-6, np.abs(wanted).max()))
    for found, wanted in zip(
        compiled.batch_gradient(jnp.asarray(params), jnp.asarray(x), jnp.asarray(y), jnp.asarray(weights)),
        model.batch_gradient(params, x, y, weights),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * max(1e-3, np.abs(wanted).max()))
    for found, wanted in zip(
        compiled.evaluate(jnp.asarray(params), x, y), model.evaluate(params, x, y), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 700), st.integers(0, 2**31), st.booleans())
def test_parts_of_the_codec_bit_for_bit(rows: int, dim: int, seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, dim)).astype(np.float32)
    x = np.round(x) if ties else x
    keep = int(rng.integers(1, dim + 1))
    np.testing.assert_array_equal(largest(jnp.asarray(x), keep), largest(x, keep))
    words = rng.integers(0, 2**32, (rows, dim), dtype=np.uint32)
    np.testing.assert_array_equal(rotate_rows(jnp.asarray(x), jnp.asarray(words)), rotate_rows(x, words))
    for levels in (3, MAX_LEVELS):
        symbols = rng.integers(-levels, levels + 1, (rows, dim)).astype(np.int32) // int(rng.integers(1, 9))
        np.testing.assert_array_equal(
            class_counts(jnp.asarray(symbols), levels), class_counts(symbols, levels)
        )


def test_what_is_no_stack_has_no_kernels() -> None:
    own = models.from_loss(lambda w, x, y: (w @ x.reshape(-1) - y) ** 2, np.zeros(5), task="regression")
    assert native_model(Setting(IQ, own, 3, None)) == "kernels know stacks of layers, and 'own' is none"
