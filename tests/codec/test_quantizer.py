"""The quantiser of Definition 2. Seeds are fixed; statistical bounds are 5 sigma, false alarms about 1e-6."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from ofediq.codec import Message, quantize
from ofediq.codec.arithmetic import TINY
from ofediq.codec.kit import MAX_NORM, block_layout
from ofediq.errors import InputError
from ofediq.randomness import Purpose, stream_key, uniform

from .vectors import KINDS, Vector, vector

SETTINGS = [(1, 1), (1, 7), (3, 7), (17, 1), (17, 64)]
REPEATS = 600
SIGMAS = 5.0


def repeated(values: Vector, levels: int, blocks: int, norm_bits: int = 32) -> NDArray[np.float64]:
    """Independent quantisations of `values`, one per row."""
    made = [
        quantize(values, levels=levels, blocks=blocks, seed=11, step=step, norm_bits=norm_bits)
        for step in range(REPEATS)
    ]
    return np.array([message.dequantize() for message in made], np.float64)


@cache
def errors_of(kind: str, levels: int, blocks: int) -> NDArray[np.float64]:
    values = vector(kind, 64)
    return repeated(values, levels, blocks) - values


def largest_chi_square(freedom: int) -> float:
    """Exceeded with probability below 1e-6 (Laurent and Massart: n + 2 sqrt(n x) + 2 x has tail e^-x)."""
    return float(freedom + 2 * np.sqrt(14 * freedom) + 28)


def definition(values: Vector, levels: int, blocks: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Size of one level, and the fraction to be rounded, of each coordinate: Definition 2 in float64."""
    unit = np.empty(values.size)
    for run in block_layout(values.size, blocks):
        rows = run.rows(values).astype(np.float64)
        run.rows(unit)[...] = np.sqrt((rows**2).sum(axis=1, keepdims=True)) / levels
    scaled = np.abs(values) / np.where(unit > 0, unit, 1)
    return unit, scaled - np.floor(scaled)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("levels", "blocks"), SETTINGS)
def test_unbiased(kind: str, levels: int, blocks: int) -> None:
    values, errors = vector(kind, 64), errors_of(kind, levels, blocks)
    unit, fraction = definition(values, levels, blocks)
    variance = unit**2 * fraction * (1 - fraction)
    random = variance > 1e-6 * unit**2
    scores = errors.mean(axis=0)[random] / np.sqrt(variance[random] / REPEATS)
    assert (scores**2).sum() < largest_chi_square(random.sum())
    assert np.abs(errors[:, ~random]).max(initial=0) <= 1e-5 * np.abs(values).max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("levels", "blocks"), SETTINGS)
