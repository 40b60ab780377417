"""Figures and axes, made with matplotlib's object interface: no pyplot, no window, no global state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ofediq.errors import InputError, extra, refusing
from ofediq.report.figures.style import GREY, GRID, LABEL_SIZE, NOTE_SIZE, TICK_SIZE, TITLE_SIZE
from ofediq.storage import replaced

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_WIDTH, _HEIGHT = 5.2, 4.8  # inches
_LEFT, _GAP, _BOTTOM, _TOP = 0.95, 2.05, 0.95, 0.75  # inches; the gap holds the labels at the ends of lines
_MARGIN = 0.15  # inches at the right end of a title
_DPI = 150


def new_figure(
    panels: int = 1, title: str = "", note: str = "", share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with `panels` axes side by side, room for labels at the right of each, and its axes.

    Args:
        panels: how many axes.
        title: above all of them.
        note: small print below.
        share_y: whether all axes have the same vertical scale.

    >>> figure, axes = new_figure(2, title="Two panels")
    >>> len(axes)
    2
    """
    width = _LEFT + panels * (_PANEL_WIDTH + _GAP)
    figure: Figure = extra("matplotlib.figure", "report").Figure(figsize=(width, _HEIGHT + _BOTTOM), dpi=_DPI)
    extra("matplotlib.backends.backend_agg", "report").FigureCanvasAgg(figure)
    height = _HEIGHT + _BOTTOM
    axes: list[Axes] = []
    for panel in range(panels):
        left = _LEFT + panel * (_PANEL_WIDTH + _GAP)
        place = (left / width, _BOTTOM / height, _PANEL_WIDTH / width, (_HEIGHT - _TOP) / height)
        axes.append(figure.add_axes(place, sharey=axes[0] if share_y and axes else None))
        axes[-1].tick_params(labelleft=not share_y or panel == 0)
    if title:
        words = figure.text(_LEFT / width, 0.985, title, size=TITLE_SIZE, weight="bold", va="top")
        room = (width - _LEFT - _MARGIN) * figure.dpi
        words.set_fontsize(TITLE_SIZE * min(1.0, room / words.get_window_extent().width))
    if note:
        figure.text(_LEFT / width, 0.012, note, size=NOTE_SIZE, color=GREY, va="bottom")
    return figure, axes


def style_axes(axes: Axes, title: str = "", x: str = "", y: str = "") -> Axes:
    """Give `axes` the project's look: names, a light grid behind the data, no box."""
    axes.set_title(title, size=LABEL_SIZE, loc="left")
    axes.set_xlabel(x, size=LABEL_SIZE)
    axes.set_ylabel(y, size=LABEL_SIZE)
    axes.tick_params(labelsize=TICK_SIZE, color=GREY)
    axes.grid(True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)
    return axes


def save(figure: Figure, path: str | Path | None) -> Figure:
    """Write `figure` to `path` (.png, .pdf, .svg; nothing if None) and return it."""
    if path is None:
        return figure
    # The version and the date in a file's metadata would make equal pictures differ.
    kind = Path(path).suffix.lower()
    metadata: dict[str, Any] = {
        ".png": {"Software": None},
        ".pdf": {"CreationDate": None},
        ".svg": {"Date": None},
    }
    if kind not in metadata:
        raise InputError(f"`path` must end in .png, .pdf or .svg, got {str(path)!r}")
    with refusing("path", "writable", path), replaced(Path(path)) as file:
        figure.savefig(file, format=kind[1:], metadata=metadata[kind])
    return figure
