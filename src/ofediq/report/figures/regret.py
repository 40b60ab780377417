"""Measured regret: what learning gained and what saved bits cost; and regret beside what the theorems promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ofediq.arrays import Floats
from ofediq.errors import InputError, extra
from ofediq.report.figures.canvas import new_figure, save, style_axes
from ofediq.report.figures.labels import End, label_ends
from ofediq.report.figures.lines import BAND_NOTE, draw_line, draw_reference
from ofediq.report.figures.style import LABEL_SIZE, looks, naive_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROOM = 3.0  # a bound, or a method, above so many times the regret of not learning is not drawn to its end
_DOTS = (0, (1.0, 1.5))


class Measured(Protocol):
    """What is drawn of the regret of one run."""

    @property
    def curve(self) -> Floats:
        """Regret up to each step."""

    @property
    def bound(self) -> Floats | None:
        """The theorem's value at each step, if one applies."""

    @property
    def idle(self) -> Floats:
        """Regret of keeping the first model, up to each step."""


def regrets(
    curves: Mapping[str, Sequence[Measured]],
    path: str | Path | None = None,
    title: str = "",
    estimate: bool = False,
) -> Figure:
    """Draw the regret of each method below that of not learning, and beside FedOGD's; saved if `path` is given.

    Args:
        curves: the regret of each method by its name, one per seed.
        path: a .png, .pdf or .svg file.
        title: above the panels.
        estimate: whether the comparator is the best model found, not the best there is.
    """
    shown = {name: measured for name, measured in curves.items() if measured}
    if not shown:
        raise InputError("`curves` must hold at least one regret, got none")
    several = len(shown) > 1
    figure, (left, *right) = new_figure(2 if several else 1, title, _note(shown))
    against = "the best model found (an estimate)" if estimate else "the best fixed model in hindsight"
    ends = regret_panel(left, shown)
    left.set_title(f"Against {against}", size=LABEL_SIZE, loc="left")
    label_ends(left, ends)
    for axes in right:
        label_ends(axes, cost_panel(axes, shown))
    return save(figure, path)


def regret_panel(axes: Axes, curves: Mapping[str, Sequence[Measured]]) -> list[End]:
    """Draw regrets up to each step, with that of not learning and the bounds that are near enough to be seen.

    A method that learns bends away from the grey line, which grows like the time.
    """
    style_axes(axes, x="step", y="regret so far, all clients")
    axes.yaxis.set_major_formatter(extra("matplotlib.ticker", "report").EngFormatter())
    ends, chosen = [], looks(curves)
    idle = _idle(curves)
    roof = _ROOM * max(float(idle.max()), 0.0)
    for index, (name, measured) in enumerate(curves.items()):
        values = np.stack([one.curve for one in measured])
        steps = np.arange(1, values.shape[1] + 1)
        ends.append(draw_line(axes, steps, values, chosen[name], name, first_mark=0.03 * index))
        bound = _bound(measured)
        if bound is not None and bound[-1] <= roof:
            axes.plot(steps, bound, color=chosen[name].colour, linestyle=_DOTS, linewidth=1.4)
            ends.append(End(f"bound for {name}", float(steps[-1]), float(bound[-1]), chosen[name].colour))
    ends.append(draw_reference(axes, np.arange(1, len(idle) + 1), idle, naive_look(0), "not learning"))
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.0), min(high, roof) if roof > 0 else high)
    axes.set_xlim(0, max(len(idle), 2))
    return ends


def cost_panel(axes: Axes, curves: Mapping[str, Sequence[Measured]]) -> list[End]:
    """Draw how much each regret lies above FedOGD's, or above the smallest where that is missing.

    It is what saved bits cost in loss, whatever the comparator: that drops out.
    """
    last = {name: float(_mean(measured)[-1]) for name, measured in curves.items()}
    base = "FedOGD" if "FedOGD" in last else min(last, key=lambda name: last[name])
    style_axes(axes, f"What it cost beside {base}", "step", f"regret so far - {base}'s")
    axes.yaxis.set_major_formatter(extra("matplotlib.ticker", "report").EngFormatter())
    ends, chosen, below = [], looks(curves), _mean(curves[base])
    for index, (name, measured) in enumerate(curves.items()):
        values = np.stack([one.curve for one in measured])
        length = min(values.shape[1], len(below))
        extra_loss = values[:, :length] - below[:length]
        end = float(extra_loss[:, -1].mean())
        label = name if name == base else f"{name} {_signed(end)}"
        steps = np.arange(1, length + 1)
        ends.append(draw_line(axes, steps, extra_loss, chosen[name], label, first_mark=0.03 * index))
    axes.set_xlim(0, max(len(below), 2))
    return ends


