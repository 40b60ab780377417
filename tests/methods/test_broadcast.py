"""The server's broadcast: unbiased differences, refreshes, and the same numbers in NumPy, JAX and on the wire."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest

from ofediq import methods
from ofediq.codec import SymbolCoding
from ofediq.errors import InputError
from ofediq.randomness import Address

RNG = np.random.default_rng(0)
MODEL, COPY = RNG.standard_normal((2, 650)).astype(np.float32)


def test_differences_are_unbiased_and_as_exact_as_promised() -> None:
    # 2,000 broadcasts of one difference: in every coordinate the mean copy lies within 5 standard errors of the
    # model, or 14 of 2,000 levels where levels are rare (exp(-14): a false alarm has probability below 1e-3).
    piece = methods.delta(levels=7, blocks=14)
    copies = np.array([piece.send(MODEL, COPY, 0, step, step)[0] for step in range(1, 2001)])
    error = np.abs(copies.mean(0) - MODEL)
    level = np.linalg.norm(MODEL - COPY) / 7
    rare = np.ptp(copies, axis=0) == 0
    assert (error <= 5 * copies.std(0) / np.sqrt(2000) + rare * 14 / 2000 * level + 1e-6).all()
    variance = ((copies - MODEL) ** 2).sum(1).mean()
    assert 0 < variance <= 47 / (4 * 7**2) * ((MODEL - COPY) ** 2).sum()  # c / (4 s^2), blocks of at most 47


def test_copies_follow_a_model_that_moves() -> None:
    piece = methods.delta(levels=7, blocks=14)
    model, copy = MODEL.copy(), MODEL.copy()
    omega, distances = 47 / (4 * 7**2), []
    for step in range(1, 401):
        move = np.random.default_rng(step).standard_normal(650).astype(np.float32)
        model = model + move / np.linalg.norm(move)
        copy, _ = piece.send(model, copy, 0, step, step)
        distances.append(((model - copy) ** 2).sum())
    assert np.mean(distances) <= omega / (1 - np.sqrt(omega)) ** 2
    assert np.mean(distances[200:]) <= 1.2 * np.mean(distances[:200])  # it has settled


def test_refresh_restores_the_model_exactly() -> None:
    piece = methods.delta(levels=7, blocks=14, refresh=5)
    for number in range(1, 11):
        copy, bits = piece.send(MODEL, COPY, 0, number, number)
        assert np.array_equal(copy, MODEL) == (number % 5 == 0)
        assert (bits == 32 * 650) == (number % 5 == 0)


@pytest.mark.parametrize("coding", ["packed", "entropy"])
@pytest.mark.parametrize("number", [3, 4])
def test_numpy_jax_and_the_wire_agree(coding: SymbolCoding, number: int) -> None:
    piece = methods.delta(levels=7, blocks=14, refresh=4, coding=coding)
    copy, bits = piece.send(MODEL, COPY, 1, 12, number)
    compiled, compiled_bits = jax.jit(piece.send)(MODEL, COPY, 1, 12, number)
    np.testing.assert_allclose(compiled, copy, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(compiled_bits, bits, rtol=1e-4)
    message, adds = piece.encode(MODEL, COPY, 1, 12, number)
    received = piece.decode(message, adds, COPY, 650, 1, 12)
    np.testing.assert_allclose(received, copy, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(message.bits, bits, rtol=0.02 if coding == "entropy" else 0)


def test_draws_are_those_of_no_client() -> None:
    update = (MODEL - COPY)[None]
    down = methods.delta(levels=7, blocks=14).send(MODEL, COPY, 0, 1, 1)[0] - COPY
    for client in (0, 2**32 - 2):
        up, _ = methods.quantize(7, 14).apply(update, Address(0, 1, np.array([client], np.uint32)))
        assert not np.allclose(up[0], down, atol=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: methods.delta(refresh=0), "`refresh` must be an integer >= 1, got 0"),
        (lambda: methods.delta(levels=0), "`levels` must be an integer from 1 to 32768, got 0"),
        (
            lambda: methods.delta(levels=3, blocks=14).check(650),
            r"`levels` of the broadcast must exceed sqrt\(c\) / 2 for blocks of c = 47 parameters, .*, got 3",
        ),
        (
            lambda: methods.with_broadcast(methods.local(), methods.delta()),
            "`broadcast` must be whole without a server, got topology 'separate'",
        ),
        (
            lambda: methods.with_broadcast(methods.fedogd(), methods.quantize(3, 1)),  # type: ignore[arg-type]  # on purpose
            "`broadcast` must be a broadcast, such as whole",
        ),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
