"""Direct labels: the name of a line stands at its end, moved up or down where two would overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Floats
from ofediq.errors import extra
from ofediq.report.figures.style import TICK_SIZE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

_DISTANCE = 7.0  # points between the end of a line and its label
_STROKE = 6.0  # points more where a stroke has to lead there
_LINE_HEIGHT = 1.28
_DETOURS = (0, -1, 1, -2, 2, -3, 3, -4, 4)  # lines of text that a label moves to stand clear of another line


@dataclass(frozen=True)
class End:
    """Where a line ends, and what to write there."""

    text: str
    x: float
    y: float
    colour: str
    weight: str = "normal"


def label_ends(axes: Axes, ends: Sequence[End], size: float = TICK_SIZE) -> list[Annotation]:
    """Write each text at the end of its line, in its colour; call it when the limits of the axes are final.

    Labels whose columns overlap are spread vertically, in the order of their lines; one that had to move far is
    joined to its line by a thin stroke. One that stands alone goes where no line runs through it, if that is near.
    """
    written = [_write(axes, end, size) for end in ends if np.isfinite(end.x) and np.isfinite(end.y)]
    pixels_per_point = axes.figure.dpi / 72
    gap = _LINE_HEIGHT * size * pixels_per_point
    anchors = axes.transData.transform([label.xy for label in written]) if written else np.empty((0, 2))
    widths = np.array([label.get_window_extent().width for label in written])
    bottom, top = axes.get_window_extent().intervaly
    for column in _columns(anchors[:, 0], anchors[:, 0] + widths):
        wanted = anchors[column, 1] + [_detour(axes, anchors, index, widths[index], gap) for index in column]
        heights = spread(wanted, gap, bottom + gap / 2, top)
        shifts = (heights - anchors[column, 1]) / pixels_per_point
        moved = np.abs(shifts) > size / 3
        for index, shift, strayed in zip(column, shifts, moved, strict=True):
            written[index].set_position((_DISTANCE + (_STROKE if moved.any() else 0.0), shift))
            stroke = written[index].arrow_patch
            if stroke is not None:
                stroke.set_visible(bool(strayed))
    return written


def _detour(axes: Axes, ends: Floats, index: int, width: float, gap: float) -> float:
    """How far to move a label up or down, in pixels, so that no line runs through it; 0 if nothing near helps."""
    (x, y), others = ends[index], np.delete(ends[:, 1], index)
    if len(others) and np.abs(others - y).min() < 2 * gap:
        return 0.0  # neighbours: they are spread
    reach = (_DISTANCE + _STROKE) * axes.figure.dpi / 72
    paths = [_heights_between(line, x + reach / 2, x + reach + width) for line in axes.get_lines()]
    drawn = np.concatenate([np.empty(0), *paths])
    bottom, top = axes.get_window_extent().intervaly
    for lines in _DETOURS:
        middle = y + lines * gap
        taken = np.abs(drawn - middle).min(initial=np.inf) < gap / 2
        near = np.abs(others - middle).min(initial=np.inf) < 1.5 * gap
        if not taken and not near and bottom < middle - gap / 2 and middle + gap / 2 < top:
            return lines * gap
    return 0.0


def _heights_between(line: Line2D, left: float, right: float) -> Floats:
    """The heights of a line at close places between two verticals, all in pixels."""
    pixels = line.get_transform().transform(np.asarray(line.get_xydata(), np.float64))
    pixels = pixels[np.isfinite(pixels).all(axis=1)]
    if len(pixels) == 0:
        return np.empty(0)
    places = np.linspace(left, right, 50)
    places = places[(places >= pixels[0, 0]) & (places <= pixels[-1, 0])]
    heights: Floats = np.interp(places, pixels[:, 0], pixels[:, 1])
    return heights


def spread(positions: npt.ArrayLike, gap: float, low: float, high: float) -> Floats:
    """The positions nearest to `positions` (least squares) that keep their order, `gap` apart, in [low, high].

    With z_i = position_i - i gap in sorted order, the answer is the isotonic regression of z. Where the range is
    too short for all, they stay `gap` apart and leave it at the top.

    >>> spread([1.0, 1.0, 5.0], gap=1.0, low=0.0, high=10.0).tolist()
    [0.5, 1.5, 5.0]
    """
    wanted = np.asarray(positions, np.float64)
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    fitted = extra("scipy.optimize", "sim").isotonic_regression(wanted[order] - steps).x
    fitted = np.clip(fitted, low, max(low, high - gap * (len(wanted) - 1)))
    placed = np.empty_like(wanted)
    placed[order] = fitted + steps
    return placed


def _columns(left: Floats, right: Floats) -> list[list[int]]:
    """Groups of labels whose horizontal extents overlap."""
    groups: list[list[int]] = []
    reach = -np.inf
    for index in np.argsort(left, kind="stable"):
        if left[index] > reach:
            groups.append([])
        groups[-1].append(int(index))
        reach = max(reach, right[index])
    return groups


def _write(axes: Axes, end: End, size: float) -> Annotation:
    halo = extra("matplotlib.patheffects", "report").withStroke(linewidth=3, foreground="white")
    return axes.annotate(
        end.text,
        xy=(end.x, end.y),
        xytext=(_DISTANCE, 0.0),
        textcoords="offset points",
        va="center",
        size=size,
        color=end.colour,
        weight=end.weight,
        annotation_clip=False,
        path_effects=[halo],
        arrowprops={
            "arrowstyle": "-",
            "color": end.colour,
            "linewidth": 0.7,
            "relpos": (0.0, 0.5),
            "shrinkA": 1,
            "shrinkB": 2,
        },
    )
