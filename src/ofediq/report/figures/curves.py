"""Methods side by side: accuracy or MSE over time, and over the bits that were sent for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Floats
from ofediq.errors import InputError, extra, require, require_choice
from ofediq.report.figures.canvas import new_figure, save, style_axes
from ofediq.report.figures.labels import End, label_ends
from ofediq.report.figures.lines import BAND_NOTE, draw_line, draw_reference
from ofediq.report.figures.style import Look, looks, naive_look
from ofediq.report.words import NAIVE_NAMES, value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = {"accuracy": "Accuracy so far", "mse": "Mean squared error so far"}


class Drawn(Protocol):
    """What is drawn of one method with one seed."""

    @property
    def curve(self) -> Floats:
        """Accuracy or MSE up to each step."""

    @property
    def bits_wire(self) -> Floats:
        """Uplink bits of all clients at each step."""

    @property
    def steps(self) -> int:
        """Number of steps."""


AnyDrawn = TypeVar("AnyDrawn", bound=Drawn)
Runs = Mapping[str, Sequence[Drawn]]
Naive = Mapping[str, npt.ArrayLike]


def compare(
    curves: Mapping[str, Sequence[Drawn]],
    metric: str,
    path: str | Path | None = None,
    naive: Naive | None = None,
    title: str = "",
    drift: Mapping[str, Sequence[int]] | None = None,
) -> Figure:
    """Draw methods over time and over bits, two panels with one vertical scale; saved if `path` is given.

    Args:
        curves: the runs of each method by its name, one per seed.
        metric: accuracy or mse.
        path: a .png, .pdf or .svg file.
        naive: curves of answers without a model, drawn in grey.
        title: above the panels.
        drift: steps after which the errors of a method have risen, marked at the lower edge.
    """
    require_choice("metric", metric, tuple(METRICS))
    if not curves:
        raise InputError("`curves` must hold at least one method, got none")
    for name, of_method in curves.items():
        require(len(of_method) > 0, "curves", "must hold at least one run of each method", name)
    runs = {name: longest(of_method) for name, of_method in curves.items()}
    seeds = max(len(of_method) for of_method in runs.values())
    figure, (left, right) = new_figure(
        2, title, BAND_NOTE.format(seeds=seeds) if seeds > 1 else "", share_y=True
    )
    time_ends = time_panel(left, runs, metric, naive)
    bits_ends = bits_panel(right, runs, metric, naive)
    scale_metric(left, metric)
    _mark_drift(left, drift or {}, runs)
    label_ends(left, time_ends)
    label_ends(right, bits_ends)
    return save(figure, path)


def time_panel(axes: Axes, runs: Runs, metric: str, naive: Naive | None = None) -> list[End]:
    """Draw the metric over time; returns the ends of the lines, to be labelled when the limits are final."""
    style_axes(axes, "Over time", "step", METRICS[metric])
    ends = []
    chosen = looks(runs)
    for index, (name, of_method) in enumerate(runs.items()):
        curves = np.stack([run.curve for run in of_method])
        label = f"{name} {value_text(curves[:, -1].mean(), metric)}"
        steps = np.arange(1, curves.shape[1] + 1)
        ends.append(draw_line(axes, steps, curves, chosen[name], label, first_mark=0.03 * index))
    for index, (name, values) in enumerate((naive or {}).items()):
        curve = np.asarray(values, np.float64)
        label = f"{NAIVE_NAMES.get(name, name)} {value_text(curve[-1], metric)}"
        ends.append(draw_reference(axes, np.arange(1, len(curve) + 1), curve, naive_look(index), label))
    longest = max(run.steps for of_method in runs.values() for run in of_method)
    axes.set_xlim(0, max(longest, 2))
    return ends


def bits_panel(axes: Axes, runs: Runs, metric: str, naive: Naive | None = None) -> list[End]:
    """Draw the metric over the bits sent so far, on a logarithmic axis; returns the ends of the lines.

    Several seeds send slightly different amounts: the horizontal position is their mean. A method that never sent
    is a horizontal line at its last value, like a naive answer.
    """
    style_axes(axes, "Over bits", "uplink bits of all clients so far, as encoded")
    ends = []
    chosen = looks(runs)
    silent: list[tuple[str, Look, float]] = []
    for index, (name, of_method) in enumerate(runs.items()):
        bits = np.mean([np.cumsum(run.bits_wire) for run in of_method], axis=0)
        curves = np.stack([run.curve for run in of_method])
        sent = bits > 0
        if sent.any():
            ends.append(
                draw_line(axes, bits[sent], curves[:, sent], chosen[name], name, first_mark=0.03 * index)
            )
        else:
            silent.append((name, chosen[name], float(curves[:, -1].mean())))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(extra("matplotlib.ticker", "report").EngFormatter(unit="bit"))
    low, high = axes.get_xlim()
    for name, look, value in silent:
        axes.axhline(value, color=look.colour, linestyle=look.dashes, linewidth=look.width)
        ends.append(End(f"{name}, no bits", high, value, look.colour))
    for index, values in enumerate((naive or {}).values()):
        look = naive_look(index)
        last = float(np.asarray(values, np.float64)[-1])
        axes.axhline(last, color=look.colour, linestyle=look.dashes, linewidth=look.width, zorder=1.5)
    axes.set_xlim(low, high)
    return ends


def _mark_drift(axes: Axes, drift: Mapping[str, Sequence[int]], runs: Runs) -> None:
    """A small triangle at the lower edge for each alarm, in the colour of its method."""
    chosen, shown = looks(runs), False
    for name, steps in drift.items():
        places = [0.02] * len(steps)
        axes.scatter(
            steps, places, marker="^", s=22, color=chosen[name].colour, transform=axes.get_xaxis_transform()
        )
        shown |= bool(steps)
    if shown:
        axes.set_xlabel("step (triangle: errors have risen, drift)")


def scale_metric(axes: Axes, metric: str) -> None:
    """Percent for an accuracy; a logarithmic axis for an MSE that spans more than a factor of ten."""
    ticker = extra("matplotlib.ticker", "report")
    if metric == "accuracy":
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, 0.0), min(high, 1.0))
        decimals = 0 if high - low > 0.1 else None  # None: as many as the ticks need
        axes.yaxis.set_major_formatter(ticker.PercentFormatter(xmax=1.0, decimals=decimals))
        return
    values = np.concatenate([np.asarray(line.get_ydata(), np.float64) for line in axes.get_lines()])
    values = values[np.isfinite(values) & (values > 0)]
    if values.size and values.max() > 10 * values.min():
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0.0)


def longest(runs: Sequence[AnyDrawn]) -> list[AnyDrawn]:
    """The runs with the most steps: an interrupted seed does not shorten the curve of the finished ones."""
    steps = max((run.steps for run in runs), default=0)
    return [run for run in runs if run.steps == steps]
