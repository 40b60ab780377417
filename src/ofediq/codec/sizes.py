"""How many bits an entropy-coded message takes, from histograms alone: for simulators that encode nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ofediq.codec.message import require_norm_bits
from ofediq.codec.tables import Floats, magnitude_classes, signed_widths
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
    symbols = _ideal_bits(classes, signed_widths(widths)) + 8 * (1 + _span(classes, 0))
    if norm_counts is None:
        return np.asarray(symbols + norm_bits * np.asarray(blocks) + 24)
    norms = _histogram("norm_counts", norm_counts)
    if norms.shape[-1] != 256:
        raise InputError(f"`norm_counts` must have 256 entries, got {norms.shape[-1]}")
    nonzero = norms[..., 1:]
    others = (norm_bits - 8) * nonzero.sum(axis=-1)
    tables = 8 * (3 + _span(nonzero, None))
    return np.asarray(symbols + _ideal_bits(norms, np.ones(256)) + others + tables)


def _histogram(name: str, counts: ArrayLike) -> Floats:
    histogram = np.asarray(counts, np.float64)
    if histogram.ndim == 0 or not (histogram >= 0).all():
        raise InputError(f"`{name}` must be a histogram of counts >= 0, got {counts!r}")
    return histogram


def _ideal_bits(counts: Floats, widths: ArrayLike) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    share = np.where(counts > 0, total * widths / np.maximum(counts, 1), 1)
    return np.asarray((counts * np.log2(share)).sum(axis=-1))


def _span(counts: Floats, start: int | None) -> Floats:
    """Classes from `start`, or from the first that occurs, to the last that occurs."""
    used = counts > 0
    last = counts.shape[-1] - used[..., ::-1].argmax(axis=-1)
    first = used.argmax(axis=-1) if start is None else start
    return np.where(used.any(axis=-1), last - first, 1 if start == 0 else 0)
