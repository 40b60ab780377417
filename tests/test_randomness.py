"""The hash behind every draw. All seeds are fixed; each bound is 5 sigma, a false alarm rate of about 1e-6."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from ofediq.randomness import Key, Purpose, stream_key, uniform, words

COUNT = 1 << 16
SIGMAS = 5.0


def streams(axis: str, count: int) -> list[Key]:
    """`count` keys that differ along one axis only."""
    address = {"seed": 7, "step": 11, "client": 13, "purpose": 2}
    values = list(Purpose)[:count] if axis == "purpose" else range(count)
    keys = []
    for value in values:
        where = {**address, axis: int(value)}
        keys.append(stream_key(where["seed"], where["step"], where["client"], Purpose(where["purpose"])))
    return keys


AXES = ("seed", "step", "client", "purpose")


def test_draws_fill_256_cells_evenly() -> None:
    draws = uniform(stream_key(1, 2, 3, Purpose.ROUND), np.arange(1 << 20))
    observed = np.bincount((draws * 256).astype(int), minlength=256)
    expected = (1 << 20) / 256
    chi_square = ((observed - expected) ** 2 / expected).sum()
    assert abs(chi_square - 255) < SIGMAS * np.sqrt(2 * 255)  # chi-square with 255 degrees of freedom


def test_every_bit_of_a_word_is_fair() -> None:
    draws = words(stream_key(1, 2, 3, Purpose.ROUND), np.arange(COUNT))
    ones = np.unpackbits(draws.view(np.uint8)).reshape(COUNT, 32).sum(axis=0)
    assert np.abs(ones - COUNT / 2).max() < SIGMAS * np.sqrt(COUNT) / 2


def test_draws_are_midpoints_of_a_grid_inside_the_unit_interval() -> None:
    draws = uniform(stream_key(0, 0, 0, Purpose.ROUND), np.arange(COUNT)).astype(np.float64)
    cells = draws * 2**23 - 0.5
    assert (cells == np.floor(cells)).all()
    assert draws.min() > 0
    assert draws.max() < 1


@pytest.mark.parametrize("lag", [1, 2, 3, 64, 1 << 15])
def test_neighbours_in_a_stream_are_uncorrelated(lag: int) -> None:
    draws = uniform(stream_key(5, 6, 7, Purpose.ROUND), np.arange(COUNT + lag)).astype(np.float64) - 0.5
    correlation = 12 * (draws[lag:] * draws[:-lag]).mean()
    assert abs(correlation) < SIGMAS / np.sqrt(COUNT)


@pytest.mark.parametrize("axis", AXES)
def test_neighbouring_streams_are_uncorrelated(axis: str) -> None:
    index = np.arange(COUNT)
    draws = [uniform(key, index).astype(np.float64) - 0.5 for key in streams(axis, 6)]
    for one, other in itertools.pairwise(draws):
        assert abs(12 * (one * other).mean()) < SIGMAS / np.sqrt(COUNT)


@pytest.mark.parametrize("axis", AXES)
def test_neighbouring_streams_flip_half_of_the_bits(axis: str) -> None:
    first, second = (words(key, np.arange(COUNT)) for key in streams(axis, 2))
    flips = np.unpackbits((first ^ second).view(np.uint8)).reshape(COUNT, 32).sum(axis=0)
    assert np.abs(flips - COUNT / 2).max() < SIGMAS * np.sqrt(COUNT) / 2


@pytest.mark.parametrize("axis", AXES)
def test_streams_share_no_more_words_than_chance(axis: str) -> None:
    # Two streams that are one sequence shifted, xor-ed or otherwise reordered share thousands of words.
    # Independent ones share length^2 / 2^32 per pair: a Poisson count. One stream never repeats a word.
    length = 1 << 14
    keys = streams(axis, 64)
    everything = np.concatenate([words(key, np.arange(length)) for key in keys])
    repeats = everything.size - np.unique(everything).size
    expected = len(keys) * (len(keys) - 1) / 2 * length**2 / 2**32
    assert abs(repeats - expected) < SIGMAS * np.sqrt(expected) + 1


def test_a_long_run_never_meets_a_key_again() -> None:
    steps = np.arange(1 << 17)
    keys = [stream_key(seed, steps, 0, purpose) for seed in (0, 1) for purpose in list(Purpose)[:4]]
    joined = np.concatenate([key.first.astype(np.uint64) << np.uint64(32) | key.second for key in keys])
    assert np.unique(joined).size == joined.size  # 64-bit keys: chance repeats one of a million with p < 1e-7


def test_a_draw_does_not_depend_on_what_is_drawn_with_it() -> None:
    key = stream_key(3, 1, 4, Purpose.ORDER)
    np.testing.assert_array_equal(uniform(key, np.arange(100))[40:60], uniform(key, np.arange(40, 60)))
    together = stream_key(3, 1, np.arange(8), Purpose.ORDER)
    assert int(together.first[4]) == int(key.first[0])
    assert int(together.second[4]) == int(key.second[0])


def test_numpy_and_jitted_jax_agree_bit_for_bit() -> None:
    clients, index = np.arange(20)[:, None], np.arange(3000)

    @jax.jit
    def draw(seed: jax.Array, step: jax.Array, clients: jax.Array, index: jax.Array) -> jax.Array:
        drawn: jax.Array = uniform(stream_key(seed, step, clients, Purpose.ROUND), index)
        return drawn

    expected = uniform(stream_key(9, 8, clients, Purpose.ROUND), index)
    actual = draw(np.uint32(9), np.uint32(8), clients.astype(np.uint32), index.astype(np.uint32))
    np.testing.assert_array_equal(np.asarray(actual).view(np.uint32), expected.view(np.uint32))
