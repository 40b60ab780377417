"""The arithmetic that the device (NumPy) and the simulator (JAX inside jit) share."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from ofediq.codec import block_norms, short_norms, signed_symbols, stochastic_levels, symbol_values
from ofediq.randomness import Purpose, stream_key, uniform

ROWS = np.random.default_rng(0).standard_normal((700, 45)).astype(np.float32)
DRAWS = uniform(stream_key(1, 2, 3, Purpose.ROUND), np.arange(ROWS.size)).reshape(ROWS.shape)


@pytest.mark.parametrize("levels", [1, 3, 17, 1000, 2**15])
def test_symbols_and_values_have_the_same_bits_inside_jit(levels: int) -> None:
    norms = block_norms(ROWS)

    @jax.jit
    def both(rows: jax.Array, norms: jax.Array, draws: jax.Array) -> tuple[jax.Array, jax.Array]:
        symbols = signed_symbols(rows, norms, draws, levels)
        return symbols, symbol_values(symbols, norms, levels)

    symbols, values = both(ROWS, norms, DRAWS)
    expected = signed_symbols(ROWS, norms, DRAWS, levels)
    np.testing.assert_array_equal(np.asarray(symbols), expected)
    np.testing.assert_array_equal(np.asarray(values), symbol_values(expected, norms, levels))


def test_rounding_errors_above_the_last_level_stay_on_it() -> None:
    above = np.nextafter(np.float32(3), np.float32(4), dtype=np.float32)
    assert stochastic_levels(np.array([above]), np.array([2**-24], np.float32), levels=3).tolist() == [3]


def test_norms_inside_jit_agree_to_rounding() -> None:
    np.testing.assert_allclose(np.asarray(jax.jit(block_norms)(ROWS)), block_norms(ROWS), rtol=1e-6)


def test_short_norms_have_the_same_bits_inside_jit() -> None:
    norms, draws = block_norms(ROWS), DRAWS[:, :1]
    np.testing.assert_array_equal(np.asarray(jax.jit(short_norms)(norms, draws)), short_norms(norms, draws))


@pytest.mark.parametrize("norm", [1.0, 1.2345678, 1.9999999, 3e-5, 2.9e38, 1e-40, 7e-45])
def test_short_norms_are_exactly_unbiased(norm: float) -> None:
    # One draw in the middle of each of 2^15 equal cells: the mean over them is the expectation.
    draws = ((np.arange(2**15) + 0.5) / 2**15).astype(np.float32)
    norms = np.full(2**15, norm, np.float32)
    rounded = short_norms(norms, draws)
    assert rounded.astype(np.float64).mean() == np.float64(norms[0])
    assert not (rounded.view(np.uint32) & 0x7FFF).any()
    assert len(np.unique(rounded)) <= 2


def test_short_norms_stop_at_their_largest() -> None:
    largest = np.array([0xFEFF << 15], np.uint32).view(np.float32)
    assert short_norms(np.array([3.4e38], np.float32), np.array([1e-7], np.float32)) == largest


def test_norms_are_right_to_the_last_bit_in_long_blocks() -> None:
    rows = np.random.default_rng(1).standard_normal((2, 100_000)).astype(np.float32)
    exact = [np.float32(np.sqrt(sum(float(x) ** 2 for x in row))) for row in rows]
    assert block_norms(rows)[:, 0].tolist() == exact
