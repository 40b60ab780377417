"""One curve per method: the mean over seeds as a line, the range of the seeds as a band."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Floats
from ofediq.report.figures.labels import End
from ofediq.report.figures.style import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAND_NOTE = "Lines: mean of {seeds} seeds; bands: lowest to highest seed."
_MARKS = 0.16  # distance between two markers, as a share of the diagonal of the axes


def draw_line(
    axes: Axes,
    x: npt.ArrayLike,
    values: npt.ArrayLike,
    look: Look,
    label: str,
    first_mark: float = 0.0,
) -> End:
    """Draw the mean over seeds with a band from the lowest to the highest; returns where the line ends.

    Args:
        axes: where to.
        x: horizontal positions, [points].
        values: one row per seed, [seeds, points].
        look: colour, line and marker.
        label: what to write at the end.
        first_mark: where the first marker sits, as a share of the diagonal: keeps those of several lines apart.
    """
    across, rows = np.asarray(x, np.float64), np.atleast_2d(np.asarray(values, np.float64))
    mean = rows.mean(axis=0)
    if len(rows) > 1:
        axes.fill_between(
            across, rows.min(axis=0), rows.max(axis=0), color=look.colour, alpha=0.15, linewidth=0
        )
    axes.plot(
        across,
        mean,
        color=look.colour,
        linestyle=look.dashes,
        linewidth=look.width,
        marker=look.marker
        if look.marker and np.isfinite(mean).any()
        else "None",  # no place for one: an error
        markersize=5.5,
        markeredgecolor="white",
        markeredgewidth=0.7,
        markevery=(first_mark, _MARKS),
        label=label,
    )
    return _end(across, mean, look, label)


def draw_reference(axes: Axes, x: npt.ArrayLike, values: npt.ArrayLike, look: Look, label: str) -> End:
    """Draw what methods are compared with, behind them; returns where the line ends."""
    across, curve = np.asarray(x, np.float64), np.asarray(values, np.float64)
    axes.plot(
        across, curve, color=look.colour, linestyle=look.dashes, linewidth=look.width, zorder=1.5, label=label
    )
    return _end(across, curve, look, label)


def _end(x: Floats, y: Floats, look: Look, label: str) -> End:
    """The last finite point; a curve without one has no place for its label."""
    finite = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if not finite.size:
        return End(label, np.nan, np.nan, look.colour)
    weight = "bold" if look.width > 2.3 else "normal"
    return End(label, float(x[finite[-1]]), float(y[finite[-1]]), look.colour, weight)
