from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from ofediq import methods, models, streams
from ofediq.errors import InputError
from ofediq.methods import Method
from ofediq.models import from_torch
from ofediq.simulation import reference, simulate
from ofediq.streams import Stream

jax = pytest.importorskip("jax", reason="needs the extra ofediq[sim]")
torch = pytest.importorskip("torch", reason="needs the extra ofediq[torch]")
nn: Any = torch.nn


def two_layers(seed: int = 0) -> Any:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))


def as_built_in(params: Any) -> Any:
    """The parameters of `two_layers` for `mlp_classifier`: torch keeps matrices as [outputs, inputs]."""
    w1, b1, w2, b2 = np.split(params, np.cumsum([64 * 16, 16, 16 * 10]))
    return np.concatenate([w1.reshape(16, 64).T.ravel(), b1, w2.reshape(10, 16).T.ravel(), b2])


@pytest.fixture(scope="module")
def digits() -> Stream:
    return streams.partition(streams.load("digits"), clients=11, steps=12, seed=1)


METHODS = [
    methods.fedogd(step_size=0.1),
    methods.ofedavg(rate=0.5, step_size=0.1),
    methods.fedomd(period=3, step_size=0.1),
    methods.ogd(step_size=0.05),
    methods.local(step_size=0.1),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_torch_network_repeats_the_built_in_run(method: Method, digits: Stream) -> None:
    model = from_torch(two_layers, "classification", classes=10, chunk=4)
    built_in = models.mlp_classifier(64, 10, (16,))
    found = simulate(method, digits, model, seed=3)
    expected = simulate(method, digits, built_in, seed=3, initial=as_built_in(model.initial(3)))
    np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-4)
    np.testing.assert_array_equal(found.error, expected.error)
    if method.topology != "separate":
        np.testing.assert_allclose(as_built_in(found.params), expected.params, rtol=1e-3, atol=1e-5)


class Rows(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """The rows of an image, one after another: torch cannot take the gradients of several at once."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.scores = nn.GRU(8, 5, batch_first=True), nn.Linear(5, 10)

    def forward(self, x: Any) -> Any:
        return self.scores(self.rows(x)[0][:, -1])


def test_a_recurrent_module_learns_sample_by_sample(digits: Stream) -> None:
    model = from_torch(lambda seed: Rows(), "classification", classes=10, lower=False)
    x, y = digits.x[:3], digits.y[:3]
    params = model.initial(0)
    together = model.batch_gradient(params, x, y, np.ones(3, np.float32))[2]
    for given in (params, np.tile(params, (3, 1))):
        np.testing.assert_allclose(model.client_gradients(given, x, y).sum(0), together, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        model.evaluate(np.tile(params, (3, 1)), x, y)[0], model.evaluate(params, x, y)[0], rtol=1e-4
    )
    result = simulate(methods.fedomd(period=3, step_size=0.1), digits.head(6), model)
    assert np.isfinite(result.loss).all()
    assert "not to be lowered" in result.engine


class Sequence(nn.Module):  # type: ignore[misc]  # likewise
    """As strangers write them: shapes in Python, places in a table, recurrent layers, attention, sums in place."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.place = nn.Embedding(17, 12), nn.Parameter(torch.zeros(1, 8, 12))
        self.lstm, self.gru = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True), nn.GRU(12, 12)
        self.joint, self.plain = nn.MultiheadAttention(12, 3, batch_first=True), nn.RNN(12, 12, bias=False)
        self.norm, self.curve = nn.LayerNorm(12), nn.PReLU()
        self.mix, self.scores, self.heat = (
            nn.Linear(12, 36),
            nn.Linear(12, 10),
            nn.Parameter(torch.tensor(0.5)),
        )

    def forward(self, x: Any) -> Any:
        count, rows, _ = x.shape
        found = self.lstm(x / 16)[0] + self.place[:, :rows]
        found += self.table(x.long()).mean(2)
        found = self.norm(found + self.joint(found, found, found, need_weights=False)[0])
        query, key, value = (
            self.mix(self.curve(found)).view(count, rows, 3, 2, 6).permute(2, 0, 3, 1, 4).unbind(0)
        )
        weights = (query @ key.transpose(-2, -1) / rows**0.5).softmax(-1)
        found = (weights @ value).transpose(1, 2).reshape(count, rows, -1)
        last = self.gru(found.transpose(0, 1))[1][-1] + self.plain(found.transpose(0, 1))[0][-1]
        for power in range(1, 3):
            last = last + torch.where(last > 0, last, torch.zeros_like(last)) ** power
        first, second = torch.einsum("nd,d->nd", last, self.norm.weight).chunk(2, dim=1)
        return self.scores(torch.cat([first.clamp(min=-1), second * self.heat.exp()], dim=1))


