"""How many bits an entropy-coded message takes, from histograms alone: for simulators that encode nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ofediq.arrays import Array, namespace
from ofediq.codec.blocks import block_layout
from ofediq.codec.message import require_norm_bits
from ofediq.codec.norms import norm_classes
from ofediq.codec.packed import packed_payload_bytes
from ofediq.codec.tables import Floats, Ints, magnitude_classes, signed_widths
from ofediq.errors import InputError


def entropy_bits(
    counts: ArrayLike, blocks: ArrayLike, norm_bits: int = 32, norm_counts: ArrayLike | None = None
) -> Floats:
    """Bits of the payload that `encode(..., "entropy")` makes, to within 1 % for thousands of coordinates.

        sum_j n_j log2(n w_j / n_j)  over classes j of w_j symbols  +  8 bits per class  +  the norms

    `encode` sends the packed form when that is smaller, so the bits on the wire are the minimum of this and
    `8 * packed_payload_bytes(...)`.

    Args:
        counts: number of coordinates with magnitude 0, 1, ..., s, in blocks whose norm is not 0. Leading axes are
            messages.
        blocks: b, for each message or for all.
        norm_bits: 16 or 32.
        norm_counts: number of norms in each of the 256 `norm_classes`. Without it each norm counts `norm_bits`, an
            upper bound: the code saves about 5 bits per norm.

    >>> round(float(entropy_bits([900, 100], blocks=1)))  # 469 + 100 signs + a norm + two tables of 24 bits
    649
    """
    require_norm_bits(norm_bits)
    magnitudes = _histogram("counts", counts)
    levels = magnitudes.shape[-1] - 1
    if levels < 1:
        raise InputError("`counts` must have at least two entries, for magnitudes 0 and 1, got one")
    firsts, widths = magnitude_classes(levels)
    classes = np.add.reduceat(magnitudes, firsts, axis=-1)
    symbols = _symbol_bits(classes, widths)
    if norm_counts is None:
        return np.asarray(symbols + norm_bits * np.asarray(blocks) + 24)
    norms = _histogram("norm_counts", norm_counts)
    if norms.shape[-1] != 256:
        raise InputError(f"`norm_counts` must have 256 entries, got {norms.shape[-1]}")
    return np.asarray(symbols + _norm_bits(norms, norm_bits))


def _histogram(name: str, counts: ArrayLike) -> Floats:
    histogram = np.asarray(counts, np.float64)
    if histogram.ndim == 0 or not (histogram >= 0).all():
        raise InputError(f"`{name}` must be a histogram of counts >= 0, got {counts!r}")
    return histogram


def payload_bits(symbols: Array, norms: Array, levels: int, norm_bits: int = 32) -> Array:
    """Bits of the payloads that `encode(..., "entropy")` makes of many messages, without encoding them.

    The ideal code length, to within 1 % of the bytes for thousands of coordinates; NumPy or JAX arrays.

    Args:
        symbols: [n, dim] integers from -s to s.
        norms: [n, blocks] float32.
        levels: s.
        norm_bits: 16 or 32.

    >>> symbols = np.tile(np.array([0, 0, 1, 0, -1], np.int32), (1, 1000))
    >>> float(payload_bits(symbols, np.ones((1, 10), np.float32), levels=1)[0])  # 0.97 + 0.4 bits each, and norms
    7150.7...
    """
    xp = namespace(symbols)
    dim, blocks = symbols.shape[-1], norms.shape[-1]
    widths = magnitude_classes(levels)[1]
    counts = _rows_of_counts(_class_of(abs(symbols)), len(widths))
    sizes = np.concatenate([np.full(run.blocks, run.size) for run in block_layout(dim, blocks)])
    dead = ((norms == 0) * xp.asarray(sizes)).sum(-1)  # zeros of empty blocks are not coded
    counts = xp.concatenate([counts[..., :1] - dead[..., None], counts[..., 1:]], axis=-1).astype(np.float32)
    return class_bits(counts, norms, dim, levels, norm_bits)


def class_bits(counts: Array, norms: Array, dim: int, levels: int, norm_bits: int = 32) -> Array:
    """As `payload_bits`, from how often each class of magnitudes occurs in each message.

    Args:
        counts: [n, classes] float32, see `tables.magnitude_classes`; empty blocks are not counted.
        norms: [n, blocks] float32.
        dim: D.
        levels: s.
        norm_bits: 16 or 32.

    >>> counts = np.array([[900.0, 100.0]], np.float32)
    >>> float(class_bits(counts, np.ones((1, 1), np.float32), 1000, levels=1)[0])
    648.9...
    """
    norm_counts = _rows_of_counts(norm_classes(norms, norm_bits), 256).astype(np.float32)
    bits = _symbol_bits(counts, magnitude_classes(levels)[1]) + _norm_bits(norm_counts, norm_bits)
    packed = 8 * packed_payload_bytes(dim, levels, norms.shape[-1], norm_bits)
    return namespace(counts).minimum(bits, np.float32(packed))


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
    return np.bincount((rows * count + classes).reshape(-1), minlength=len(rows) * count).reshape(-1, count)


def _symbol_bits(classes: Array, widths: Ints) -> Array:
    return _ideal_bits(classes, signed_widths(widths)) + 8 * (1 + _span(classes, 0))


def _norm_bits(counts: Array, norm_bits: int) -> Array:
    nonzero = counts[..., 1:]
    return (
        _ideal_bits(counts, np.ones(256)) + (norm_bits - 8) * nonzero.sum(-1) + 8 * (3 + _span(nonzero, None))
    )


def _ideal_bits(counts: Array, widths: Ints | Floats) -> Array:
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
