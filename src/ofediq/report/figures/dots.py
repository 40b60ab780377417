"""Dots: one value per method, sorted, side by side for several streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from ofediq.errors import InputError, extra, require_choice
from ofediq.report.figures.canvas import save, style_axes
from ofediq.report.figures.curves import METRICS
from ofediq.report.figures.style import GREY, LABEL_SIZE, NOTE_SIZE, TICK_SIZE, TITLE_SIZE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Dot = tuple[float, float, str]
"""Value, standard deviation, kind."""

_PANEL = 6.9  # inches, names and axes
_FAR = 3.0  # times the median error: what is further off gets an arrow
_KINDS = {
    "common": ("#0072b2", "o", "common model"),
    "personal": ("#d55e00", "D", "personal"),
    "all bits": ("#000000", "s", "all of FedOGD's bits"),
    "reference": ("#009e73", "^", "no federation"),
}


def draw_dots(
    parts: Mapping[str, tuple[Mapping[str, Dot], Mapping[str, float]]],
    metric: str,
    path: str | Path | None = None,
    title: str = "",
) -> Figure:
    """Draw the methods of each part from the best at the top to the worst; saved if `path` is given.

    >>> rows = {"FedOGD": (0.9, 0.01, "all bits"), "OFedIQ": (0.85, 0.01, "common")}
    >>> len(draw_dots({"random": (rows, {"last": 0.1})}, "accuracy").axes)
    1
    """
    require_choice("metric", metric, tuple(METRICS))
    if not parts:
        raise InputError("`parts` must hold at least one stream, got none")
    most = max(max(len(rows) for rows, _ in parts.values()), 4)
    width, height = _PANEL * len(parts) + 0.4, 0.26 * most + 1.7
    figure: Figure = extra("matplotlib.figure", "report").Figure(figsize=(width, height), dpi=150)
    extra("matplotlib.backends.backend_agg", "report").FigureCanvasAgg(figure)
    for number, (name, (rows, naive)) in enumerate(parts.items()):
        left = (_PANEL * number + 2.4) / width
        axes = figure.add_axes((left, 0.72 / height, 4.2 / width, (height - 1.75) / height))
        style_axes(axes, f"{name} stream", METRICS[metric])
        edge = _edge([value for value, _, _ in rows.values()], metric)
        for place, (value, deviation, kind) in enumerate(rows.values()):
            colour, marker, _ = _KINDS[kind]
            if _error(value, metric) > _error(edge, metric):  # too far off to be drawn in scale
                axes.plot(edge, place, "<" if metric == "accuracy" else ">", color=colour, markersize=6)
            else:
                axes.errorbar(
                    value, place, xerr=deviation, fmt=marker, color=colour, markersize=5.5, capsize=2
                )
        low, high = axes.get_xlim()
        seen_here = {word: value for word, value in naive.items() if low <= value <= high}
        for value in seen_here.values():
            axes.axvline(value, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
        for words, value in _together(seen_here, (high - low) / 10):
            axes.annotate(
                words,
                (value, len(rows) + 0.35),
                color=GREY,
                size=NOTE_SIZE - 2,
                ha="center",
                va="bottom",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
        axes.set_yticks(range(len(rows)), list(rows), size=TICK_SIZE - 1.5)
        axes.set_ylim(len(rows) + 0.4, -0.7)  # a row for the words of the marks
        axes.locator_params(axis="x", nbins=5)
        axes.set_xlabel(METRICS[metric], size=LABEL_SIZE)
    heading = figure.text(0.15 / width, 1 - 0.12 / height, title, size=TITLE_SIZE, weight="bold", va="top")
    room, needed = (width - 0.3) * figure.dpi, max(1.0, heading.get_window_extent().width)
    heading.set_fontsize(TITLE_SIZE * min(1.0, room / needed))
    seen = {kind for rows, _ in parts.values() for _, _, kind in rows.values()}
    across = 0.15
    for kind, (colour, _, meaning) in _KINDS.items():
        if kind in seen:
            figure.text(across / width, 1 - 0.45 / height, meaning, size=NOTE_SIZE, color=colour, va="top")
            across += 0.085 * len(meaning) + 0.3
    return save(figure, path)


def _error(value: float, metric: str) -> float:
    return 1 - value if metric == "accuracy" else value


def _edge(values: Sequence[float], metric: str) -> float:
    """The worst value that is drawn in scale.

    >>> _edge([0.9, 0.8, 0.1], "accuracy"), _edge([1.0, 2.0, 50.0], "mse")
    (0.4, 6.0)
    """
    far = _FAR * median(_error(value, metric) for value in values)
    return round(1 - far, 9) if metric == "accuracy" else far


def _together(marks: Mapping[str, float], apart: float) -> list[tuple[str, float]]:
    """Marks with their places; those that are nearer to each other than `apart` share one.

    >>> _together({"last": 0.1, "mean": 0.9, "majority": 0.11}, 0.05)
    [('last, majority', 0.1), ('mean', 0.9)]
    """
    found: list[tuple[str, float]] = []
    for word, value in sorted(marks.items(), key=lambda one: one[1]):
        if found and value - found[-1][1] < apart:
            found[-1] = (f"{found[-1][0]}, {word}", found[-1][1])
        else:
            found.append((word, value))
    return found
