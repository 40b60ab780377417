"""Every scheme: what it promises to simulator, plain loop and live federation alike."""

from __future__ import annotations

import contextlib
import math
import tracemalloc
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ofediq import codec
from ofediq.codec import (
    Additive,
    Bucketed,
    Eden,
    Encoded,
    Grid,
    Lattice,
    Quantized,
    Raw,
    Rotated,
    Scheme,
    Signs,
    Sparse,
    WireError,
)
from ofediq.codec.kit import largest
from ofediq.errors import InputError
from ofediq.randomness import Address

from .mutations import ADDRESS, SCHEMES, live_frames, live_outcome, mutated, sealed_live, suits
from .vectors import KINDS, Vector, vector

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
IDS = np.array([4, 0, 2**32 - 1], np.uint32)


def sent_and_received(scheme: Scheme, updates: Vector, signal: Any) -> tuple[Vector, Any, Vector, list[int]]:
    """What `apply` says, and what comes out of the bytes, for clients `IDS`."""
    sent, bits = scheme.apply(updates, Address(3, 9, IDS), signal)
    received, real = [], []
    for client, update in zip(IDS.tolist(), updates, strict=True):
        address = Address(3, 9, client)
        encoded = scheme.encode(update, address, signal)
        assert 0 <= encoded.tail < 256
        received.append(scheme.decode(encoded, update.size, address, signal))
        real.append(8 * len(encoded.payload))
    return sent, bits, np.array(received), real


@given(st.data())
@settings(max_examples=150)
def test_apply_is_what_the_receiver_decodes_bit_for_bit(data: st.DataObject) -> None:
    scheme = data.draw(st.sampled_from(SCHEMES))
    dim = data.draw(st.one_of(st.integers(1, 30), st.integers(1, 300)).filter(lambda dim: suits(scheme, dim)))
    updates = data.draw(arrays(np.float32, (3, dim), elements=FLOATS, fill=st.sampled_from([0.0, 1.0])))
    signal = data.draw(st.sampled_from([1e-30, 0.01, 2.0, 1e30])) if scheme.signal else None
    with np.errstate(over="ignore"):
        sent, _, received, real = sent_and_received(scheme, updates, signal)
    np.testing.assert_array_equal(sent.view(np.uint32), received.view(np.uint32))
    assert np.isfinite(sent).all()
    assert not (real > np.float64(scheme.formula_bits(dim))).any()  # NaN: no formula


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_what_is_too_small_to_be_sent_decodes_to_zeros_without_a_sign(scheme: Scheme) -> None:
    signal = 0.0 if scheme.signal else None
    sent, _, received, _ = sent_and_received(scheme, np.full((3, 20), -1e-26, np.float32), signal)
    np.testing.assert_array_equal(sent.view(np.uint32), received.view(np.uint32))


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_the_largest_numbers_are_sent_or_cut(scheme: Scheme) -> None:
    for dim in (1, 2, 7, 20, 400):
        for update in (np.full(dim, 1e37), np.full(dim, -3.4e38), np.linspace(-3.4e38, 3.4e38, dim)):
            values = update.astype(np.float32)
            if suits(scheme, dim):
                encoded = scheme.encode(values, ADDRESS, 1.0)
                decoded = scheme.decode(encoded, dim, ADDRESS, 1.0)
                assert np.isfinite(decoded).all()


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_bits_are_those_of_the_payload(scheme: Scheme, kind: str) -> None:
    if kind == "equal" and isinstance(scheme, Bucketed):
        return  # one symbol throughout: its code ends in zeros, which are not sent
    for dim in (1, 5, 30, 400, 6000):
        if not suits(scheme, dim):
            continue
        updates = np.stack([vector(kind, dim, seed) for seed in range(3)])
        signal = np.float32(0.3) if scheme.signal else None
        _, bits, _, real = sent_and_received(scheme, updates, signal)
        exact = "entropy" not in str(scheme) and not isinstance(
            scheme, Eden | Grid | Lattice | Sparse | Rotated
        )
        for told, counted in zip(bits.tolist(), real, strict=True):
            slack = 0 if exact else 24 + 0.01 * counted
            unsent = (
                32 * scheme.shape(dim)[1] if isinstance(scheme, Bucketed) and not exact else 0
            )  # norms of 0
            assert -slack <= told - counted <= slack + unsent, (dim, told, counted)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_jax_gives_the_same(scheme: Scheme) -> None:
    updates = np.stack([vector("heavy", 650, seed) for seed in range(3)])
    signal = np.float32(0.3) if scheme.signal else None
    sent, bits = scheme.apply(updates, Address(3, 9, IDS), signal)
    apply = jax.jit(lambda updates, ids, signal: scheme.apply(updates, Address(3, 9, ids), signal))
    there, counted = apply(updates, IDS, signal)
    if isinstance(
        scheme, Eden | Lattice | Rotated
    ):  # the compiler fuses the rotation's products and sums, which rounds differently
        np.testing.assert_allclose(there, sent, rtol=1e-5, atol=1e-4 * np.abs(sent).max())
    else:
        np.testing.assert_array_equal(np.asarray(there), sent)
    np.testing.assert_allclose(counted, bits, atol=8)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_a_scheme_is_a_value(scheme: Scheme) -> None:
    again = eval(repr(scheme), dict(vars(codec)))
    assert scheme == again
    assert hash(scheme) == hash(again)
    assert scheme.name == type(scheme).__name__.lower()


