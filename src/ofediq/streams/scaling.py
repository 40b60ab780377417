"""Scaling of features and targets: one affine map per column.

The maps are fitted on the whole file by default, as the paper does. That peeks at the future: an online learner
would not know tomorrow's largest value. `fit` < 1 uses only the first rows, and later values may then leave [0, 1].
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ofediq.arrays import Numbers
from ofediq.errors import require_choice, require_fraction
from ofediq.streams.dataset import Task

Scaling = Literal["auto", "none", "minmax", "standard", "authors"]
FITTED = ("none", "minmax", "standard")

# A spread below this share of the largest entry is rounding noise of a constant column.
_CONSTANT = 1e-12


class Scaler(NamedTuple):
    """The map (value - offset) / span, with scalars or one entry per column."""

    offset: Any
    span: Any

    def apply(self, values: Numbers) -> Numbers:
        """Scale `values` [samples, ...]: float32 from bytes (images, which are large), float64 from the rest."""
        precision = np.float32 if values.dtype == np.uint8 else np.float64
        scaled: Numbers = np.subtract(values, self.offset, dtype=precision)
        scaled /= self.span
        return scaled

    @property
    def range(self) -> tuple[float, float]:
        """What a scalar map takes to 0 and 1."""
        return float(self.offset), float(self.offset + self.span)


IDENTITY = Scaler(0.0, 1.0)


def fit_scaler(values: Numbers, kind: str, fit: float = 1.0) -> Scaler:
    """The scaler of `kind` for the columns of `values` [samples, ...].

    "minmax" maps each column to [0, 1], "standard" to mean 0 and variance 1, "none" changes nothing. A constant
    column becomes 0.

    Arguments:
        values: what to scale.
        kind: "none", "minmax" or "standard".
        fit: the share of rows, from the first one, that the scaler may look at.

    >>> scaler = fit_scaler(np.array([[1.0, 7.0], [3.0, 7.0], [5.0, 7.0]]), "minmax")
    >>> scaler.apply(np.array([[2.0, 7.0]])).tolist()
    [[0.25, 0.0]]
    """
    require_choice("scaling", kind, FITTED)
    seen = values[: max(1, int(require_fraction("scaling_fit", fit) * len(values)))]
    if kind == "none":
        return IDENTITY
    if kind == "minmax":
        offset = _ignoring_gaps(np.fmin, seen)
        span = _ignoring_gaps(np.fmax, seen) - offset
    else:
        offset, span = np.nanmean(seen, axis=0, dtype=np.float64), np.nanstd(seen, axis=0, dtype=np.float64)
    largest = _ignoring_gaps(np.fmax, np.abs(seen))
    return Scaler(offset, np.where(span > _CONSTANT * largest, span, 1.0))


def _ignoring_gaps(fold: np.ufunc, values: Numbers) -> Any:
    """The smallest or largest of each column; 0 for a column without any value."""
    found = fold.reduce(values, axis=0)
    return np.nan_to_num(found) if values.dtype.kind == "f" else found


def target_scaler(y: Numbers, task: Task, kind: str, fit: float = 1.0) -> Scaler:
    """The scaler of the targets: to [0, 1] for a regression, unless the features are not scaled either.

    >>> target_scaler(np.array([10.0, 300.0, 20.0]), "regression", "standard").range
    (10.0, 300.0)
    """
    return fit_scaler(y, "minmax", fit) if task == "regression" and kind != "none" else IDENTITY
