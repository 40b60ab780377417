"""The entropy coder's models: integers only, the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.codec import WireError
from ofediq.codec.exact import read_exact, write_exact
from ofediq.codec.stack import Stack
from ofediq.codec.tables import frequencies, magnitude_classes, read_table, write_table

WEIGHTS = st.lists(st.integers(0, 15 << 31), min_size=2, max_size=60).filter(any)


@given(WEIGHTS)
def test_frequencies_are_positive_and_fill_the_fixed_point(weights: list[int]) -> None:
    made = frequencies(np.array(weights, np.int64)).tolist()
    assert sum(made) == 2**24
    assert min(made) >= 1
    for weight, frequency in zip(weights, made, strict=True):
        assert abs(frequency - 2**24 * weight / sum(weights)) <= len(weights) + 1


@given(WEIGHTS)
def test_the_coder_uses_exactly_these_frequencies(weights: list[int]) -> None:
    # The lowest 24 bits of the coder's state pick the symbol: probe both ends of every symbol's interval.
    table = np.array(weights, np.int64)
    ends = np.cumsum(frequencies(table))
    for symbol, (first, beyond) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
        for point in (first, beyond - 1):
            state = (point | 1 << 40).to_bytes(6, "little")
            assert Stack(state).pop(1, table).tolist() == [symbol]


@given(WEIGHTS, st.integers(0, 3000), st.integers(-20, 20), st.integers(0, 2**32 - 1))
def test_symbols_come_back_and_leave_nothing(weights: list[int], count: int, lowest: int, seed: int) -> None:
    rng, table = np.random.default_rng(seed), np.array(weights, np.int64)
    symbols = rng.integers(lowest, lowest + len(weights), count, np.int32)
    more = rng.integers(0, 256, 10, np.uint8)
    stack = Stack()
    stack.push(symbols, table, lowest, first=True)
    stack.push_bytes(more)
    received = Stack(stack.to_bytes())
    np.testing.assert_array_equal(received.pop_bytes(10), more)
    np.testing.assert_array_equal(received.pop(count, table, lowest, last=True), symbols)


@given(WEIGHTS, st.integers(1, 64), st.integers(0, 2**32 - 1))
def test_the_bottom_of_a_stack_takes_the_information_and_a_byte(
    weights: list[int], count: int, seed: int
) -> None:
    made = frequencies(np.array(weights, np.int64))
    symbols = np.random.default_rng(seed).choice(len(weights), count, p=made / made.sum()).astype(np.int32)
    data = write_exact(symbols, made)
    np.testing.assert_array_equal(read_exact(data, count, made), symbols)
    assert 8 * len(data) <= np.log2(2**24 / made[symbols]).sum() + 9


@given(st.binary(max_size=30), st.integers(1, 20))
def test_any_bottom_is_read_or_refused(data: bytes, count: int) -> None:
    made = frequencies(np.array([5, 1, 2]))
    try:
        symbols = read_exact(data, count, made)
    except WireError:
        return
    assert write_exact(symbols, made) == data


def test_the_padding_of_the_last_group_is_checked() -> None:
    weights, stack = np.array([0, 5, 1]), Stack()
    # 201 symbols in pairs would be padded with the likeliest, 1.
    stack.push(np.full(202, 2, np.int32), weights, first=True)
    with pytest.raises(WireError, match="padding"):
        Stack(stack.to_bytes()).pop(201, weights, last=True)


@pytest.mark.parametrize("shares", [(0.9, 0.05, 0.05), (0.5, 0.2, 0.2, 0.05, 0.05), tuple([1 / 27] * 27)])
def test_the_code_is_as_short_as_the_entropy(shares: tuple[float, ...]) -> None:
    count = 40_000
    symbols = np.random.default_rng(0).choice(len(shares), count, p=shares).astype(np.int32)
    observed = np.bincount(symbols, minlength=len(shares))
    stack = Stack()
    stack.push(symbols, observed)
    entropy = float((observed * np.log2(count / observed)).sum())
    assert entropy - 1 <= 8 * len(stack.to_bytes()) <= entropy * 1.0005 + 64


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=113))
def test_a_table_keeps_densities_to_a_sixteenth(counts: list[int]) -> None:
    widths = magnitude_classes(2**15)[1][: len(counts)]
    table = write_table(np.array(counts), widths)
    densities, stop = read_table(table, 0, most=113)
    assert stop == len(table) == len(counts) + 1
    if any(counts):
        expected = np.array(counts) / widths
        scale = (15 << 31) / expected.max()
        small = expected * scale < 9  # the least density that a byte can say
        assert (np.abs(densities - expected * scale) <= expected * scale / 16 + 9 * small).all()
        assert ((densities > 0) == (expected > 0)).all()


def test_classes_of_magnitudes_cover_all_levels_once() -> None:
    for levels in (1, 31, 32, 35, 36, 1000, 2**15):
        firsts, widths = magnitude_classes(levels)
        assert firsts[0] == 0
        np.testing.assert_array_equal(firsts[1:], (firsts + widths)[:-1])
        assert firsts[-1] + widths[-1] == levels + 1
        assert (widths[firsts < 32] == 1).all()


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x05", b"\x03\x01\x01\x01\x01", b"\x01\x00\x00"])
def test_broken_tables_are_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="entropy table"):
        read_table(data, 0, most=3)


def test_a_code_that_ends_in_zero_is_refused() -> None:
    with pytest.raises(WireError, match="last byte is 0"):
        Stack(b"\x01\x00")
