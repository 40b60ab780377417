"""Lengths, sketches and sums: the same bits with compiled code and without."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.errors import InputError
from ofediq.kernels import library
from ofediq.methods.robust.measures import added, folded, measured

pytestmark = pytest.mark.skipif(
    not library.native_status().startswith("compiled"), reason=library.native_status()
)


def both(work: Any) -> tuple[Any, Any]:
    """What `work` returns without compiled code and with it."""
    found = []
    for switch in "01":
        with mock.patch.dict(os.environ, {library.SWITCH: switch}):
            found.append(work())
    return found[0], found[1]


@given(
    st.integers(1, 5000), st.integers(0, 5), st.integers(0, 2**32 - 1), st.sampled_from([1e-30, 1.0, 1e37])
)
def test_the_same_bits_with_compiled_code(dim: int, count: int, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    rows = (rng.standard_normal((count, dim)) * size).astype(np.float32)
    signs = rng.choice(np.array([-1, 1], np.float32), dim)
    plain, compiled = both(lambda: measured(list(rows), signs, 64 << seed % 4))
    for one, other in zip(plain, compiled, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(compiled[0], np.linalg.norm(rows.astype(np.float64), axis=1), rtol=1e-12)
    factors = rng.choice([1.0, 0.3, 1e-9], count).tolist()
    one, other = both(lambda: added(list(rows), factors, dim))
    np.testing.assert_array_equal(one, other)


def test_a_wide_sketch_folds_into_the_narrow_one() -> None:
    rng = np.random.default_rng(0)
    rows, signs = list(rng.standard_normal((3, 1000)).astype(np.float32)), np.ones(1000, np.float32)
    narrow, wide = measured(rows, signs, 64)[1], measured(rows, signs, 512)[1]
    np.testing.assert_allclose(folded(wide, 64), narrow, rtol=1e-9, atol=1e-12)


def test_rows_may_be_parts_of_others() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(added(list(rows.T), [1.0] * 4, dim=3), rows.sum(1))


def test_a_vector_of_another_size_does_not_reach_c() -> None:
    with pytest.raises(InputError, match="`vectors` must have 4 numbers each, got 3"):
        added([np.zeros(3, np.float32)], [1.0], dim=4)
    with pytest.raises(InputError, match="`vectors` must have 2 numbers each, got 3"):
        measured([np.zeros(3, np.float32)], np.ones(2, np.float32))