@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme.unbiased], ids=str)
def test_what_is_called_unbiased_is(scheme: Scheme) -> None:
    update, repeats = vector("gaussian", 60), 3000
    sent, _ = scheme.apply(
        np.tile(update, (repeats, 1)),
        Address(1, 2, np.arange(repeats)),
        np.float32(0.7) if scheme.signal else None,
    )
    errors = sent.astype(np.float64) - update
    spread = errors.std(0) / math.sqrt(repeats)
    assert (np.abs(errors.mean(0)) <= 5 * spread + 1e-5 * np.abs(update).max()).all()


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_zeros_cost_nothing_unless_the_size_is_fixed(scheme: Scheme) -> None:
    dim = 100
    encoded = scheme.encode(np.zeros(dim), ADDRESS, 0.5 if scheme.signal else None)
    noisy = bool(getattr(scheme, "noise", 0))
    assert noisy == bool(scheme.decode(encoded, dim, ADDRESS, 0.5 if scheme.signal else None).any())
    if not isinstance(scheme, Additive | Raw) and getattr(scheme, "coding", "entropy") == "entropy":
        assert encoded == Encoded(b"")


@pytest.mark.parametrize("dim", [1, 2, 5, 10, 20])
@pytest.mark.parametrize("signal", [0.01, 1.0, 30.0])
def test_small_messages_stay_below_the_plain_numbers(dim: int, signal: float) -> None:
    """Gaussian updates with a standard deviation of 1, in a grid of step z: at most the entropy of m and 2 bytes."""
    grid = [Grid().encode(vector("gaussian", dim, seed), Address(0, 1, seed), signal) for seed in range(40)]
    mean = sum(8 * len(encoded.payload) for encoded in grid) / 40
    ideal = dim * max(0.3, math.log2(math.sqrt(2 * math.pi * math.e) / signal))
    assert mean <= min(1.1 * ideal + 16, 32 * dim)


@pytest.mark.parametrize(
    ("dim", "count"), [(20, 2), (1000, 10), (10_000, 100), (10_000, 5000), (100_000, 50)]
)
def test_positions_cost_little_more_than_the_number_of_choices(dim: int, count: int) -> None:
    update = vector("gaussian", dim)
    positions = 8 * (len(Sparse(keep=count).encode(update, ADDRESS).payload) - 4 * count)
    choices = math.log2(math.comb(dim, count))
    assert choices <= positions <= 1.01 * choices + math.log2(2 * math.pi * count) / 2 + 10