def test_sequences_are_translated(digits: Stream) -> None:
    torch.manual_seed(0)
    module = Sequence()
    model, own = (from_torch(module, "classification", classes=10, lower=lower) for lower in (True, False))
    assert "torch computes it" not in str(model.stack((8, 8)))  # but JAX
    params, x, y = model.initial(0), digits.x[:3], digits.y[:3]
    expected = own.batch_gradient(params, x, y, np.ones(3, np.float32))[2]
    np.testing.assert_allclose(model.client_gradients(params, x, y).sum(0), expected, rtol=1e-3, atol=1e-5)


def test_a_branch_on_values_runs_in_torch(digits: Stream, capfd: pytest.CaptureFixture[str]) -> None:
    class Branch(nn.Module):  # type: ignore[misc]  # likewise
        def __init__(self) -> None:
            super().__init__()
            self.scores = nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.scores(x.flatten(1) if x.sum() > -1 else x.flatten(1) * 2)

    reason = from_torch(Branch(), "classification").stack((8, 8))
    assert "torch computes it: it cannot be traced" in str(reason)
    assert capfd.readouterr() == ("", "")


class Deciding(nn.Module):  # type: ignore[misc]  # likewise
    """What is computed depends on the values; or, in one line, on the other samples."""

    def __init__(self, others: bool) -> None:
        super().__init__()
        self.scores, self.others = nn.ModuleList([nn.Linear(64, 10), nn.Linear(64, 10)]), others

    def forward(self, x: Any) -> Any:
        x = x.flatten(1)
        return self.scores[0](x - x.mean(0)) if self.others else self.scores[int(x[:, 20:28].mean() > 7)](x)


@pytest.mark.parametrize("others", [False, True])
def test_a_client_knows_nothing_of_the_others_in_its_batch(others: bool, digits: Stream) -> None:
    model = from_torch(Deciding(others), "classification", classes=10, lower=False)
    params, x, y = model.initial(0), digits.x[:30], digits.y[:30]
    alone = [model.evaluate(params, x[n : n + 1], y[n : n + 1])[0][0] for n in range(30)]
    losses, _, gradient = model.batch_gradient(params, x, y, np.ones(30, np.float32))
    np.testing.assert_allclose(losses, alone, rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(params, x, y)[0], alone, rtol=1e-5)
    np.testing.assert_allclose(
        model.client_gradients(params, x, y).sum(0), gradient, rtol=1e-3, atol=1e-4 * abs(gradient).max()
    )


def test_the_first_use_may_be_inside_a_program(digits: Stream) -> None:
    first, second = (from_torch(two_layers, "classification") for _ in range(2))
    params, x, y = first.initial(0), digits.x[:3], digits.y[:3]
    expected = first.client_gradients(params, x, y)
    np.testing.assert_allclose(jax.jit(second.client_gradients)(params, x, y), expected, 1e-4, 1e-6)


class Words(nn.Module):  # type: ignore[misc]  # likewise
    def __init__(self) -> None:
        super().__init__()
        self.table, self.scores = nn.Embedding(7, 4, padding_idx=0), nn.Linear(12, 3)

    def forward(self, x: Any) -> Any:
        return self.scores(self.table(x.long()).flatten(1))


def test_padding_is_not_learnt() -> None:
    model = from_torch(Words(), "classification")
    assert "torch computes it" not in str(model.stack((3,)))
    x = np.array([[0, 1, 2]], np.float32)
    gradient = model.client_gradients(model.initial(0), x, np.array([1], np.int32))[0]
    assert not np.asarray(gradient)[:4].any()
    assert np.asarray(gradient)[4:12].all()


def test_the_plain_loop_needs_no_jax_arrays(digits: Stream) -> None:
    model = from_torch(two_layers, "classification")
    method = methods.fedomd(period=2, step_size=0.1)
    fast, plain = simulate(method, digits.head(4), model), reference(method, digits.head(4), model)
    np.testing.assert_allclose(fast.params, plain.params, rtol=1e-3, atol=1e-6)


