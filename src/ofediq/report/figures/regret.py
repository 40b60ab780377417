"""Measured regret beside what the theorems promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from ofediq.errors import InputError
from ofediq.report.figures.canvas import new_figure, save, style_axes
from ofediq.report.figures.labels import End, label_ends
from ofediq.report.figures.lines import BAND_NOTE, draw_line
from ofediq.report.figures.style import LABEL_SIZE, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


class Measured(Protocol):
    """What is drawn of the regret of one run."""

    @property
    def curve(self) -> Floats:
        """Regret up to each step."""

    @property
    def bound(self) -> Floats | None:
        """The theorem's value at each step, if one applies."""


def regrets(
    curves: Mapping[str, Sequence[Measured]],
    path: str | Path | None = None,
    title: str = "",
    estimate: bool = False,
) -> Figure:
    """Draw the regret of each method, both axes logarithmic, with its bound; saved if `path` is given.

    Args:
        curves: the regret of each method by its name, one per seed.
        path: a .png, .pdf or .svg file.
        title: above the axes.
        estimate: whether the comparator is the best model found, not the best there is.
    """
    if not any(curves.values()):
        raise InputError("`curves` must hold at least one regret, got none")
    seeds = max(len(measured) for measured in curves.values())
    note = BAND_NOTE.format(seeds=seeds) if seeds > 1 else ""
    figure, (axes,) = new_figure(1, title, note)
    ends = regret_panel(axes, curves)
    against = "the best model found (an estimate)" if estimate else "the best fixed model in hindsight"
    axes.set_title(f"Against {against}", size=LABEL_SIZE, loc="left")
    label_ends(axes, ends)
    return save(figure, path)


def regret_panel(axes: Axes, curves: Mapping[str, Sequence[Measured]]) -> list[End]:
    """Draw regrets (lines) and bounds (thin, dotted); returns the ends, to be labelled when the limits are final.

    Both are divided by the number of steps: a method that learns goes down, with slope -1/2 where the regret grows
    like the root of the time. Logarithms show no regret below zero: such steps are left out.
    """
    style_axes(axes, x="step", y="regret so far / steps so far")
    ends = []
    chosen = looks(curves)
    for index, (name, measured) in enumerate(curves.items()):
        if not measured:
            continue
        values = np.stack([one.curve for one in measured])
        steps = np.arange(1, values.shape[1] + 1)
        shown = np.where(values > 0, values, np.nan) / steps
        ends.append(draw_line(axes, steps, shown, chosen[name], name, first_mark=0.03 * index))
        bounds = [one.bound for one in measured if one.bound is not None]
        if bounds:
            bound = np.mean(bounds, axis=0) / steps
            axes.plot(steps, bound, color=chosen[name].colour, linestyle=(0, (1.0, 1.5)), linewidth=1.4)
            ends.append(End(f"bound for {name}", float(steps[-1]), float(bound[-1]), chosen[name].colour))
    axes.set_xscale("log")
    axes.set_yscale("log")
    return ends
