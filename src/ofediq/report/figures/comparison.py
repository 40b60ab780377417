"""Pictures of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ofediq.errors import require_kind
from ofediq.report.comparison import Comparison
from ofediq.report.figures.curves import compare
from ofediq.report.figures.regret import regrets
from ofediq.simulation import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(*results: Result, path: str | Path | None = None, title: str = "") -> Figure:
    """Accuracy or MSE of `results` over time and over bits, a line per method; saved if `path` is given.

    Args:
        results: what `simulate` returned; those of one method with several seeds share a line and its band.
        path: a .png, .pdf or .svg file.
        title: above the picture.
    """
    runs: dict[str, list[Result]] = {}
    for result in results:
        require_kind(Result, "results", result)
        runs.setdefault(result.name, []).append(result)
    return draw_comparison(Comparison(runs), path=path, title=title)


def draw_comparison(comparison: Comparison, *, path: str | Path | None = None, title: str = "") -> Figure:
    """Accuracy or MSE over time and over bits, with the naive references in grey; saved if `path` is given."""
    curves = {results[0].name: results for results in comparison.counted.values()}
    drift = {name: results[0].drift for name, results in curves.items()}
    return compare(curves, comparison.metric, path, comparison.naive_curves, title, drift)


def draw_regrets(comparison: Comparison, *, path: str | Path | None = None, title: str = "") -> Figure:
    """The regret of each method below that of not learning, and beside FedOGD's; saved if `path` is given."""
    measured = {
        results[0].name: [
            comparison.regrets[key][result.seed]
            for result in results
            if result.seed in comparison.regrets.get(key, {})
        ]
        for key, results in comparison.counted.items()
    }
    estimate = any(regret.estimate for seeds in measured.values() for regret in seeds)
    return regrets({name: seeds for name, seeds in measured.items() if seeds}, path, title, estimate)
