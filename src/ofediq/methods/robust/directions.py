"""Directions of many members, as rows: how far they lie apart, and what keeps them together.

Not by BLAS where that is not many numbers: its threads cost more than the arithmetic.
"""

from __future__ import annotations

import numpy as np

from ofediq.arrays import Floats, Numbers

FAR, ALONG = 1.5, 3.0
"""A member may deviate by FAR usual deviations, and in one direction by ALONG times what is usual there."""

NEAR, BESIDE = 8.0, 5.0
"""At least it may do so by so many usual lengths: few updates of different lengths lie far apart."""

_RARE = 2.6  # deviations of normal numbers that one of 200 has
_AXES, _ALONE = 2, 0.9  # directions in which members differ most; share of a deviation that lies in one


def scatter(dim: int) -> float:
    """How much longer than the middle one of normal vectors in `dim` dimensions one of 200 is.

    By the rule of E. Wilson and M. Hilferty (1931).

    >>> [round(scatter(dim), 2) for dim in (1, 2, 8, 64)]
    [4.13, 2.78, 1.74, 1.24]
    """
    spread = 2 / (9 * dim)
    return float((1 + _RARE * np.sqrt(spread) / (1 - spread)) ** 1.5)


def chance(dim: int) -> float:
    """How large a cosine of two random directions in `dim` dimensions may be by chance: two deviations.

    >>> chance(1), chance(64)
    (2.0, 0.25)
    """
    return float(2 / np.sqrt(dim))


def deviation(sums: Floats, weights: Numbers, centre: Floats) -> Floats:
    """Of each sum from the nearest point between 0 and weight centre."""
    along = dots(sums, centre) / max(float((centre * centre).sum()), 1e-30)
    found: Floats = sums - np.clip(along, 0, weights)[:, None] * centre
    return found


def within(panel: Floats, before: Floats, after: Floats, dim: int) -> Floats:
    """The largest factors that keep deviations within limits of the panel's, of directions in `dim` dimensions.

    They are limited in length, and, if they lie in one of the directions in which members differ most, along it:
    members who work together have one of them for themselves.
    """
    usual, far = lower_median(np.linalg.norm(panel, axis=1)), max(FAR, scatter(dim))
    factors = _largest(before, after - before, max(far * usual, NEAR))
    rest = panel
    for _ in range(_AXES):
        axis = _longest_axis(rest)
        rest = rest - dots(rest, axis)[:, None] * axis
        limit = max(max(ALONG, far) * lower_median(np.abs(dots(panel, axis))), BESIDE)
        here, there = dots(before, axis)[:, None], dots(after, axis)[:, None]
        alone = np.abs(there[:, 0]) > _ALONE * np.linalg.norm(after, axis=1)
        factors = np.where(alone, np.minimum(factors, _largest(here, there - here, limit)), factors)
    return factors


def _longest_axis(rows: Floats) -> Floats:
    """About the direction in which rows are longest together, from the longest of them."""
    axis: Floats = rows[np.argmax((rows * rows).sum(1))]
    for _ in range(8):
        axis = normed(np.einsum("i,ij->j", dots(rows, axis), rows)[None])[0]
    return axis


def normed(rows: Floats) -> Floats:
    """Rows of length one; what is zero stays so."""
    found: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    return found


def _largest(before: Floats, step: Floats, limit: float) -> Floats:
    """The largest factors in [0, 1] at which |before + factor step| is within the limit, 0 where there are none."""
    a, b = (step * step).sum(1), (before * step).sum(1)
    root = b * b - a * ((before * before).sum(1) - limit**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(root >= 0, (np.sqrt(np.maximum(root, 0)) - b) / a, 0.0)
    return np.clip(np.where(a > 0, found, 1.0), 0.0, 1.0)


def dots(rows: Floats, vector: Floats) -> Floats:
    """The product of each row with a vector."""
    found: Floats = np.einsum("ij,j->i", rows, vector)
    return found


def lower_median(values: Numbers) -> float:
    """The middle one, or the lower one of the two in the middle."""
    return float(np.sort(values)[(values.size - 1) // 2])
