"""Symbols and norms, entropy-coded with models fitted to the message.

    payload = [lowest top byte of a nonzero norm | table of norm classes |] model of magnitudes | stack

The stack holds, in the order in which they are read: the norms; the symbols of the coordinates in nonzero blocks.
With fewer than eight blocks norms are plain bytes. With more, for each block comes its class, 0 for norm 0 and else
the norm's top byte above the lowest, then the other bytes of the nonzero norms. No payload stands for zeros. Stack
and symbols determine each other, so a receiver notices any left-over. A table with one class needs no code at all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Flags, Vector
from ofediq.codec.blocks import TILE, block_layout
from ofediq.codec.message import Symbols
from ofediq.codec.norms import norm_bytes, norms_from_bytes
from ofediq.codec.numerals import magnitude_counts, read_message, write_stack
from ofediq.codec.stack import Stack
from ofediq.codec.tables import Ints, magnitude_classes, read_model, read_table, write_model, write_table
from ofediq.errors import WireError

PLAIN_NORMS = 8
"""With fewer blocks than this a table of norm classes costs more than it saves."""

_MOST_NORM_CLASSES = 256
_NO_CLASSES = np.zeros(1, np.int32)
_FEW_LEVELS = 10  # up to here comparing bytes is faster than counting


def encode_entropy(symbols: Symbols, norms: Vector, levels: int, norm_bits: int) -> bytes:
    """The entropy-coded payload of one quantised vector."""
    live = norms > 0
    if not live.any():
        return b""
    coded = symbols if live.all() else symbols[_coordinates(live, symbols.size)]
    rows, plain = norm_bytes(norms, norm_bits), norms.size < PLAIN_NORMS
    head, classes = (b"", _NO_CLASSES) if plain else _norm_classes(rows[:, -1], live)
    models = head + _model(coded, levels)
    compiled = write_stack(models, coded, levels, norms, norm_bits, classes)
    if compiled is not None:
        return models + compiled
    stack = Stack()
    _push(stack, coded, models[len(head) :], levels)
    stack.push_bytes((rows if plain else rows[live, :-1]).reshape(-1))
    if not plain:
        stack.push(classes, read_table(head, 1, _MOST_NORM_CLASSES)[0])
    return models + stack.to_bytes()


def _norm_classes(tops: NDArray[np.uint8], live: Flags) -> tuple[bytes, Symbols]:
    """The lowest top byte of a norm and the table of norm classes, and the class of each norm."""
    lowest = int(tops.min(initial=255, where=live))
    classes = (tops - np.int32(lowest - 1)) * live
    counts = np.bincount(classes)
    return bytes([lowest]) + write_table(counts, np.ones_like(counts)), classes


def decode_entropy(
    payload: bytes, dim: int, levels: int, blocks: int, norm_bits: int
) -> tuple[Symbols, Vector]:
    """The symbols and norms of an entropy-coded payload. Memory is O(dim), whatever the bytes are.

    Raises:
        WireError: the payload is not what `encode_entropy` can produce for these parameters.
    """
    if not payload:
        return np.zeros(dim, np.int32), np.zeros(blocks, np.float32)
    compiled = read_message(payload, dim, levels, blocks, norm_bits)
    if compiled is not None:
        return compiled
    width, start = norm_bits // 8, 0
    if blocks >= PLAIN_NORMS:
        norm_weights, start = read_table(payload, 1, _MOST_NORM_CLASSES)
        if payload[0] + norm_weights.size - 2 > 255:
            raise WireError("entropy table: a norm class lies beyond the last one")
    weights, start = read_model(payload, start, levels)
    stack = Stack(payload[start:])
    if blocks < PLAIN_NORMS:
        norms = norms_from_bytes(stack.pop_bytes(blocks * width).reshape(blocks, width), norm_bits)
        live = norms != 0
    else:
        classes = stack.pop(blocks, norm_weights)
        live = classes > 0
        rows = np.zeros((blocks, width), np.uint8)
        inside = slice(None) if live.all() else live
        rows[inside, -1] = payload[0] + classes[inside] - 1
        rows[inside, :-1] = stack.pop_bytes(int(live.sum()) * (width - 1)).reshape(-1, width - 1)
        norms = norms_from_bytes(rows, norm_bits)
        if not (norms != 0)[live].all():
            raise WireError("norms: a block of norm 0 is announced as nonzero")
    if not live.any():
        raise WireError("entropy code: zeros have no payload")
    if live.all():
        symbols = pop_symbols(stack, dim, weights)
    else:
        symbols, inside = np.zeros(dim, np.int32), _coordinates(live, dim)
        symbols[inside] = pop_symbols(stack, int(inside.sum()), weights)
    return symbols, norms


def encode_symbols(symbols: Symbols, levels: int) -> bytes:
    """Model and stack of symbols from -s to s alone."""
    model = _model(symbols, levels)
    compiled = write_stack(model, symbols, levels)
    if compiled is not None:
        return model + compiled
    stack = Stack()
    _push(stack, symbols, model, levels)
    return model + stack.to_bytes()


def push_symbols(stack: Stack, symbols: Symbols, levels: int, first: bool = True) -> bytes:
    """Push symbols from -s to s with the model that fits them best, and return its bytes; see `Stack.push`."""
    model = _model(symbols, levels)
    _push(stack, symbols, model, levels, first)
    return model


def _model(symbols: Symbols, levels: int) -> bytes:
    """The model that fits symbols from -s to s best."""
    counts = magnitude_counts(symbols, levels)
    if counts is None:
        counts = np.add.reduceat(_magnitude_counts(symbols, levels), magnitude_classes(levels)[0])
    return write_model(counts, levels)


def _push(stack: Stack, symbols: Symbols, model: bytes, levels: int, first: bool = True) -> None:
    weights, _ = read_model(model, 0, levels)
    stack.push(symbols, weights, -(weights.size // 2), first=first)


def pop_symbols(stack: Stack, count: int, weights: Ints, last: bool = True) -> Symbols:
    """The inverse of `push_symbols`, with the weights that `read_model` gives; `last` for what came first."""
    return stack.pop(count, weights, -(weights.size // 2), last=last)


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


def _coordinates(live: Flags, dim: int) -> Flags:
    """Which coordinates lie in a block that is marked."""
    marked = np.empty(dim, np.bool_)
    for run in block_layout(dim, live.size):
        run.rows(marked)[...] = run.column(live)
    return marked
