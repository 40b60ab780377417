"""A reader of frames written from docs/wire-format.md alone: plain Python, integers, nothing of the package."""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given

from ofediq.codec import Coding, Message, encode, quantize

from .vectors import messages, vector


def read(frame: bytes) -> tuple[list[int], list[float]]:
    """The symbols and norms of a packed or entropy-coded frame."""
    coding, levels, tail, dim, blocks = struct.unpack_from("<BHBxII", frame, 3)
    width = 2 if coding & 16 else 4
    if coding & 15 == 1:
        norms = [frame[32 + width * block :][:width] for block in range(blocks)]
        return read_packed(frame[32 + width * blocks :], tail, dim, levels), [norm(each) for each in norms]
    return read_entropy(frame[32:], dim, levels, blocks, width)


def norm(data: bytes) -> float:
    number = int.from_bytes(data, "little")
    bits = number if len(data) == 4 else number << 15
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def read_packed(data: bytes, tail: int, dim: int, levels: int) -> list[int]:
    plans, count, base = [], dim, 2 * levels + 1
    while count:
        group = 1
        while base ** (group + 1) <= 2**64:
            group += 1
        groups = 0 if count <= 64 else count // group
        low = (len(bin(base**group)) - 2 - 25) // 8
        plans.append((base, group, groups, count - group * groups, low))
        count, base = groups, -(-(base**group) // 256**low)
    head = sum(groups * low for _, _, groups, _, low in plans)
    last = int.from_bytes(data[head:] + bytes([tail]), "little")
    end = head
    digits: list[int] = []
    for base, group, groups, loose, low in reversed(plans):
        end -= groups * low
        values = [
            digits[j] * 256**low + int.from_bytes(data[end + j * low :][:low], "little")
            for j in range(groups)
        ]
        spare: list[int] = []
        for _ in range(loose):
            last, digit = divmod(last, base)
            spare.insert(0, digit)
        digits = [
            value // base ** (group - 1 - row) % base for row in range(group) for value in values
        ] + spare
    return [digit - levels for digit in digits]


def frequencies(weights: list[int]) -> list[int]:
    spare, total = 2**24 - len(weights), sum(weights)
    made = [1 + weight * spare // total for weight in weights]
    made[weights.index(max(weights))] += 2**24 - sum(made)
    return made


class Reader:
    """The stack of an entropy-coded payload."""

    def __init__(self, data: bytes) -> None:
        padded = data + bytes(-len(data) % 4)
        self.words = list(struct.unpack(f"<{len(padded) // 4}I", padded))
        self.state = 0

    def fill(self) -> None:
        while self.state < 2**32 and self.words:
            self.state = self.state << 32 | self.words.pop()

    def symbol(self, sums: list[int]) -> int:
        """The next symbol; `sums` are the running sums of the frequencies, from 0 to 2^24."""
        self.fill()
        point = self.state % 2**24
        symbol = bisect_right(sums, point) - 1
        self.state = (sums[symbol + 1] - sums[symbol]) * (self.state >> 24) + point - sums[symbol]
        return symbol

    def bottom(self, sums: list[int], count: int) -> list[int]:
        """What is left, as a fraction."""
        self.fill()
        left = b"".join(struct.pack("<I", word) for word in self.words) + self.state.to_bytes(8, "little")
        fraction = Fraction(int.from_bytes(left.rstrip(b"\0"), "big"), 256 ** len(left.rstrip(b"\0")))
        self.words, self.state = [], 0
        made = []
        for _ in range(count):
            made.append(bisect_right(sums, fraction * 2**24) - 1)
            low, high = sums[made[-1]], sums[made[-1] + 1]
            fraction = (fraction * 2**24 - low) / (high - low)
        return made

    def symbols(self, weights: list[int], count: int, last: bool = False) -> list[int]:
        size, group = len(weights), 1
        if size == 1 or count == 0:
            return [0] * count
        while size ** (group + 1) <= min(1024, count // 16):
            group += 1
        single = joint = frequencies(weights)
        for _ in range(group - 1):
            joint = [one * other >> 24 for one in joint for other in single]
        made = joint if group == 1 else frequencies(joint)
        sums, total = [0, *accumulate(made)], -(-count // group)
        below = min(64, total) if last and count <= 2048 else 0
        steps = [self.symbol(sums) for _ in range(total - below)]
        steps += self.bottom(sums, below) if below else []
        return [step // size ** (group - 1 - row) % size for row in range(group) for step in steps][:count]


def density(code: int) -> int:
    return 0 if code == 0 else (8 + code % 8) << code // 8


def read_table(data: bytes) -> list[int]:
    return [density(code) for code in data[1 : 2 + data[0]]]


FIRSTS = [*range(32), *(2**k + i * 2 ** (k - 3) for k in range(5, 16) for i in range(8)), 2**16]


def read_model(data: bytes, levels: int) -> tuple[list[int], bytes]:
    """The weights of magnitudes 0, 1, ..., and what follows."""
    bounds = [
        (first, min(beyond, levels + 1)) for first, beyond in itertools.pairwise(FIRSTS) if first <= levels
    ]
    if data[0] < 128:
        table, rest = read_table(data), data[2 + data[0] :]
    else:
        i, j = divmod(data[0] - 128, 8)
        first = 255 - 8 * (0, 1, 2, 3, 4, 6, 8, 11)[j]
        codes = [first - (16 * (low + high - 1) >> i) for low, high in bounds]
        table = [density(255)] + [density(code) for code in codes[1:] if code >= max(1, first - 192)]
        rest = data[1:]
    return [
        weight for weight, (low, high) in zip(table, bounds, strict=False) for _ in range(low, high)
    ], rest


def read_entropy(
    data: bytes, dim: int, levels: int, blocks: int, width: int
) -> tuple[list[int], list[float]]:
    if not data:
        return [0] * dim, [0.0] * blocks
    norm_table = read_table(data[1:]) if blocks >= 8 else []
    weights, rest = read_model(data[2 + len(norm_table) :] if blocks >= 8 else data, levels)
    reader, plain = Reader(rest), [*range(0, 2**24 + 1, 2**16)]
    norms = []
    classes = reader.symbols(norm_table, blocks) if blocks >= 8 else []
    for each in classes:
        others = bytes(reader.symbol(plain) for _ in range(width - 1)) if each else bytes(width - 1)
        norms.append(norm(others + bytes([data[0] + each - 1 if each else 0])))
    if blocks < 8:
        norms = [norm(bytes(reader.symbol(plain) for _ in range(width))) for _ in range(blocks)]
    sizes = [dim // blocks + (block < dim % blocks) for block in range(blocks)]
    live = sum(size for size, each in zip(sizes, norms, strict=True) if each)
    coded = iter(reader.symbols(weights[:0:-1] + weights, live, last=True))
    top = len(weights) - 1
    symbols = [
        next(coded) - top if each else 0 for size, each in zip(sizes, norms, strict=True) for _ in range(size)
    ]
    assert (reader.state, reader.words) == (0, [])
    return symbols, norms


@given(messages(most=150))
def test_a_reader_written_from_the_document_agrees(message: Message) -> None:
    codings: tuple[Coding, ...] = ("packed", "entropy")
    for coding in codings:
        symbols, norms = read(encode(message, coding))
        assert symbols == message.symbols.tolist()
        assert norms == message.norms.tolist()


@pytest.mark.parametrize("norm_bits", [16, 32])
@pytest.mark.parametrize(("levels", "blocks"), [(1, 20), (3, 60), (40, 7), (1000, 1)])
def test_it_agrees_on_longer_messages_with_zero_blocks(levels: int, blocks: int, norm_bits: int) -> None:
    values = vector("gaussian", 3001) * (np.arange(3001) > 400)
    message = quantize(values, levels=levels, blocks=blocks, seed=0, norm_bits=norm_bits)
    frame = encode(message, "entropy")
    assert frame[3] & 15 == 2  # entropy-coded indeed
    assert read(frame) == (message.symbols.tolist(), message.norms.tolist())
    assert read(encode(message, "packed")) == (message.symbols.tolist(), message.norms.tolist())
