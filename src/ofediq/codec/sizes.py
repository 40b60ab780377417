"""How many bits an entropy-coded payload takes, from histograms alone: for simulators that encode nothing."""

from __future__ import annotations

import numpy as np

from ofediq.arrays import Array, faster, namespace
from ofediq.codec.blocks import block_layout
from ofediq.codec.entropy import PLAIN_NORMS
from ofediq.codec.norms import norm_classes
from ofediq.codec.packed import fixed_bytes
from ofediq.codec.stack import SHORT
from ofediq.codec.tables import Ints, book_bits, magnitude_classes, signed_widths

_START_BITS = np.float32(20)  # what a stack wastes at its bottom when there are more than `SHORT` symbols


def payload_bits(symbols: Array, norms: Array, levels: int, norm_bits: int = 32) -> Array:
    """Bits of the entropy-coded payloads of many quantised vectors, without encoding them.

    The ideal code length, to within 1 % of the bytes for thousands of coordinates; NumPy or JAX arrays. Where the
    payload of fixed size is not larger, that one is sent and counted; a vector of zeros costs nothing.

    Args:
        symbols: [n, dim] integers from -s to s.
        norms: [n, blocks] float32.
        levels: s.
        norm_bits: 16 or 32.

    >>> symbols = np.tile(np.array([0, 0, 1, 0, -1], np.int32), (1, 1000))
    >>> float(payload_bits(symbols, np.ones((1, 10), np.float32), levels=1)[0])  # 0.97 + 0.4 bits each, and norms
    7168.0
    """
    xp = namespace(symbols)
    dim, blocks = symbols.shape[-1], norms.shape[-1]
    counts = class_counts(symbols, levels)
    sizes = np.concatenate([np.full(run.blocks, run.size) for run in block_layout(dim, blocks)])
    dead = ((norms == 0) * xp.asarray(sizes)).sum(-1)  # zeros of empty blocks are not coded
    counts = xp.concatenate([counts[..., :1] - dead[..., None], counts[..., 1:]], axis=-1).astype(np.float32)
    return class_bits(counts, norms, dim, levels, norm_bits)


def class_bits(counts: Array, norms: Array, dim: int, levels: int, norm_bits: int = 32) -> Array:
    """As `payload_bits`, from how often each class of magnitudes occurs in nonzero blocks, [n, classes] float32."""
    bits = symbol_bits(counts, levels) + _norm_bits(norms, norm_bits)
    return whole_bytes(bits, fixed_bytes(dim, levels, norms.shape[-1], norm_bits), (norms > 0).any(-1))


def symbol_bits(counts: Array, levels: int, bottom: bool = True) -> Array:
    """Bits of the symbols and their model, from how often each class of magnitudes occurs in each message.

    Args:
        counts: [n, classes] float32, see `class_counts`.
        levels: s.
        bottom: whether they lie at the bottom of their stack.

    >>> float(symbol_bits(np.array([[900.0, 100.0]], np.float32), levels=1)[0])  # 469, 100 signs, a table or a byte
    577...
    """
    xp = namespace(counts)
    table = _ideal_bits(counts, signed_widths(magnitude_classes(levels)[1])) + 8 * (1 + _span(counts, 0))
    known = (counts @ xp.asarray(book_bits(levels))).min(-1) + 8
    start = _START_BITS * (counts.sum(-1) > SHORT) if bottom else 0
    return xp.minimum(table, known) + start


def whole_bytes(bits: Array, fixed: Array, live: Array) -> Array:
    """`bits` in whole bytes, at most those of the payload of `fixed` bytes; 0 for messages that are not `live`."""
    xp = namespace(bits)
    most = xp.minimum(8 * xp.ceil(bits / 8), 8 * fixed)
    return xp.where(live, most, 0).astype(np.float32)


def class_counts(symbols: Array, levels: int) -> Array:
    """How often each class of magnitudes occurs in each row, [n, dim] -> [n, classes]; see `magnitude_classes`.

    >>> class_counts(np.array([[0, -2, 2, 3]], np.int32), levels=3)
    array([[1, 0, 2, 1]])
    """
    classes = magnitude_classes(levels)[1].size
    found = faster("counts", symbols, classes)
    return _rows_of_counts(_class_of(abs(symbols)), classes) if found is None else found


def _class_of(magnitudes: Array) -> Array:
    """The class of each magnitude, see `magnitude_classes`: itself below 32, then eight to an octave."""
    xp = namespace(magnitudes)
    # floor(log2) is the exponent of the float.
    octave = (magnitudes.astype(np.float32).view(np.int32) >> 23) - 127
    above = 24 + 8 * (octave - 5) + (magnitudes >> xp.maximum(octave - 3, 0))
    return xp.where(magnitudes < 32, magnitudes, above)


def _rows_of_counts(classes: Array, count: int) -> Array:
    """How often each of `count` classes occurs in each row: [n, ...] integers -> [n, count]."""
    rows = namespace(classes).arange(classes.shape[0])[:, None]
    if hasattr(classes, "at"):  # JAX
        return namespace(classes).zeros((classes.shape[0], count), np.int32).at[rows, classes].add(1)
    within = np.clip(classes, 0, count - 1)  # a model that diverges has symbols that are no numbers
    return np.bincount((rows * count + within).reshape(-1), minlength=len(rows) * count).reshape(-1, count)


def _norm_bits(norms: Array, norm_bits: int) -> Array:
    if norms.shape[-1] < PLAIN_NORMS:
        return np.float32(norms.shape[-1] * norm_bits)
    counts = _rows_of_counts(norm_classes(norms, norm_bits), 256).astype(np.float32)
    nonzero = counts[..., 1:]
    ideal = _ideal_bits(counts, np.ones(256, np.int64)) + (norm_bits - 8) * nonzero.sum(-1)
    return ideal + 8 * (3 + _span(nonzero, None))


def _ideal_bits(counts: Array, widths: Ints) -> Array:
    xp = namespace(counts)
    total = counts.sum(-1)[..., None]
    share = xp.where(counts > 0, total * widths.astype(np.float32) / xp.maximum(counts, 1), 1)
    return (counts * xp.log2(share)).sum(-1)


def _span(counts: Array, start: int | None) -> Array:
    """Classes from `start`, or from the first that occurs, to the last that occurs."""
    used = counts > 0
    last = counts.shape[-1] - used[..., ::-1].argmax(-1)
    first = used.argmax(-1) if start is None else start
    return namespace(counts).where(used.any(-1), last - first, 1 if start == 0 else 0)
