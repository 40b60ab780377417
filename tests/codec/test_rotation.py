from __future__ import annotations

import jax
import numpy as np
import pytest

from ofediq.codec.kit import rotate_rows, rotate_rows_back, rotation_blocks


def words(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 2**32, shape, dtype=np.uint32)


def test_a_window_is_signs_and_then_the_hadamard_matrix() -> None:
    pair = np.array([[1, 1], [1, -1]])
    matrix = np.kron(np.kron(pair, pair), pair) / np.sqrt(8)
    rows = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    bits = words((3, 8))
    signs = np.where(bits >= 2**31, -1, 1)
    np.testing.assert_allclose(rotate_rows(rows, bits), (rows * signs) @ matrix, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 31, 32, 33, 1000, 6966, 8192])
def test_lengths_stay_and_the_way_back_is_exact_up_to_rounding(size: int) -> None:
    rows = np.random.default_rng(0).standard_normal((2, size)).astype(np.float32)
    there = rotate_rows(rows, words((2, size)))
    np.testing.assert_allclose(np.linalg.norm(there, axis=1), np.linalg.norm(rows, axis=1), rtol=1e-5)
    np.testing.assert_allclose(rotate_rows_back(there, words((2, size))), rows, atol=1e-5)


@pytest.mark.parametrize("place", [0, 3000, 6965])
def test_one_large_coordinate_is_spread_over_the_block(place: int) -> None:
    rows = np.zeros((1, 6966), np.float32)
    rows[0, place] = 1
    assert np.abs(rotate_rows(rows, words((1, 6966)))).max() < 8 / np.sqrt(6966)


@pytest.mark.parametrize("size", [8, 100])
def test_numpy_and_jax_agree(size: int) -> None:
    rows = np.random.default_rng(0).standard_normal((4, 3, size)).astype(np.float32)
    bits = words((4, 3, size))
    for function in (rotate_rows, rotate_rows_back):
        np.testing.assert_allclose(jax.jit(function)(rows, bits), function(rows, bits), atol=1e-6)


@pytest.mark.parametrize(("dim", "blocks"), [(1, 1), (8192, 1), (8193, 2), (34826, 5)])
def test_a_block_has_at_most_8192_coordinates(dim: int, blocks: int) -> None:
    assert rotation_blocks(dim) == blocks
