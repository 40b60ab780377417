"""The frontier: how well a method learns against the uplink bits, or bytes, that it really spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ofediq.errors import InputError, extra, require_choice
from ofediq.report.figures.canvas import new_figure, save, style_axes
from ofediq.report.figures.curves import METRICS, scale_metric
from ofediq.report.figures.labels import End, label_ends
from ofediq.report.figures.lines import BAND_NOTE, draw_line
from ofediq.report.figures.style import looks, naive_look
from ofediq.report.words import NAIVE_NAMES, skill_text, value_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Line = tuple[npt.ArrayLike, npt.ArrayLike]
"""Shares of what FedOGD spends, [points], and the metric with each seed, [seeds, points]."""


def draw_frontier(
    lines: Mapping[str, Line],
    ceiling: npt.ArrayLike,
    metric: str,
    *,
    path: str | Path | None = None,
    title: str = "",
    skills: Mapping[str, float | None] | None = None,
    naive: Mapping[str, float] | None = None,
    counted: str = "real uplink bits",
) -> Figure:
    """Draw the metric at the end of a run against a share of what FedOGD spends; saved if `path` is given.

    Args:
        lines: for each method its points.
        ceiling: FedOGD's metric with each seed, a horizontal line.
        metric: accuracy or mse.
        path: a .png, .pdf or .svg file.
        title: above the picture.
        skills: by method and FedOGD, that of the dearest point, written behind the name.
        naive: by name what the naive forecasts come to; the best of them is a line, at skill 0.
        counted: what is spent.
    """
    require_choice("metric", metric, tuple(METRICS))
    if not lines:
        raise InputError("`lines` must hold at least one method, got none")
    seeds = np.atleast_1d(np.asarray(ceiling, np.float64))
    note = BAND_NOTE.format(seeds=len(seeds)) if len(seeds) > 1 else ""
    figure, (axes,) = new_figure(1, title, note)
    style_axes(axes, "At the end of the run", f"{counted}, as a share of FedOGD's", METRICS[metric])
    axes.set_xscale("log")
    chosen = looks(["FedOGD", *lines])
    ends = []
    for name, (shares, values) in lines.items():
        order = np.argsort(np.asarray(shares, np.float64))
        across = np.asarray(shares, np.float64)[order]
        rows = np.atleast_2d(np.asarray(values, np.float64))[:, order]
        end = draw_line(axes, across, rows, chosen[name], _named(name, skills))
        axes.plot(across, rows.mean(0), chosen[name].marker, color=chosen[name].colour, markersize=6)
        ends.append(end)
    if naive:
        name = (max if metric == "accuracy" else min)(naive, key=naive.__getitem__)
        look = naive_look(0)
        axes.axhline(naive[name], color=look.colour, linewidth=1.2, linestyle="--")
        ends.append(End(NAIVE_NAMES.get(name, name), 1.0, naive[name], look.colour))
    axes.axhline(seeds.mean(), color=chosen["FedOGD"].colour, linewidth=1.4)
    axes.set_xlim(right=1.0)
    axes.xaxis.set_major_formatter(extra("matplotlib.ticker", "report").FuncFormatter(_share_text))
    best = f"FedOGD {value_text(float(seeds.mean()), metric)}"
    ends.append(End(_named(best, skills, "FedOGD"), 1.0, float(seeds.mean()), "#000000"))
    scale_metric(axes, metric)
    label_ends(axes, ends)
    return save(figure, path)


def draw_sweep(
    points: Sequence[Mapping[str, Any]],
    over: tuple[str, ...],
    metric: str,
    *,
    path: str | Path | None = None,
    title: str = "",
) -> Figure:
    """Draw the metric at the end of each run over the first choice, a line for each method and other choices.

    Args:
        points: with `choices`, `name` and `values` (the metric with each seed) each.
        over: names of the choices.
        metric: accuracy or mse.
        path: a .png, .pdf or .svg file.
        title: above the picture.
    """
    require_choice("metric", metric, tuple(METRICS))
    first, *others = over
    ticks = list(dict.fromkeys(str(point["choices"][first]) for point in points))
    lines: dict[str, dict[int, list[float]]] = {}
    for point in points:
        rest = ", ".join(f"{name} {point['choices'][name]}" for name in others)
        if None not in point["values"]:
            line = lines.setdefault(", ".join(filter(None, (point["name"], rest))), {})
            line[ticks.index(str(point["choices"][first]))] = point["values"]
    figure, (axes,) = new_figure(1, title, "")
    style_axes(axes, "At the end of the run", first, METRICS[metric])
    chosen, ends = looks(list(lines)), []
    for name, line in lines.items():
        across, rows = np.array(sorted(line), np.float64), np.array([line[at] for at in sorted(line)]).T
        ends.append(draw_line(axes, across, rows, chosen[name], name))
        axes.plot(across, rows.mean(0), chosen[name].marker, color=chosen[name].colour, markersize=6)
    axes.set_xticks(range(len(ticks)), ticks)
    scale_metric(axes, metric)
    label_ends(axes, ends)
    return save(figure, path)


def _named(text: str, skills: Mapping[str, float | None] | None, key: str | None = None) -> str:
    """A label with the skill behind it, where it is known."""
    skill = skill_text((skills or {}).get(key or text))
    return f"{text} ({skill})" if skill else text


def _share_text(share: float, _position: int) -> str:
    """A share as percent, with no more digits than it needs."""
    return f"{100 * share:g}%"
