"""A uniform code of digits: D digits of one base in D log2(base) bits, less than 1e-7 of a bit per digit above.

Digits are gathered into the largest groups below 2^64. Of each group's number the low bytes are written out; the
rest, at least 24 bits, becomes a digit of a new base, and the new digits are treated in the same way, each time at
most half as many. The last 64 or fewer, and digits that fill no group, go into one last integer. Sizes and bases
follow from (count, base) alone, so the code needs no lengths.

    value = group of digits < Y,   low = value mod 256^w,   rest = value div 256^w < R = ceil(Y / 256^w)

Only rounding R up loses anything: log2(R 256^w / Y) < 1.45 * 2^-24 bits per group. A group holds at least three
digits (two in later rounds), so the loss is below 6e-8 bits per digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Flags, Numbers, Vector
from ofediq.codec.arithmetic import MAX_LEVELS
from ofediq.codec.blocks import MAX_DIM, TILE
from ofediq.codec.message import Symbols, require_norm_bits
from ofediq.codec.readers import DigitLayout, SymbolScale, read_rows, write_groups
from ofediq.errors import WireError, require_integer

Digits = NDArray[np.uint64]

_FEW_DIGITS = 64  # so few are quicker to handle one by one than in another round


class Grouping(NamedTuple):
    """One round of gathering digits into groups.

    Attributes:
        base: of the digits that go in.
        group: digits in a group.
        groups: number of groups.
        loose: digits left over, which go into the last integer.
        low_bytes: bytes written for each group.
    """

    base: int
    group: int
    groups: int
    loose: int
    low_bytes: int

    @property
    def grouped(self) -> int:
        """Number of digits in all groups."""
        return self.group * self.groups


@lru_cache(maxsize=256)
def _rounds(count: int, base: int) -> tuple[Grouping, ...]:
    rounds = []
    while count:
        group = _group(base, 2**64)
        top = base**group
        low_bytes = (top.bit_length() - 25) // 8  # keeps 25 to 32 bits
        groups, loose = divmod(count, group) if count > _FEW_DIGITS else (0, count)
        rounds.append(Grouping(base, group, groups, loose, low_bytes))
        count, base = groups, -(-top >> 8 * low_bytes)
    return tuple(rounds)


def _group(base: int, limit: int) -> int:
    """How many digits make a number below `limit`, at least one."""
    group = 1
    while base ** (group + 1) <= limit:
        group += 1
    return group


@lru_cache(maxsize=256)
def _last_bits(rounds: tuple[Grouping, ...]) -> int:
    """Bits of the last integer."""
    span = 1
    for each in rounds:
        span *= each.base**each.loose
    return (span - 1).bit_length()


def digit_bytes(count: int, base: int) -> int:
    """Whole bytes of `count` digits from 0 to `base` - 1; 1 to 8 more bits go into the frame's `tail` field."""
    rounds = _rounds(count, base)
    return sum(each.groups * each.low_bytes for each in rounds) + (_last_bits(rounds) - 1) // 8


@lru_cache(maxsize=256)
def packed_symbol_bytes(dim: int, levels: int) -> int:
    """Whole bytes of `dim` packed symbols, as `digit_bytes`."""
    return digit_bytes(dim, 2 * levels + 1)


@lru_cache(maxsize=256, typed=True)
def packed_payload_bytes(dim: int, levels: int, blocks: int, norm_bits: int = 32) -> int:
    """Size of the payload of a `packed` frame, which depends on nothing else.

    Eight times this is never above 32 b + D (1 + log2(s + 1)), the paper's count of bits.

    Args:
        dim: D.
        levels: s.
        blocks: b.
        norm_bits: 16 or 32.

    >>> 8 * packed_payload_bytes(34826, levels=3, blocks=777), 32 * 777 + 34826 * 3
    (122632, 129342)
    """
    dim = require_integer("dim", dim, 1, MAX_DIM)
    levels = require_integer("levels", levels, 1, MAX_LEVELS)
    blocks = require_integer("blocks", blocks, 1, dim)
    require_norm_bits(norm_bits)
    return blocks * norm_bits // 8 + packed_symbol_bytes(dim, levels)