def under_bounds(
    curves: Mapping[str, Sequence[Measured]], path: str | Path | None = None, title: str = ""
) -> Figure:
    """Draw the regret of each method with its bound, both axes logarithmic; saved if `path` is given.

    Args:
        curves: the regret of each method by its name, one per seed.
        path: a .png, .pdf or .svg file.
        title: above the axes.
    """
    if not any(curves.values()):
        raise InputError("`curves` must hold at least one regret, got none")
    figure, (axes,) = new_figure(1, title, _seeds(curves))
    ends = bound_panel(axes, {name: measured for name, measured in curves.items() if measured})
    axes.set_title("Against the best fixed model in hindsight", size=LABEL_SIZE, loc="left")
    label_ends(axes, ends)
    return save(figure, path)


def bound_panel(axes: Axes, curves: Mapping[str, Sequence[Measured]]) -> list[End]:
    """Draw regrets (lines) and bounds (thin, dotted); returns the ends, to be labelled when the limits are final.

    Both are divided by the number of steps: a method that learns goes down, with slope -1/2 where the regret grows
    like the root of the time. Logarithms show no regret below zero: such steps are left out.
    """
    style_axes(axes, x="step", y="regret so far / steps so far")
    ends, chosen = [], looks(curves)
    for index, (name, measured) in enumerate(curves.items()):
        values = np.stack([one.curve for one in measured])
        steps = np.arange(1, values.shape[1] + 1)
        shown = np.where(values > 0, values, np.nan) / steps
        ends.append(draw_line(axes, steps, shown, chosen[name], name, first_mark=0.03 * index))
        bound = _bound(measured)
        if bound is not None:
            axes.plot(steps, bound / steps, color=chosen[name].colour, linestyle=_DOTS, linewidth=1.4)
            ends.append(
                End(f"bound for {name}", float(steps[-1]), float(bound[-1] / steps[-1]), chosen[name].colour)
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    return ends


def _note(curves: Mapping[str, Sequence[Measured]]) -> str:
    """Seeds and bands, and how far above the picture the bounds are that are not in it."""
    roof, far = _ROOM * float(_idle(curves).max()), []
    for name, measured in curves.items():
        bound, end = _bound(measured), float(_mean(measured)[-1])
        if bound is not None and bound[-1] > roof and end > 0:
            far.append(f"{bound[-1] / end:.0f} times {name}'s regret")
    above = f"Above the picture: the theorems' bound, {', '.join(far)}." if far else ""
    return " ".join(filter(None, (_seeds(curves), above)))


def _idle(curves: Mapping[str, Sequence[Measured]]) -> Floats:
    """The mean regret of not learning, of the methods that came furthest."""
    all_of_them = [one.idle for measured in curves.values() for one in measured]
    steps = max(len(one) for one in all_of_them)
    return np.asarray(np.mean([one for one in all_of_them if len(one) == steps], axis=0))


def _signed(value: float) -> str:
    """A number of three digits with its sign, such as +20 k."""
    if not np.isfinite(value):
        return "diverged"
    shown = str(extra("matplotlib.ticker", "report").EngFormatter()(float(f"{value:.3g}")))
    return shown if value <= 0 else f"+{shown}"


def _seeds(curves: Mapping[str, Sequence[Measured]]) -> str:
    seeds = max(len(measured) for measured in curves.values())
    return BAND_NOTE.format(seeds=seeds) if seeds > 1 else ""


def _bound(measured: Sequence[Measured]) -> Floats | None:
    """The mean bound over seeds, or None where no theorem applies."""
    bounds = [one.bound for one in measured if one.bound is not None]
    return np.mean(bounds, axis=0) if bounds else None


def _mean(measured: Sequence[Measured]) -> Floats:
    """The mean regret over seeds."""
    return np.asarray(np.mean([one.curve for one in measured], axis=0))
