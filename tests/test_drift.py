"""The test for drift: silent while nothing changes, soon after something has, with few numbers kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.drift import DriftTest, alarms


@pytest.mark.parametrize("kind", ["exponential", "heavy", "constant", "falling"])
def test_silent_while_nothing_gets_worse(kind: str) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        losses = {
            "exponential": rng.exponential(size=3000),
            "heavy": rng.standard_t(2.5, size=3000) ** 2,
            "constant": np.ones(3000),
            "falling": rng.exponential(size=3000) * (1 + 10 / np.arange(1, 3001) ** 0.5),
        }[kind]
        assert alarms(losses) == []


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_change_is_seen_whatever_the_scale(scale: float) -> None:
    rng = np.random.default_rng(1)
    losses = rng.exponential(size=2000) * np.where(np.arange(2000) < 1000, 1.0, 3.0) * scale
    found = alarms(losses)
    assert len(found) == 1
    assert 1000 < found[0] < 1060


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=200))
def test_any_numbers(losses: list[float]) -> None:
    test = DriftTest()
    for loss in losses:
        test.add(loss)


def test_few_numbers_are_kept() -> None:
    test = DriftTest()
    for loss in np.random.default_rng(0).exponential(size=20_000):
        test.add(float(loss))
    assert sum(len(row) for row in test._sizes) <= 5 * (1 + math.log2(20_000))
