from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.codec.blocks import tiles
from ofediq.codec.kit import block_layout
from ofediq.errors import InputError


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 100))
def test_blocks_cover_the_vector_in_order_and_differ_by_at_most_one(
    dim: int, blocks: int, limit: int
) -> None:
    blocks = min(blocks, dim)
    runs = block_layout(dim, blocks)
    rows = [row for run in runs for row in run.rows(np.arange(dim))]
    sizes = [len(row) for row in rows]
    assert len(rows) == blocks
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)
    np.testing.assert_array_equal(np.concatenate(rows), np.arange(dim))


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 100))
def test_tiles_are_small_and_know_their_blocks(dim: int, blocks: int, limit: int) -> None:
    blocks = min(blocks, dim)
    runs = block_layout(dim, blocks)
    owner, seen = np.empty(dim, int), np.full(dim, -1)
    for run in runs:
        run.rows(owner)[...] = run.column(np.arange(blocks))
    for tile in tiles(runs, limit):
        assert tile.blocks * tile.size <= limit
        tile.rows(seen)[...] = tile.column(np.arange(blocks))
    np.testing.assert_array_equal(seen, owner)


def test_axes_before_the_last_one_stay() -> None:
    runs = block_layout(7, 3)
    assert [run.rows(np.zeros((5, 7))).shape for run in runs] == [(5, 1, 3), (5, 2, 2)]
    assert [run.column(np.zeros((5, 3))).shape for run in runs] == [(5, 1, 1), (5, 2, 1)]


def test_more_blocks_than_coordinates_are_refused() -> None:
    with pytest.raises(InputError, match="`blocks` must be an integer from 1 to 3, got 4"):
        block_layout(3, 4)
