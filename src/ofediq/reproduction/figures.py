"""One picture per panel, and one for the regrets, in the project's style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ofediq.report import Comparison
from ofediq.report.figures.curves import compare
from ofediq.report.figures.regret import under_bounds
from ofediq.reproduction.panels import PANELS, Panel, Scale, series_name
from ofediq.simulation import Regret


def draw_panels(
    names: Sequence[str], preset: str, scale: Scale, done: Mapping[str, Comparison], folder: Path
) -> dict[str, Path]:
    """Draw the panels that have a finished run; returns the files by name."""
    files = {}
    for panel in (PANELS[name] for name in names):
        comparison = done.get(series_name(panel.config(preset, scale=scale)))
        counted = {} if comparison is None else comparison.counted
        found = {recipe.label: counted[recipe.text] for recipe in panel.recipes if recipe.text in counted}
        if comparison is not None and found:
            files[panel.name] = folder / f"{panel.name}.png"
            title = picture_title(panel, preset, scale)
            compare(found, panel.problem.metric, files[panel.name], comparison.naive_curves, title)
    return files


def draw_regrets(measured: Mapping[str, Sequence[Regret]], clients: int, folder: Path) -> dict[str, Path]:
    """Measured regret beside Theorems 1 and 2; nothing without measurements."""
    if not measured:
        return {}
    path = folder / "regret.png"
    under_bounds(measured, path, f"Regret under Theorems 1 and 2: softmax on digits, K = {clients}")
    return {"regret": path}


def picture_title(panel: Panel, preset: str, scale: Scale) -> str:
    """What a picture shows, in one line; a picture off the paper's scale says so."""
    config = panel.config(preset, scale=scale)
    small = "" if scale.full else "QUICK, not the paper's scale: "
    return (
        f"{small}{panel.name}: {panel.problem.title}, CCR {panel.ccr} %, K = {config.clients:,}, "
        f"T = {config.steps}, preset {preset}"
    )
