"""Ways to combine messages: what they are by definition, in NumPy and in JAX, whoever sent."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq import methods
from ofediq.errors import InputError
from ofediq.methods import COMBINES, combine_rule


def plain(name: str, rows: Any) -> Any:
    """By the definitions, in plain NumPy."""
    count = len(rows)
    if name == "coordinate_median":
        return count * np.median(rows, axis=0)
    if name == "trimmed_mean":
        left = int(0.1 * count + 1e-4)
        return count * np.sort(rows, axis=0)[left : count - left].mean(0)
    if name == "krum":
        apart = ((rows[:, None] - rows[None]) ** 2).sum(-1)
        used = min(max(count - int(np.float32(0.2) * count) - 2, 1), count - 1)
        scores = [np.sort(np.delete(one, place))[:used].sum() for place, one in enumerate(apart)]
        return count * rows[int(np.argmin(scores))]
    return rows.sum(0)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 12), st.integers(0, 6), st.integers(1, 5), st.integers(0, 2**20))
@pytest.mark.parametrize("name", ["sum", "coordinate_median", "trimmed_mean", "krum"])
def test_definitions(name: str, count: int, silent: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count + silent, dim)).astype(np.float32)
    sent = rng.permutation(np.arange(count + silent) < count)
    found = combine_rule(name).total(rows, sent)
    wanted = plain(name, rows[sent])
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    in_jax = combine_rule(name).total(jnp.asarray(rows), jnp.asarray(sent))
    np.testing.assert_allclose(in_jax, found, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", COMBINES)
def test_nobody_and_everybody_alike(name: str) -> None:
    rows = np.full((6, 3), 2.0, np.float32)
    np.testing.assert_array_equal(combine_rule(name).total(rows, np.zeros(6, bool)), np.zeros(3))
    np.testing.assert_allclose(combine_rule(name).total(rows, np.ones(6, bool)), np.full(3, 12.0), rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in COMBINES if name not in ("sum", "guard")])
def test_one_in_ten_moves_little(name: str) -> None:
    rng = np.random.default_rng(0)
    rows = (1 + 0.1 * rng.standard_normal((20, 8))).astype(np.float32)
    rows[:2] = -3e38
    found = combine_rule(name).total(rows, np.ones(20, bool)) / 20
    assert np.abs(found - 1).max() < 0.6


def test_what_is_not_understood_gets_a_sentence() -> None:
    with pytest.raises(InputError, match="`combine` must be one of sum"):
        combine_rule("mean")
    with pytest.raises(InputError, match="`share` must lie in"):
        combine_rule("trimmed_mean(share=0.7)")
    with pytest.raises(InputError, match="`attack` must be one of flip"):
        methods.attack("explode")
    with pytest.raises(InputError, match="`combine` must be a name"):
        combine_rule("krum(")
    with pytest.raises(InputError, match="`attack` must be a name"):
        methods.attack("flip(")


@pytest.mark.parametrize("text", ["flip(share=0.3, size=990)", "scale(size=1000)", "constant"])
def test_some_clients_are_hostile_and_the_others_are_not(text: str) -> None:
    from ofediq.randomness import Address

    piece = methods.attacked(methods.fedogd(), text).compress
    updates = np.random.default_rng(1).standard_normal((100, 4)).astype(np.float32)
    decoded, _ = piece.apply(updates, Address(0, 1, np.arange(100)))
    changed = (decoded != updates).any(1)
    assert changed.sum() == round(100 * piece.share)  # type: ignore[attr-defined]  # of `Hostile`
    one = int(np.flatnonzero(changed)[0])
    message = piece.encode(updates[one], Address(0, 1, one))
    np.testing.assert_array_equal(piece.decode(message, 4, Address(0, 1, one)), decoded[one])