def test_clients_on_two_devices_share_one_module() -> None:
    """Callbacks come from two threads then; in a process of its own, as JAX fixes its devices at its first use."""
    code = """
import jax
jax.config.update("jax_num_cpu_devices", 2)
from torch import nn
from ofediq import methods, models, simulation, streams
stream = streams.partition(streams.load("digits"), clients=7, steps=6, seed=1)
model = models.from_torch(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), "classification", chunk=2)
method = methods.fedomd(period=2, step_size=0.1)
one = simulation.simulate(method, stream, model)
two = simulation.simulate(method, stream, model, mesh=simulation.client_mesh(2))
print(abs(one.params - two.params).max())
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert float(found.stdout) < 1e-6


def test_runs_repeat_bit_for_bit_whatever_threads_torch_uses_elsewhere(digits: Stream) -> None:
    method = methods.ofediq(rate=0.6, levels=4, blocks=5, period=2, step_size=0.1)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            results.append(simulate(method, digits, from_torch(two_layers, "classification")).params)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[1], results[2])


def test_a_function_is_called_with_torch_seeded_and_nothing_else_notices() -> None:
    model = from_torch(two_layers, "classification")
    state = torch.get_rng_state()
    np.testing.assert_array_equal(model.initial(5), model.initial(5))
    assert (model.initial(5) != model.initial(6)).any()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_module_is_copied_and_starts_where_it_is() -> None:
    module = nn.Sequential(nn.Linear(2, 1), nn.Dropout(0.5)).train()
    model = from_torch(module, "regression")
    expected = torch.cat([value.detach().reshape(-1) for value in module.parameters()]).numpy()
    np.testing.assert_array_equal(model.initial(9), expected)
    assert module.training
    x = np.ones((1, 2), np.float32)
    assert model.predict(expected, x).item() == pytest.approx(expected.sum(), rel=1e-6)  # dropout is off


def test_frozen_and_shared_parameters_count_as_torch_counts_them() -> None:
    first, shared = nn.Linear(3, 3), nn.Linear(3, 3)
    first.weight.requires_grad_(False)
    model = from_torch(nn.Sequential(first, shared, nn.ReLU(), shared), "classification")
    assert [name for name, _ in model.shapes] == ["0.bias", "1.weight", "1.bias"]
    assert model.dim == 3 + 9 + 3
    x, y = np.ones((2, 3), np.float32), np.array([0, 2])
    gradients = model.client_gradients(model.initial(), x, y)
    module = nn.Sequential(first, shared, nn.ReLU(), shared)
    nn.functional.cross_entropy(module(torch.tensor(x[1:])), torch.tensor(y[1:])).backward()
    expected = torch.cat([p.grad.reshape(-1) for p in (first.bias, shared.weight, shared.bias)]).numpy()
    np.testing.assert_allclose(gradients[1], expected, rtol=1e-4, atol=1e-6)


def test_a_convolution_takes_images() -> None:
    module = nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 10))
    model = from_torch(module, "classification")
    data = streams.load("digits")
    gradients = model.client_gradients(model.initial(), data.x[:3], data.y[:3])
    assert gradients.shape == (3, 2 * 9 + 2 + 73 * 10)


@pytest.mark.parametrize(
    ("module", "settings", "sentence"),
    [
        (3, {}, "`module` must be an nn.Module or a function from a seed to one, got 3"),
        (lambda seed: seed, {}, "`module` must give an nn.Module for a seed, got 0"),
        (nn.ReLU(), {}, "`module` must have parameters that require a gradient, got ReLU"),
        (nn.LazyLinear(2), {}, "`module` must know its shapes: call it once with a batch"),
        (nn.Linear(2, 2), {"task": "ranking"}, "`task` must be one of classification, regression"),
        (nn.Linear(2, 2), {"chunk": 0}, "`chunk` must be an integer >= 1, got 0"),
        (nn.Linear(2, 2), {"threads": 0}, "`threads` must be an integer >= 1, got 0"),
    ],
)
def test_bad_arguments_get_one_sentence(module: Any, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        from_torch(module, **({"task": "classification"} | settings))


@pytest.mark.parametrize(
    ("module", "task", "sentence"),
    [
        (nn.Linear(5, 2), "classification", r"`module` must take a batch of float32 samples of shape \[4\]"),
        (nn.LSTM(4, 2), "classification", "`module` must give one tensor, got tuple"),
        (nn.Linear(4, 2), "classification", "`module` must give a score for every label, got 2 for label 2"),
        (nn.Linear(4, 2), "regression", r"`module` must give one number per sample, got shape \[2\]"),
        (
            nn.Linear(4, 1),
            "classification",
            r"`module` must give one score per class and sample, got shape \[1\]",
        ),
    ],
)
def test_what_does_not_fit_shows_before_the_run(module: Any, task: Any, sentence: str) -> None:
    model = from_torch(module, task)
    with pytest.raises(InputError, match=sentence):
        model.evaluate(model.initial(), np.ones((1, 4), np.float32), np.full(1, 2, np.int32))
