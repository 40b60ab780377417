"""Methods drawn at random: engine, oracle and live protocol agree. `benchmarks/fuzz_methods.py` tries many."""

from __future__ import annotations

import pytest

from tests.methods.compositions import assert_engine_agrees, assert_live_agrees, drawn


@pytest.mark.parametrize("seeds", [range(50), range(50, 100)], ids=str)
def test_live_federations_come_to_the_oracles_model(seeds: range) -> None:
    for seed in seeds:
        case = drawn(seed)
        try:
            assert_live_agrees(case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from None


@pytest.mark.parametrize("seed", [4, 225, 771])
def test_what_was_found_stays_mended(seed: int) -> None:
    """A grid without norms in the kernels; robust combinations of messages that are shorter than the model."""
    assert_live_agrees(drawn(seed))
    assert_engine_agrees(drawn(seed))