@given(
    arrays(np.float32, (4, 25), elements=st.sampled_from([0.0, 1.0, -1.0, 2.0, -2.0, 3.5])),
    st.integers(1, 25),
)
@settings(deadline=None)
def test_the_same_coordinates_are_largest_in_jax(updates: Vector, count: int) -> None:
    """Ties go to the first."""
    expected = [sorted(sorted(range(25), key=lambda i: (-abs(row[i]), i))[:count]) for row in updates]
    assert largest(updates, count).tolist() == expected
    assert np.asarray(_compiled_largest(count)(updates)).tolist() == expected


@cache
def _compiled_largest(count: int) -> Any:
    return jax.jit(lambda updates: largest(updates, count))


def test_a_grid_is_common_unless_an_update_is_too_large_for_it() -> None:
    update = vector("gaussian", 200)
    for signal, extra in ((0.5, 0), (np.abs(update).max() / 2**15 / 1.01, 40)):
        encoded = Grid().encode(update, ADDRESS, signal)
        values = Grid().decode(encoded, 200, ADDRESS, signal)
        step = signal if not extra else np.abs(update).max() / 2**15
        np.testing.assert_allclose(values / step, np.rint(values / step), atol=0.02)
        assert np.abs(values - update).max() <= 1.001 * step


def test_live_frames_of_all_schemes_survive_mutations() -> None:
    originals, rng, seen = live_frames(), np.random.default_rng(5), []
    for scheme, dim, signal, frame in originals:
        assert live_outcome(scheme, dim, signal, frame) == "accepted"
        damaged = (mutated(frame, rng, sealed_live) for _ in range(40))
        seen += [live_outcome(scheme, dim, signal, data) for data in damaged]
    assert set(seen) == {"refused", "accepted"}


@given(
    st.sampled_from(SCHEMES), st.binary(max_size=120), st.integers(0, 255), st.sampled_from([1, 3, 20, 400])
)
@settings(max_examples=300)
def test_any_bytes_are_an_update_or_refused(scheme: Scheme, payload: bytes, tail: int, dim: int) -> None:
    if not suits(scheme, dim):
        return
    try:
        update = scheme.decode(Encoded(payload, tail), dim, ADDRESS, 0.5 if scheme.signal else None)
    except WireError:
        return
    assert update.shape == (dim,)
    assert np.isfinite(update).all()


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_memory_is_bounded_by_the_dimension(scheme: Scheme) -> None:
    dim, payload = 50_000, b"\xff" + bytes(range(256)) * 40
    tracemalloc.start()
    with contextlib.suppress(WireError):
        scheme.decode(Encoded(payload), dim, ADDRESS, 0.5 if scheme.signal else None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * dim


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Quantized(levels=0, blocks=1), "`levels` must be an integer from 1 to 32768, got 0"),
        (lambda: Quantized(levels=1, blocks=0), "`blocks` must be an integer >= 1, got 0"),
        (lambda: Quantized(1, 1, "zip"), "`coding` must be one of packed, entropy, got 'zip'"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: Quantized(1, 1, norm_bits=8), "`norm_bits` must be 16 or 32, got 8"),
        (lambda: Quantized(1, 9).check(8), "`blocks` must be an integer from 1 to 8, got 9"),
        (lambda: Rotated(bits=5), "`bits` must be an integer from 1 to 4, got 5"),
        (lambda: Signs(norm_bits=8), "`norm_bits` must be 16 or 32, got 8"),
        (lambda: Sparse(keep=0), "`keep` must be an integer >= 1, got 0"),
        (lambda: Sparse(keep=1.5), r"`keep` must lie in \(0, 1\], got 1.5"),
        (lambda: Sparse(keep=9).check(8), "`keep` must be at most the 8 coordinates, got 9"),
        (lambda: Sparse(5, Quantized(1, 9)).check(8), "`blocks` must be an integer from 1 to 5, got 9"),
        (
            lambda: Grid().encode([1.0], ADDRESS),
            "`signal` must be the grid_step, a finite number >= 0, got None",
        ),
        (lambda: Grid().encode([1.0], ADDRESS, math.nan), "`signal` must be the grid_step"),
        (lambda: Raw().encode([math.inf], ADDRESS), "`update` must be finite"),
    ],
)
def test_wrong_settings_get_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()