def fixed_bytes(dim: int, levels: int, blocks: int, norm_bits: int = 32) -> int:
    """Size of the payload when nothing is modelled: packed symbols and norms, or float32 values if those are shorter.

    >>> fixed_bytes(10, levels=1, blocks=1), fixed_bytes(10, levels=1, blocks=10)
    (5, 40)
    """
    return min(packed_payload_bytes(dim, levels, blocks, norm_bits), 4 * dim)


def pack(symbols: Symbols, levels: int) -> tuple[bytes, int]:
    """The symbols as `packed_symbol_bytes` bytes and the tail.

    >>> pack(np.array([-1, 0, 1, 1], np.int32), levels=1)
    (b'', 17)
    >>> unpack(b"", 17, count=4, levels=1)
    array([-1,  0,  1,  1], dtype=int32)
    """
    return _packed(symbols, -levels, 2 * levels + 1)


def pack_digits(digits: Digits, base: int) -> tuple[bytes, int]:
    r"""Digits from 0 to `base` - 1 as `digit_bytes` bytes and the tail.

    >>> pack_digits(np.array([3, 0, 2, 1, 1], np.uint64), base=4)
    (b'%', 3)
    >>> unpack_digits(b"%", 3, count=5, base=4)
    array([3, 0, 2, 1, 1], dtype=uint64)
    """
    return _packed(digits, 0, base)


def _packed(digits: Numbers, lowest: int, base: int) -> tuple[bytes, int]:
    """`pack_digits` of `digits` - `lowest`."""
    rounds, last = _rounds(digits.size, base), 0
    low, found = write_groups(digits, lowest, rounds) or _gathered(digits, lowest, rounds)
    for each, some in zip(rounds, found, strict=False):
        for digit in some[each.grouped :].tolist():
            last = last * each.base + digit - lowest
        lowest = 0
    whole = (_last_bits(rounds) - 1) // 8
    return low + (last & (1 << 8 * whole) - 1).to_bytes(whole, "little"), last >> 8 * whole


def _gathered(digits: Numbers, lowest: int, rounds: tuple[Grouping, ...]) -> tuple[bytes, list[Numbers]]:
    """The low bytes of all groups, and the digits of each round."""
    parts, found = [], [digits]
    for each in rounds:
        values = np.empty(each.groups, np.uint64)
        rows = found[-1][: each.grouped].reshape(each.group, each.groups)
        for start in range(0, each.groups, TILE):  # temporary arrays that stay in the cache
            some = values[start : start + TILE]
            some[:] = 0
            for row in rows[:, start : start + TILE]:
                some *= np.uint64(each.base)
                some += (
                    row.astype(np.uint64) if lowest == 0 else (row - row.dtype.type(lowest)).astype(np.uint64)
                )
        parts.append(_low_bytes(values, each.low_bytes))
        found.append(values >> np.uint64(8 * each.low_bytes))
        lowest = 0
    return b"".join(parts), found


def unpack(data: bytes, tail: int, count: int, levels: int) -> Symbols:
    """The inverse of `pack`. `data` must have `packed_symbol_bytes(count, levels)` bytes.

    Raises:
        WireError: a number lies outside its range. Every other input is the code of exactly one message.
    """
    symbols = unpack_digits(data, tail, count, 2 * levels + 1).astype(np.int32)
    symbols -= np.int32(levels)
    return symbols


def unpack_digits(data: bytes, tail: int, count: int, base: int) -> Digits:
    """The inverse of `pack_digits`, or `WireError`; `data` must have `digit_bytes(count, base)` bytes."""
    digits, good = unpack_rows(np.frombuffer(data, np.uint8)[None], [tail], count, base)
    if not good[0]:
        raise WireError("packed symbols: a number is out of range")
    row: Digits = digits[0].astype(np.uint64)
    return row


