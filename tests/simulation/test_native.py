"""The compiled kernels against the JAX engine, the codec, and themselves on other threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import optax
import pytest
from hypothesis import given, settings

from ofediq import codec, methods, models
from ofediq.errors import InputError
from ofediq.kernels import library
from ofediq.methods import Method
from ofediq.methods.compress import Rotate
from ofediq.methods.server.rule import Descend
from ofediq.models import Model, Network
from ofediq.randomness import Address
from ofediq.simulation import InterruptedRunError, Result, client_mesh, native, simulate
from ofediq.simulation.native import native_status, native_sums
from ofediq.simulation.native.layout import Remembered, SenderRules
from ofediq.simulation.native.window import Kernels, supports
from ofediq.simulation.window import Setting
from ofediq.streams import Dataset, Stream
from tests.models.stacks import stacks
from tests.simulation.quantiser import quantized

needs_compiler = pytest.mark.skipif(not native_status().startswith("compiled"), reason=native_status())

CLIENTS = 37  # no multiple of anything that the kernels group by
TAME_ADAM = methods.optimizer(optax.adam(0.01, eps=1e-3), "tame adam")
METHODS = {
    "fedogd": methods.fedogd(0.1),
    "fedogd-adam": replace(methods.fedogd(0.01, preset="authors"), server=TAME_ADAM),
    "ofedavg": methods.ofedavg(0.4, 0.1),
    "ofedavg-per-client": methods.ofedavg(np.linspace(0.1, 1.0, CLIENTS).tolist(), 0.1),
    "fedomd": methods.fedomd(3, 0.1),
    "fedomd-hold": replace(methods.fedomd(3, 0.01, preset="authors"), server=TAME_ADAM),
    "ofediq": methods.ofediq(0.5, levels=3, blocks=20, step_size=0.1),
    "ofediq-qsgd": methods.ofediq(0.5, levels=7, blocks=1, step_size=0.1),
    "ofediq-period": methods.ofediq(0.6, levels=17, blocks=33, period=3, step_size=0.1),
    "ofediq-hold": replace(methods.ofediq(0.6, 3, 33, 3, 0.01, preset="authors"), server=TAME_ADAM),
    "ofediq-entropy": methods.ofediq(0.5, levels=17, blocks=20, step_size=0.1, coding="entropy"),
    "ofediq-few-norms": methods.ofediq(0.5, levels=3, blocks=5, period=3, step_size=0.1, coding="entropy"),
    "rotated": replace(methods.ofedavg(0.5, 0.1), compress=methods.rotate(3)),
    "rotated-packed": replace(methods.ofedavg(0.5, 0.1), compress=Rotate(1, coding="packed")),
}
_TOPK = methods.make("topk_ef(keep=30, rate=0.5, step_size=0.1)")
REMEMBERING = {
    "topk": _TOPK,
    "topk-period": replace(_TOPK, period=3, server=TAME_ADAM),
    "errors-quantized": replace(_TOPK, compress=methods.quantize(7, 20)),
    "errors-entropy": replace(_TOPK, compress=methods.quantize(3, 20, "entropy")),
    "errors-rotated": replace(_TOPK, compress=methods.rotate(3)),
    "scaffold": methods.make("scaffold(period=3, rate=0.6, step_size=0.1)"),
    "scaffold-at-once": methods.make("scaffold(period=1, rate=0.6, step_size=0.1)"),
}
METHODS |= REMEMBERING
MODELS: dict[str, Model] = {
    "cnn": models.cnn(13, 14, 3),
    "mlp-classifier": models.mlp_classifier(14, 4),
    "mlp-regressor": models.mlp_regressor(5, hidden=(20, 9, 33)),
    "softmax": models.softmax(150, 7, l2=0.01),
}
SHAPES = {
    "cnn": ((13, 14), 3),
    "mlp-classifier": ((14,), 4),
    "mlp-regressor": ((5,), 0),
    "softmax": ((150,), 7),
}


@pytest.fixture(autouse=True)
def forget_libraries() -> Iterator[None]:
    """Each test finds the library for its own environment."""
    library.forget()
    yield
    library.forget()


def patchy_stream(key: str, clients: int = CLIENTS) -> Stream:
    """Seven steps (no multiple of the periods), a third of the samples missing, one client that never comes."""
    rng = np.random.default_rng(0)
    shape, classes = SHAPES[key]
    x = rng.normal(size=(90, *shape)).astype(np.float32)
    x[x < 0] = 0  # ties of the pooling are common on a black background
    if classes:
        data = Dataset("made", x, rng.integers(0, classes, 90).astype(np.int32), "classification", classes)
    else:
        data = Dataset("made", x, rng.normal(size=90).astype(np.float32), "regression")
    order = rng.integers(0, 90, (7, clients)).astype(np.int32)
    order[rng.random(order.shape) < 1 / 3] = -1
    order[:, 5] = -1
    return Stream(data, order)


# What computes gradients and what compresses them are kernels of their own: some methods meet every model, the
# others the largest one and one more.
MEET_ALL = ("ofedavg", "fedomd", "ofediq", "ofediq-period", "rotated")
PAIRS = [
    (method, model)
    for number, method in enumerate(METHODS)
    for model in MODELS
    if model == "cnn" or not METHODS[method].sums_gradients
    if method in MEET_ALL or model in ("cnn", list(MODELS)[1 + number % 3]) or method in REMEMBERING
    if method not in REMEMBERING or model == "mlp-classifier" or (method, model) == ("topk", "cnn")
]


@needs_compiler
@pytest.mark.parametrize(("method", "model"), PAIRS)
def test_native_equals_jax(method: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = patchy_stream(model)
    assert not isinstance(native_sums(Setting(METHODS[method], MODELS[model], CLIENTS, None)), str)
    fast = simulate(METHODS[method], stream, MODELS[model], seed=7)
    monkeypatch.setenv(library.SWITCH, "0")
    assert isinstance(native_sums(Setting(METHODS[method], MODELS[model], CLIENTS, None)), str)
    jax = simulate(METHODS[method], stream, MODELS[model], seed=7)
    assert_same_run(fast, jax)


@needs_compiler
@pytest.mark.parametrize(
    ("method", "model"),
    [
        pair
        for pair in PAIRS
        if pair[0] in ("fedogd", "ofedavg", "fedomd", "ofediq", "ofediq-period", "topk", "scaffold")
    ],
)
def test_threads_do_not_matter(method: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = patchy_stream(model, clients=1001 if model.startswith("mlp") else 101)  # worth several threads
    runs = []
    for threads in (1, 2, 5):
        monkeypatch.setenv("OFEDIQ_THREADS", str(threads))
        runs.append(simulate(METHODS[method], stream, MODELS[model]))
    for other in runs[1:]:
        np.testing.assert_array_equal(other.params, runs[0].params)
        np.testing.assert_array_equal(other.loss, runs[0].loss)


@needs_compiler
def test_threads_survive_a_fork_and_serve_several_callers() -> None:
    """In a process of its own, which has no other threads (JAX's) that a fork could break."""
    code = """
import os, threading
import numpy as np
from ofediq import models
from ofediq.simulation.native.layout import SenderRules
from ofediq.simulation.native.window import Kernels

model = models.mlp_classifier(40, 5)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(3000, 40)).astype(np.float32), rng.integers(0, 5, 3000).astype(np.int32)
params, order = model.initial(0), np.arange(3000, dtype=np.int32)[None]
everyone, ones = np.ones(3000, bool), np.ones(3000, np.float32)

def total():
    rules = SenderRules(form="quantized", levels=3, blocks=9)
    return Kernels(model, x, y, threads=3).run(params, order, everyone, ones, rules, 0, 1).total

expected = total()
child = os.fork()
if child == 0:
    os._exit(0 if (total() == expected).all() else 1)
assert os.waitpid(child, 0)[1] == 0
found = []
callers = [threading.Thread(target=lambda: found.append(total())) for _ in range(5)]
for caller in callers: caller.start()
for caller in callers: caller.join()
assert len(found) == 5 and all((one == expected).all() for one in found)
print("same")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr


class Elsewhere(Descend):
    """The same rule under a name that the kernels do not know: windows are then called one by one."""


@needs_compiler
@pytest.mark.parametrize(
    "method",
    ["ofediq", "ofediq-period", "ofediq-entropy", "ofedavg-per-client", "fedomd", "topk", "errors-quantized"],
)
def test_windows_in_one_call_are_those_one_by_one(method: str) -> None:
    together = METHODS[method]
    apart = replace(together, server=Elsewhere(0.1))
    stream, model = patchy_stream("mlp-classifier"), MODELS["mlp-classifier"]
    assert native.descends(Setting(together, model, CLIENTS, None)) == pytest.approx(0.1)
    assert native.descends(Setting(apart, model, CLIENTS, None)) == 0
    one, other = (simulate(each, stream, model, seed=3) for each in (together, apart))
    for field in ("params", "loss", "error", "senders", "bits_wire", "bits_downlink"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field), err_msg=field)


@needs_compiler
@pytest.mark.parametrize("method", ["ofedavg", "ofediq-hold", "ofediq-period", "topk", "scaffold"])
def test_resumed_run_equals_uninterrupted_one(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ofediq.simulation.engine._BLOCK_STEPS", 3)
    chosen, stream, model = METHODS[method], patchy_stream("mlp-regressor"), MODELS["mlp-regressor"]
    whole = simulate(chosen, stream, model)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        simulate(chosen, stream, model, progress=interrupt, checkpoint=tmp_path / "run.npz")
    resumed = simulate(chosen, stream, model, checkpoint=tmp_path / "run.npz", resume=True)
    np.testing.assert_array_equal(resumed.params, whole.params)
    np.testing.assert_array_equal(resumed.loss, whole.loss)


@needs_compiler
@pytest.mark.parametrize("filters", [(16, 16), (48, 16), (16, 48), (64, 128)])
@pytest.mark.parametrize("side", [(10, 10), (11, 17), (29, 12)])
def test_convolutions_of_other_shapes(filters: tuple[int, int], side: tuple[int, int]) -> None:
    words = "conv {}, pool, conv {}, pool, dense".format(*filters)
    assert_same_gradient(models.network(words, shape=side, task="classification", classes=5))


@needs_compiler
@pytest.mark.parametrize("hidden", [(1,), (17, 3), (64, 64, 64), (128, 40)])
def test_dense_layers_of_other_sizes(hidden: tuple[int, ...]) -> None:
    assert_same_gradient(models.mlp_classifier(11, 5, hidden, l2=0.01))


@needs_compiler
@settings(max_examples=60, deadline=None)
@given(stacks())
def test_any_stack_of_layers(model: Network) -> None:
    assert supports(model) is None
    assert_same_gradient(model)
    assert_same_windows(model)


@needs_compiler
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_vectors_of_any_width(lanes: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OFEDIQ_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", f"{os.environ.get('CC', 'cc')} -DLANES={lanes} -Wno-psabi")
    assert_same_gradient(models.cnn(13, 14, 5))
    assert_same_gradient(models.mlp_classifier(11, 5, (40, 9)))
    words = "conv 20 5x5 same, tanh, pool, conv 3, dense 40, dense"
    assert_same_gradient(models.network(words, shape=(13, 14, 2), task="regression"))
    assert_same_symbols(333, levels=3)


@needs_compiler
@pytest.mark.parametrize("dim", [1, 7, 16, 333, 5889])
@pytest.mark.parametrize("levels", [1, 3, 255, 2**15])
def test_quantizer_equals_codec_bit_for_bit(dim: int, levels: int) -> None:
    assert_same_symbols(dim, levels)


@needs_compiler
@pytest.mark.parametrize("dim", [1, 7, 16, 333, 8192, 8193, 20001])
def test_rotated_quantizer_equals_codec_bit_for_bit(dim: int) -> None:
    update = np.random.default_rng(dim).standard_t(3, dim).astype(np.float32)
    for bits in (1, 4):
        scheme = Rotate(bits)
        sent, _ = scheme.apply(update[None], Address(3, 9, np.array([11])))
        found = quantized(update, *scheme.shape(dim), seed=3, step=9, client=11, form="rotated")
        np.testing.assert_array_equal(found, sent[0])


@needs_compiler
def test_quantizer_survives_zeros_and_huge_numbers() -> None:
    assert not quantized(np.zeros(40, np.float32), 3, 4, seed=0, step=1, client=0).any()
    huge = np.full(40, 3e38, np.float32)
    assert np.isfinite(quantized(huge, 3, 4, seed=0, step=1, client=0)).all()


@pytest.mark.parametrize(
    ("method", "model"),
    [
        (methods.fedomd(3, mirror="simplex"), MODELS["cnn"]),
        (replace(METHODS["ofediq"], compress=methods.rotate(2, "nearest")), MODELS["cnn"]),
        (methods.fedogd(), MODELS["softmax"]),
        (METHODS["ofediq"], models.softmax(14, 4)),
        (methods.fedogd(), MODELS["mlp-regressor"]),
        (replace(METHODS["scaffold"], compress=methods.quantize(3, 20)), MODELS["cnn"]),
        (replace(METHODS["topk"], compress=methods.keep_largest(30, methods.signs())), MODELS["cnn"]),
        (replace(METHODS["topk"], compress=methods.identity()), MODELS["cnn"]),
        (replace(METHODS["ofediq"], compress=methods.keep_largest(30)), MODELS["cnn"]),
    ],
)
def test_what_the_kernels_do_not_know_runs_in_jax(method: Method, model: Model) -> None:
    assert isinstance(native_sums(Setting(method, model, CLIENTS, None)), str)


def test_a_mesh_runs_in_jax() -> None:
    assert isinstance(native_sums(Setting(METHODS["fedogd"], MODELS["cnn"], CLIENTS, client_mesh(1))), str)


@needs_compiler
def test_bad_arguments_do_not_reach_c() -> None:
    model = models.mlp_regressor(5)
    x, y = np.zeros((4, 5), np.float32), np.zeros(4, np.float32)
    kernels = Kernels(model, x, y)
    good: dict[str, Any] = {
        "params": model.initial(0),
        "order": np.zeros((1, 3), np.int32),
        "sends": np.ones(3, bool),
        "rates": np.ones(3, np.float32),
        "rules": SenderRules(form="largest", keep=3, memory="errors"),
        "remembered": Remembered(np.zeros((3, model.dim), np.float32), np.ones((1, 3), bool)),
    }
    bad = {
        "params": np.zeros(3, np.float32),
        "order": np.full((1, 3), 4, np.int32),
        "sends": np.ones(2, bool),
        "rates": np.ones(4, np.float32),
        "rules": SenderRules(form="quantized", levels=3, blocks=model.dim + 1),
        "remembered": Remembered(np.zeros((2, model.dim), np.float32), np.ones((1, 3), bool)),
    }
    kernels.run(**good, seed=0, step=1)
    for name, value in bad.items():
        with pytest.raises(InputError, match="must"):
            kernels.run(**{**good, name: value}, seed=0, step=1)
    with pytest.raises(InputError, match="`samples` must be 5 numbers"):
        Kernels(model, np.zeros((4, 6), np.float32), y)


def assert_same_run(one: Result, other: Result) -> None:
    np.testing.assert_array_equal(one.senders, other.senders)
    # An ideal code length in float32 or in double precision may be rounded up to another byte.
    coded = one.method.compress.coding == "entropy"
    np.testing.assert_allclose(one.bits_wire, other.bits_wire, rtol=1e-4 if coded else 0)
    apart = ~np.isclose(one.params, other.params, rtol=2e-4, atol=2e-6)
    # Where a draw falls between the two roundings of a fraction, a coordinate gets the level beside: the chance is
    # about 1e-6 for each coordinate that is sent. Other methods have no such excuse.
    quantises = one.method.compress.coding != "raw"
    if not isinstance(
        one.method.compress, Rotate
    ):  # which turns one such coordinate back into all of its block
        assert apart.sum() <= (5 if quantises else 0)
    np.testing.assert_allclose(one.params, other.params, atol=2e-3)
    np.testing.assert_allclose(one.loss, other.loss, rtol=5e-5, atol=1e-5)
    np.testing.assert_allclose(one.error, other.error, rtol=5e-4, atol=1e-5)


def assert_same_symbols(dim: int, levels: int) -> None:
    update = np.random.default_rng(dim).normal(size=dim).astype(np.float32)
    update[::5] = 0
    for blocks in sorted({1, max(1, dim // 45), max(1, dim // 3), dim}):
        address: Any = {"seed": 11, "step": 2**31, "client": 12345}
        message = codec.quantize(update, levels=levels, blocks=blocks, **address)
        received = quantized(update, levels, blocks, **address)
        np.testing.assert_array_equal(received, message.dequantize())


def some_samples(model: Network, count: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any]]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, *model.shape)).astype(np.float32)
    if model.task == "classification":
        return x, rng.integers(0, model.outputs, count).astype(np.int32)
    return x, rng.normal(size=count).astype(np.float32)


def assert_same_gradient(model: Network) -> None:
    """The sum of 21 gradients by the kernels and by the model's own NumPy code."""
    x, y = some_samples(model, 21)
    params, weights = model.initial(3), np.ones(21, np.float32)
    losses, errors, gradient = model.batch_gradient(params, x, y, weights)
    order = np.arange(21, dtype=np.int32)[None]
    sums = Kernels(model, x, y).run(params, order, weights > 0, weights, SenderRules(), seed=0, step=1)
    np.testing.assert_allclose(sums.total, gradient, rtol=1e-4, atol=1e-4 * np.abs(gradient).max())
    np.testing.assert_allclose(sums.loss, [losses.sum()], rtol=1e-4)
    np.testing.assert_allclose(sums.error, [errors.sum()], rtol=1e-4)


def assert_same_windows(model: Network) -> None:
    """Two senders and one other, who take three steps each at models of their own."""
    x, y = some_samples(model, 9)
    params, step_size = model.initial(3), np.float32(0.05)
    own, expected = np.tile(params, (2, 1)), np.zeros((2, model.dim), np.float32)
    order = np.arange(9, dtype=np.int32).reshape(3, 3)
    for rows in order[:, :2]:
        gradients = model.client_gradients(own, x[rows], y[rows])
        own, expected = own - step_size * gradients, expected + gradients
    rates, sends = np.array([0.5, 1.0, 1.0], np.float32), np.array([True, True, False])
    rules = SenderRules(moves=True, step_size=float(step_size))
    sums = Kernels(model, x, y).run(params, order, sends, rates, rules, seed=0, step=3)
    total = expected[0] / rates[0] + expected[1]
    np.testing.assert_allclose(sums.total, total, rtol=1e-3, atol=1e-3 * np.abs(total).max())
