"""The pieces of a method, one by one."""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytest

from ofediq import codec, methods
from ofediq.errors import InputError
from ofediq.methods import Participation
from ofediq.randomness import Address


def test_bernoulli_frequency_and_independence() -> None:
    # 2,000 steps x 50 clients at p = 0.3: five standard deviations of a binomial; fixed seed.
    ids = np.arange(50)
    drawn = np.array([methods.bernoulli(0.3).active(0, step, ids, 50) for step in range(2000)])
    assert abs(drawn.mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / drawn.size)
    correlation = np.corrcoef(drawn.T) - np.eye(50)
    assert np.abs(correlation).max() < 5 / np.sqrt(2000)
    lagged = [np.corrcoef(drawn[1:, k], drawn[:-1, k])[0, 1] for k in ids]
    assert np.abs(lagged).max() < 5 / np.sqrt(2000)


def test_per_client_rates() -> None:
    rates = [0.05, 0.5, 1.0]
    drawn = np.array([methods.bernoulli(rates).active(1, step, np.arange(3), 3) for step in range(4000)])
    assert (
        np.abs(drawn.mean(0) - rates) <= 5 * np.sqrt(np.multiply(rates, np.subtract(1, rates)) / 4000)
    ).all()
    assert drawn[:, 2].all()


@pytest.mark.parametrize(
    ("rate", "clients", "count"), [(0.086, 1000, 86), (0.02, 50, 1), (0.3, 10, 3), (1.0, 7, 7)]
)
def test_fixed_size_is_exact_and_fair(rate: float, clients: int, count: int) -> None:
    piece = methods.fixed_size(rate)
    drawn = np.array([piece.active(0, step, np.arange(clients), clients) for step in range(300)])
    assert (drawn.sum(1) == count).all()
    np.testing.assert_allclose(piece.rates(clients), count / clients)
    expected = 300 * count / clients
    assert np.abs(drawn.sum(0) - expected).max() <= 5 * np.sqrt(expected) + 1


@pytest.mark.parametrize(
    "piece",
    [
        methods.bernoulli(0.4),
        methods.fixed_size(0.4),
        methods.fixed_size(0.02),
        methods.bernoulli([0.2] * 30),
    ],
)
def test_a_client_alone_a_server_and_the_simulator_draw_the_same(piece: Participation) -> None:
    together = np.asarray(piece.active(3, 8, np.arange(30), 30))
    alone = [bool(np.asarray(piece.active(3, 8, np.array([k]), 30))[0]) for k in range(30)]
    compiled = jax.jit(lambda seed, step, ids: piece.active(seed, step, ids, 30))
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together, compiled(np.uint32(3), np.int32(8), np.arange(30)))


@pytest.mark.parametrize(("levels", "blocks"), [(1, 1), (3, 14), (17, 650), (7, 1)])
@pytest.mark.parametrize("coding", ["packed", "entropy"])
def test_quantize_in_bulk_is_what_the_receiver_decodes(
    levels: int, blocks: int, coding: codec.SymbolCoding
) -> None:
    piece = methods.quantize(levels, blocks, coding=coding)
    updates = np.random.default_rng(0).standard_normal((5, 650)).astype(np.float32)
    updates[2] = 0
    sent, bits = piece.apply(updates, Address(1, 9, np.arange(5)))
    compiled, compiled_bits = jax.jit(piece.apply)(updates, Address(1, 9, np.arange(5)))
    np.testing.assert_allclose(compiled, sent, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(compiled_bits, bits, rtol=1e-4)
    for k in range(5):
        message = piece.encode(updates[k], Address(1, 9, k))
        received = piece.decode(message, 650, Address(1, 9, k))
        np.testing.assert_allclose(received, sent[k], rtol=1e-5, atol=1e-6)
        real = message.bits
        assert real <= piece.formula_bits(650)
        assert real == bits[k] if coding == "packed" else abs(real - bits[k]) <= 0.02 * real + 64


def test_mirror_maps_go_there_and_back() -> None:
    weights = np.array([0.1, 0.2, 0.7], np.float32)
    for name in ("euclidean", "simplex", "positive"):
        mirror = methods.mirror_map(name)
        np.testing.assert_allclose(mirror.back(mirror.dual(weights)), weights, rtol=1e-6)
    moved = methods.mirror_map("simplex").back(np.log(weights) - np.array([100.0, 0.0, 0.0], np.float32))
    assert moved.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(methods.mirror_map("simplex").start(np.zeros(4)), 0.25)


def test_entropic_step_is_the_exponentiated_gradient() -> None:
    weights, gradient = np.array([0.5, 0.25, 0.25], np.float32), np.array([1.0, -1.0, 0.0], np.float32)
    rule = methods.local_ogd(0.3, methods.mirror_map("simplex"))
    expected = weights * np.exp(-0.3 * gradient)
    np.testing.assert_allclose(rule.step(weights, gradient), expected / expected.sum(), rtol=1e-6)


def test_any_optax_transformation_is_a_server_rule() -> None:
    params, total = np.ones(3, np.float32), np.array([4.0, -8.0, 0.0], np.float32)
    rule = methods.optimizer(optax.sgd(0.5), "sgd")
    moved, _ = rule.apply(params, total, 4, rule.init(params))
    np.testing.assert_allclose(moved, methods.descend(0.5).apply(params, total, 4, ())[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: methods.bernoulli(0.0), r"`rate` must lie in \(0, 1\], got 0.0"),
        (lambda: methods.bernoulli([0.5, 1.5]), r"`rate` must lie in \(0, 1\], got 1.5"),
        (lambda: methods.bernoulli([]), "`rate` must have one entry per client"),
        (lambda: methods.fixed_size(2), r"`rate` must lie in \(0, 1\], got 2"),
        (lambda: methods.quantize(0, 1), "`levels` must be an integer from 1 to 32768, got 0"),
        (lambda: methods.quantize(3, 0), "`blocks` must be an integer >= 1, got 0"),
        (lambda: methods.quantize(3, 1, coding="zip"), "`coding` must be one of packed, entropy, got 'zip'"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: methods.descend(-1), "`step_size` must be a finite number > 0, got -1"),
        (lambda: methods.local_ogd(float("nan")), "`step_size` must be a finite number > 0, got nan"),
        (
            lambda: methods.mirror_map("log"),
            "`mirror` must be one of euclidean, simplex, positive, got 'log'",
        ),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]  # a lambda
