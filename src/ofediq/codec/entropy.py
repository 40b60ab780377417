"""Symbols and norms, entropy-coded with models fitted to the message.

    payload = lowest top byte of a nonzero norm | table of norm classes | table of magnitude classes | stack

The stack (asymmetric numeral systems, by constriction) holds, in the order in which they are read: for each block
its class, 0 for norm 0 and else the norm's top byte above the lowest; the other bytes of the nonzero norms; the
symbols of the coordinates in nonzero blocks. Stack and symbols determine each other, so a receiver notices any
left-over. A table with one class needs no code at all.
"""

from __future__ import annotations

from typing import Any

import constriction
import numpy as np
from numpy.typing import NDArray

from ofediq.codec.blocks import block_layout
from ofediq.codec.message import Message, Symbols, Vector
from ofediq.codec.norms import Bytes, norm_bytes, norms_from_bytes
from ofediq.codec.tables import Ints, magnitude_classes, model, read_table, signed_widths, write_table
from ofediq.errors import WireError

_MOST_NORM_CLASSES = 256
_ANY_BYTE: Ints = np.ones(256, np.int64)


def encode_entropy(message: Message) -> bytes:
    """The entropy-coded payload of a quantised message."""
    norms = norm_bytes(message.norms, message.norm_bits)
    live = message.norms > 0
    lowest, norm_table, classes = _model_norms(norms[:, -1], live)
    symbols = message.symbols if live.all() else message.symbols[_coordinates(live, message.dim)]
    symbol_table, top = _model_symbols(symbols, message.levels)
    stack = constriction.stream.stack.AnsCoder()
    _push(stack, symbols + np.int32(top), _read_symbol_weights(symbol_table, 0, message.levels)[0])
    _push(stack, norms[live, :-1].reshape(-1).astype(np.int32), _ANY_BYTE)
    _push(stack, classes, read_table(norm_table, 0, _MOST_NORM_CLASSES)[0])
    coded: bytes = stack.get_compressed().astype("<u4").tobytes().rstrip(b"\0")
    return bytes([lowest]) + norm_table + symbol_table + coded


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
    stack = _open_stack(payload[start:])
    classes = _pop(stack, norm_weights, blocks)
    live = classes > 0
    rows = np.zeros((blocks, norm_bits // 8), np.uint8)
    rows[live, -1] = payload[0] + classes[live] - 1
    rows[live, :-1] = _pop(stack, _ANY_BYTE, int(live.sum()) * (norm_bits // 8 - 1)).reshape(
        -1, norm_bits // 8 - 1
    )
    norms = norms_from_bytes(rows, norm_bits)
    if not (norms != 0)[live].all():
        raise WireError("norms: a block of norm 0 is announced as nonzero")
    inside = _coordinates(live, dim)
    symbols = np.zeros(dim, np.int32)
    symbols[inside] = _pop(stack, weights, int(inside.sum())) - np.int32(weights.size // 2)
    if not stack.is_empty():
        raise WireError("entropy-coded symbols: bytes are left over")
    return symbols, norms


def _model_norms(tops: Bytes, live: NDArray[np.bool_]) -> tuple[int, bytes, Symbols]:
    """The lowest top byte of a nonzero norm, the table of classes, and each block's class."""
    lowest = int(tops[live].min()) if live.any() else 0
    classes = np.where(live, tops.astype(np.int32) - np.int32(lowest - 1), np.int32(0))
    counts = np.bincount(classes)
    return lowest, write_table(counts, np.ones_like(counts)), classes


def _model_symbols(symbols: Symbols, levels: int) -> tuple[bytes, int]:
    """The table of magnitudes, and the largest magnitude that it covers."""
    signed = np.bincount(symbols + np.int32(levels), minlength=2 * levels + 1)
    magnitudes = signed[levels:].copy()
    magnitudes[1:] += signed[:levels][::-1]
    firsts, widths = magnitude_classes(levels)
    counts = np.add.reduceat(magnitudes, firsts)
    used = int(counts.nonzero()[0].max(initial=0)) + 1
    table = write_table(counts[:used], signed_widths(widths)[:used])
    return table, int(firsts[used - 1] + widths[used - 1] - 1)


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


def _open_stack(coded: bytes) -> Any:
    # The coder refuses a last word of 0. No encoder writes a last byte of 0, so refuse that instead.
    if coded.endswith(b"\0"):
        raise WireError("entropy-coded symbols: the last byte is 0")
    padded = coded + bytes(-len(coded) % 4)
    return constriction.stream.stack.AnsCoder(np.frombuffer(padded, "<u4").astype(np.uint32))


def _push(stack: Any, symbols: Symbols, weights: Ints) -> None:
    if symbols.size and weights.size > 1:
        stack.encode_reverse(symbols, model(weights))


def _pop(stack: Any, weights: Ints, count: int) -> Symbols:
    if count and weights.size > 1:
        popped: Symbols = stack.decode(model(weights), count)
        return popped
    return np.zeros(count, np.int32)