def test_variance_is_the_definitions_and_within_its_bound(kind: str, levels: int, blocks: int) -> None:
    values = vector(kind, 64)
    unit, fraction = definition(values, levels, blocks)
    variance = (unit**2 * fraction * (1 - fraction)).sum()
    total = (errors_of(kind, levels, blocks) ** 2).sum(axis=1)
    spread = SIGMAS * total.std() / np.sqrt(REPEATS)
    longest = -(-64 // blocks)
    bound = min(longest / levels**2, np.sqrt(longest) / levels) * float(
        (values.astype(np.float64) ** 2).sum()
    )
    assert abs(total.mean() - variance) <= spread + 1e-6 * (unit**2).sum()
    assert total.mean() <= bound + spread


def test_short_norms_leave_the_quantiser_unbiased() -> None:
    values = vector("gaussian", 64)
    errors = repeated(values, 3, 7, norm_bits=16) - values
    scores = errors.mean(axis=0) / (errors.std(axis=0) / np.sqrt(REPEATS))
    assert (scores**2).sum() < largest_chi_square(64)


@pytest.mark.parametrize("levels", [1, 3, 17, 1000])
def test_one_block_is_qsgd(levels: int) -> None:
    # QSGD: with l = floor(s |v_i| / ||v||), round up to l + 1 with probability s |v_i| / ||v|| - l.
    values = vector("gaussian", 5000)
    key = stream_key(5, 6, 7, Purpose.ROUND)
    draws = uniform(key, np.arange(5000)).astype(np.float64)
    ratio = levels * np.abs(values.astype(np.float64)) / np.linalg.norm(values.astype(np.float64))
    expected = np.sign(values) * (np.floor(ratio) + (draws < ratio - np.floor(ratio)))
    decided = np.abs(draws - (ratio - np.floor(ratio))) > 1e-4  # float32 may differ on the edge
    message = quantize(values, levels=levels, blocks=1, seed=5, step=6, client=7)
    np.testing.assert_array_equal(message.symbols[decided], expected[decided])
    assert decided.mean() > 0.999


@pytest.mark.parametrize("exponent", [-70, -40, -1, 1, 40, 110])
def test_powers_of_two_change_norms_only(exponent: int) -> None:
    values = vector("gaussian", 999)
    plain = quantize(values, levels=5, blocks=10, seed=3)
    scaled = quantize(np.ldexp(values, exponent), levels=5, blocks=10, seed=3)
    np.testing.assert_array_equal(scaled.symbols, plain.symbols)
    np.testing.assert_array_equal(scaled.norms, np.ldexp(plain.norms, exponent))


def test_flipping_signs_flips_symbols_only() -> None:
    values = vector("heavy", 999)
    signs = np.where(np.arange(999) % 3, 1, -1).astype(np.float32)
    plain = quantize(values, levels=5, blocks=10, seed=3)
    flipped = quantize(values * signs, levels=5, blocks=10, seed=3)
    np.testing.assert_array_equal(flipped.symbols, plain.symbols * signs)
    np.testing.assert_array_equal(flipped.norms, plain.norms)


def test_zero_blocks_stay_zero() -> None:
    message = quantize([0.0, 0.0, 3.0, 0.0], levels=4, blocks=2, seed=0)
    assert message.norms.tolist() == [0.0, 3.0]
    assert message.dequantize().tolist() == [0.0, 0.0, 3.0, 0.0]


def test_a_block_per_coordinate_loses_nothing() -> None:
    values = vector("heavy", 200)
    message = quantize(values, levels=1, blocks=200, seed=0)
    np.testing.assert_array_equal(message.dequantize(), values)


@pytest.mark.parametrize("blocks", [1, 3, 100])
@pytest.mark.parametrize("levels", [1, 3, 2**15])
@pytest.mark.parametrize("size", [3.4e38, 1e38, 1e-24])
def test_extreme_blocks_get_no_norm_of_zero_or_infinity(size: float, levels: int, blocks: int) -> None:
    message = quantize(np.full(100, size), levels=levels, blocks=blocks, seed=0)
    assert (message.norms >= min(size, MAX_NORM) * (1 - 1e-6)).all()
    assert (message.norms <= MAX_NORM).all()
    assert np.isfinite(message.dequantize()).all()


def test_huge_blocks_are_unbiased_although_their_norm_is_clipped() -> None:
    values = np.full(50, 2.5e38, np.float32)  # norm 1.8e39
    mean = repeated(values, 2, 1).mean(axis=0) / 2.5e38
    assert np.abs(mean - 1).max() < SIGMAS * 0.36 / np.sqrt(REPEATS)  # levels of 0.68: deviation at most 0.34


@pytest.mark.parametrize("norm_bits", [16, 32])
def test_tiny_blocks_count_as_zeros(norm_bits: int) -> None:
    values = np.array([TINY, 0.99 * TINY, 1e-44, -1.0])
    message = quantize(values, levels=1, blocks=4, seed=0, norm_bits=norm_bits)
    assert (message.norms > 0).tolist() == [True, False, False, True]
    assert (message.symbols != 0).tolist() == [True, False, False, True]


def test_draws_are_addressed_by_seed_step_and_client() -> None:
    values = vector("gaussian", 100)
    made = [
        quantize(
            values, levels=3, blocks=5, seed=seed, norm_bits=16, step=step, client=client
        ).symbols.tolist()
        for seed, step, client in ((8, 4, 6), (8, 4, 6), (9, 4, 6), (8, 5, 6), (8, 4, 7))
    ]
    assert made[0] == made[1]
    assert all(made[0] != other for other in made[2:])


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"levels": 0}, "`levels` must be an integer from 1 to 32768, got 0"),
        ({"levels": 2**15 + 1}, "`levels` must be an integer from 1 to 32768, got 32769"),
        ({"blocks": 4}, "`blocks` must be an integer from 1 to 3, got 4"),
        ({"norm_bits": 8}, "`norm_bits` must be 16 or 32, got 8"),
        ({"seed": 0.5}, "`seed` must be an integer from"),
        ({"step": -1}, "`step` must be an integer from 0"),
        ({"client": 2**32}, "`client` must be an integer from 0 to 4294967295"),
        ({"vector": [1.0, float("inf"), 0.0]}, "`vector` must be finite in float32, got inf at index 1"),
        ({"vector": np.array([1.0, 1e39, 0.0])}, "`vector` must be finite in float32, got inf at index 1"),
        ({"vector": []}, "`vector` must be one-dimensional and not empty"),
        ({"vector": [[1.0, 2.0, 3.0]]}, "`vector` must be one-dimensional and not empty"),
        ({"vector": [[1.0], [2.0, 3.0]]}, "`vector` must be one-dimensional, got rows of different lengths"),
        ({"vector": ["a", "b", "c"]}, "`vector` must hold real numbers"),
        ({"vector": [1j, 2j, 3j]}, "`vector` must hold real numbers"),
    ],
)
def test_wrong_arguments_get_one_sentence(changed: dict[str, object], sentence: str) -> None:
    arguments: dict[str, object] = {"vector": [1.0, 2.0, 3.0], "levels": 3, "blocks": 1, "seed": 0}
    with pytest.raises(InputError) as caught:
        quantize(**{**arguments, **changed})  # type: ignore[arg-type]  # wrong on purpose
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"symbols": np.array([4, 0], np.int32)}, "`symbols` must lie in [-3, 3], got 4"),
        ({"symbols": np.array([-4, 0], np.int32)}, "`symbols` must lie in [-3, 3], got -4"),
        ({"symbols": np.array([1, 0, 0], np.int32)}, "`symbols` must be an array of 2 int32"),
        ({"symbols": np.array([1, 0])}, "`symbols` must be an array of 2 int32, got int64"),
        ({"norms": np.array([-1], np.float32)}, "`norms` must lie in"),
        ({"norms": np.array([np.nan], np.float32)}, "`norms` must lie in"),
        ({"norms": np.array([3.4028235e38], np.float32)}, "`norms` must lie in"),
        ({"norms": np.array([0], np.float32)}, "`symbols` must be 0 in a block of norm 0"),
        ({"norms": np.array([1.1], np.float32), "norm_bits": 16}, "`norms` must have 16 significant bits"),
        ({"levels": 0}, "`blocks` must be 0 in a raw message, got 1"),
        ({"dim": 0}, "`dim` must be an integer from 1"),
    ],
)
def test_a_message_that_breaks_a_rule_cannot_exist(changed: dict[str, object], sentence: str) -> None:
    parts: dict[str, object] = {"dim": 2, "levels": 3, "blocks": 1}
    parts |= {"symbols": np.array([1, -3], np.int32), "norms": np.ones(1, np.float32)}
    with pytest.raises(InputError) as caught:
        Message(**{**parts, **changed})  # type: ignore[arg-type]  # wrong on purpose
    assert sentence in str(caught.value)


def test_the_arrays_of_a_message_are_read_only() -> None:
    source = np.ones(3, np.float32)
    message = Message.raw(source)
    source[0] = 9
    assert message.values.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        message.values[0] = 2
