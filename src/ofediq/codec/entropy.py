"""Symbols and norms, entropy-coded with models fitted to the message.

    payload = lowest top byte of a nonzero norm | table of norm classes | table of magnitude classes | stack

The stack holds, in the order in which they are read: for each block its class, 0 for norm 0 and else the norm's top
byte above the lowest; the other bytes of the nonzero norms; the symbols of the coordinates in nonzero blocks. Stack
and symbols determine each other, so a receiver notices any left-over. A table with one class needs no code at all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ofediq.codec.blocks import TILE, block_layout
from ofediq.codec.message import Message, Symbols, Vector
from ofediq.codec.norms import Bytes, norm_bytes, norms_from_bytes
from ofediq.codec.stack import Stack
from ofediq.codec.tables import Ints, magnitude_classes, read_table, signed_widths, write_table
from ofediq.errors import WireError

_MOST_NORM_CLASSES = 256
_FEW_LEVELS = 10  # up to here comparing bytes is faster than counting


def encode_entropy(message: Message) -> bytes:
    """The entropy-coded payload of a quantised message."""
    norms = norm_bytes(message.norms, message.norm_bits)
    live = message.norms > 0
    lowest, norm_table, classes = _model_norms(norms[:, -1], live)
    symbols = message.symbols if live.all() else message.symbols[_coordinates(live, message.dim)]
    symbol_table, top = _model_symbols(symbols, message.levels)
    stack = Stack()
    stack.push(symbols, _read_symbol_weights(symbol_table, 0, message.levels)[0], -top)
    stack.push_bytes(norms[live, :-1].reshape(-1))
    stack.push(classes, read_table(norm_table, 0, _MOST_NORM_CLASSES)[0])
    return bytes([lowest]) + norm_table + symbol_table + stack.to_bytes()


def decode_entropy(
    payload: bytes, dim: int, levels: int, blocks: int, norm_bits: int
) -> tuple[Symbols, Vector]:
    """The symbols and norms of an entropy-coded payload. Memory is O(dim), whatever the bytes are.

    Raises:
        WireError: the payload is not what `encode_entropy` can produce for these parameters.
    """
    norm_weights, middle = read_table(payload, 1, _MOST_NORM_CLASSES)
    if payload[0] + norm_weights.size - 2 > 255:
        raise WireError("entropy table: a norm class lies beyond the last one")
    weights, start = _read_symbol_weights(payload, middle, levels)
    stack = Stack(payload[start:])
    classes = stack.pop(blocks, norm_weights)
    live = classes > 0
    width = norm_bits // 8
    rows = np.zeros((blocks, width), np.uint8)
    rows[live, -1] = payload[0] + classes[live] - 1
    rows[live, :-1] = stack.pop_bytes(int(live.sum()) * (width - 1)).reshape(-1, width - 1)
    norms = norms_from_bytes(rows, norm_bits)
    if not (norms != 0)[live].all():
        raise WireError("norms: a block of norm 0 is announced as nonzero")
    top = weights.size // 2
    if live.all():
        symbols = stack.pop(dim, weights, -top)
    else:
        symbols, inside = np.zeros(dim, np.int32), _coordinates(live, dim)
        symbols[inside] = stack.pop(int(inside.sum()), weights, -top)
    if not stack.is_empty:
        raise WireError("entropy code: bytes are left over")
    return symbols, norms


def _model_norms(tops: Bytes, live: NDArray[np.bool_]) -> tuple[int, bytes, Symbols]:
    """The lowest top byte of a nonzero norm, the table of classes, and each block's class."""
    lowest = int(tops[live].min()) if live.any() else 0
    classes = np.where(live, tops.astype(np.int32) - np.int32(lowest - 1), np.int32(0))
    counts = np.bincount(classes)
    return lowest, write_table(counts, np.ones_like(counts)), classes


def _model_symbols(symbols: Symbols, levels: int) -> tuple[bytes, int]:
    """The table of magnitudes, and the largest magnitude that it covers."""
    firsts, widths = magnitude_classes(levels)
    counts = np.add.reduceat(_magnitude_counts(symbols, levels), firsts)
    used = int(counts.nonzero()[0].max(initial=0)) + 1
    table = write_table(counts[:used], signed_widths(widths)[:used])
    return table, int(firsts[used - 1] + widths[used - 1] - 1)


def _magnitude_counts(symbols: Symbols, levels: int) -> Ints:
    """How many symbols have magnitude 0, 1, ..., `levels`."""
    if levels <= _FEW_LEVELS:
        magnitudes = np.abs(symbols).astype(np.uint8)
        counts = [np.count_nonzero(magnitudes == level) for level in range(1, levels + 1)]
        return np.array([symbols.size - sum(counts), *counts])
    total = np.zeros(levels + 1, np.int64)
    for start in range(0, symbols.size, TILE):
        total += np.bincount(np.abs(symbols[start : start + TILE]), minlength=levels + 1)
    return total


def _read_symbol_weights(data: bytes, start: int, levels: int) -> tuple[Ints, int]:
    """A weight for each symbol from -top to top, and where the table ends."""
    widths = magnitude_classes(levels)[1]
    densities, stop = read_table(data, start, widths.size)
    magnitudes = np.repeat(densities, widths[: densities.size])
    return np.concatenate([magnitudes[:0:-1], magnitudes]), stop


def _coordinates(live: NDArray[np.bool_], dim: int) -> NDArray[np.bool_]:
    """Which coordinates lie in a block that is marked."""
    marked = np.empty(dim, np.bool_)
    for run in block_layout(dim, live.size):
        run.rows(marked)[...] = run.column(live)
    return marked
