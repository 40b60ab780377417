"""The arithmetic that the device (NumPy) and the simulator (JAX inside jit) share."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ofediq.codec.arithmetic import TINY, row_means
from ofediq.codec.kit import (
    MAX_NORM,
    block_norms,
    short_norms,
    signed_symbols,
    stochastic_levels,
    symbol_values,
)
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


WILD = st.tuples(st.integers(1, 600), st.integers(0, 2**32 - 1), st.floats(-60, 120), st.floats(0, 60))


def wild(size: int, seed: int, exponent: float, spread: float) -> NDArray[np.float32]:
    """Seven rows around 2^exponent whose coordinates differ by factors of 2^spread; some are 0 or subnormal."""
    rng = np.random.default_rng(seed)
    powers = exponent + spread * rng.standard_normal((7, size))
    rows = (
        rng.standard_normal((7, size)) * np.exp2(np.clip(powers, -145, 126)) * (rng.random((7, size)) < 0.8)
    )
    return np.clip(rows, -3e38, 3e38).astype(np.float32)


@given(WILD)
def test_norms_are_never_below_the_largest_size_and_near_the_exact_ones(
    case: tuple[int, int, float, float],
) -> None:
    rows = wild(*case)
    largest, exact = np.abs(rows).max(1), np.sqrt(np.square(rows.astype(np.float64)).sum(1))
    norms = block_norms(rows)[:, 0]
    assert ((norms == 0) == (largest < TINY)).all()
    live = norms > 0
    assert (norms[live] >= np.minimum(largest, MAX_NORM)[live]).all()
    np.testing.assert_allclose(norms[live], np.minimum(exact, MAX_NORM)[live], rtol=1e-4)


@given(WILD)
@settings(max_examples=40)
def test_norms_and_means_have_the_same_bits_in_jax(case: tuple[int, int, float, float]) -> None:
    rows = wild(min(case[0], 9) if case[0] % 2 else 500, *case[1:])  # few shapes: each is compiled
    for measure in (block_norms, row_means):
        np.testing.assert_array_equal(np.asarray(jax.jit(measure)(rows)), measure(rows))


@pytest.mark.parametrize("size", [2**15 - 1, 2**15 + 1, 100_000])
def test_long_rows_in_pieces(size: int) -> None:
    rows = np.random.default_rng(1).standard_normal((2, size)).astype(np.float32)
    exact = np.sqrt(np.square(rows.astype(np.float64)).sum(1))
    np.testing.assert_allclose(block_norms(rows)[:, 0], exact, rtol=1e-6)
    np.testing.assert_allclose(row_means(rows)[:, 0], np.abs(rows).mean(1, np.float64), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(jax.jit(block_norms)(rows)), block_norms(rows))


def test_what_has_diverged_stays_so() -> None:
    rows = np.array([[np.nan, 1], [3, 4]], np.float32)
    assert np.isnan(block_norms(rows)[0, 0])
    assert block_norms(rows)[1, 0] == 5