def unpack_rows(
    data: NDArray[np.uint8], tails: Sequence[int], count: int, base: int
) -> tuple[NDArray[np.uint32], Flags]:
    """`unpack_digits` for many messages at once: digits [n, count], and which rows are the code of a message.

    >>> rows = np.array([[37], [37]], np.uint8)
    >>> unpack_rows(rows, [3, 4], count=5, base=4)
    (array([[3, 0, 2, 1, 1], [0, 0, 2, 1, 1]], dtype=uint32), array([ True, False]))
    """
    rounds, messages = _rounds(count, base), len(data)
    compiled = read_rows(data, tails, _layout(count, base))
    if compiled is not None:
        return compiled
    stop = data.shape[1] - (_last_bits(rounds) - 1) // 8
    loose, good = _loose_digits(data[:, stop:], tails, rounds)
    digits = np.zeros((messages, 0), np.uint32)
    for each, few in zip(reversed(rounds), loose, strict=True):
        start = stop - each.groups * each.low_bytes
        values = _with_low_bytes(digits, data[:, start:stop], each)
        good &= (values <= np.uint64(each.base**each.group - 1)).all(axis=1)
        digits = np.empty((messages, each.grouped + each.loose), np.uint32)
        _split(values, each, digits[:, : each.grouped].reshape(messages, each.group, each.groups))
        digits[:, each.grouped :] = few
        stop = start
    return digits, good


def unpack_values(
    data: NDArray[np.uint8], tails: Sequence[int], count: int, scale: SymbolScale
) -> tuple[Vector, Flags] | None:
    """The numbers [n, count] in packed symbols, and which rows are in order; None without compiled code."""
    return read_rows(data, tails, _layout(count, 2 * scale.levels + 1), scale)


@lru_cache(maxsize=256)
def _layout(count: int, base: int) -> DigitLayout:
    rounds = _rounds(count, base)
    return DigitLayout(rounds, count, (_last_bits(rounds) - 1) // 8)


def _loose_digits(
    data: NDArray[np.uint8], tails: Sequence[int], rounds: tuple[Grouping, ...]
) -> tuple[list[NDArray[np.uint32]], Flags]:
    """The digits in the last integers, last round first, and whether each integer is in its range."""
    found = [np.empty((len(data), each.loose), np.uint32) for each in reversed(rounds)]
    good = np.ones(len(data), bool)
    for row, (low, tail) in enumerate(zip(data, tails, strict=True)):
        last = int.from_bytes(low.tobytes(), "little") | tail << 8 * low.size
        for each, few in zip(reversed(rounds), found, strict=True):
            digits = [0] * each.loose
            for index in reversed(range(each.loose)):
                last, digits[index] = divmod(last, each.base)
            few[row] = digits
        good[row] = not last
    return found, good


def _low_bytes(values: Digits, width: int) -> bytes:
    return values.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)[:, :width].tobytes()


def _with_low_bytes(high: NDArray[np.uint32], low: NDArray[np.uint8], each: Grouping) -> Digits:
    """Join the two parts of each group's number, [n, groups]."""
    padded = np.zeros((len(low), each.groups, 8), np.uint8)
    padded[..., : each.low_bytes] = low.reshape(len(low), each.groups, each.low_bytes)
    values = padded.view("<u8").astype(np.uint64, copy=False).reshape(len(low), each.groups)
    values |= high.astype(np.uint64) << np.uint64(8 * each.low_bytes)
    return values


def _split(values: Digits, each: Grouping, rows: NDArray[np.uint32]) -> None:
    """Write the digits of each number into the column of `rows` below it.

    As many digits at a time as 32 bits hold: divisions of 64 bits take several times as long.
    """
    at_once, stop = _group(each.base, 2**32), each.group
    while stop:
        start = max(0, stop - at_once)
        many = np.uint64(each.base ** (stop - start))
        high = values // many if start else values
        some = (values - high * many if start else values).astype(np.uint32)
        for index in range(stop - 1, start, -1):
            rest = some // np.uint32(each.base)
            np.multiply(rest, np.uint32(each.base), out=rows[:, index])
            np.subtract(some, rows[:, index], out=rows[:, index])
            some = rest
        rows[:, start] = some
        values, stop = high, start
