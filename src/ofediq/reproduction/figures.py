"""One picture per panel, and one for the regrets, in the project's style."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ofediq.report.figures import compare, under_bounds
from ofediq.reproduction.convex import Case, bounded
from ofediq.reproduction.panels import PANELS, Panel, Scale
from ofediq.reproduction.results import naive_curves, records
from ofediq.reproduction.store import Store


def draw_panels(
    names: Sequence[str], preset: str, seeds: int, scale: Scale, store: Store, folder: Path
) -> dict[str, Path]:
    """Draw the panels that have a finished run; returns the files by name."""
    files = {}
    for name in names:
        panel = PANELS[name]
        found = records(panel, preset, seeds, scale, store)
        if not found:
            continue
        naive = naive_curves(panel, preset, seeds, scale, store)
        files[name] = folder / f"{name}.png"
        compare(found, panel.task.metric, files[name], naive, picture_title(panel, preset, scale))
    return files


def draw_regrets(cases: Sequence[Case], store: Store, folder: Path) -> Path | None:
    """Measured regret beside Theorems 1 and 2; None without measurements."""
    measured = bounded(cases, store)
    if not measured:
        return None
    path = folder / "regret.png"
    clients = cases[0].clients
    under_bounds(measured, path, f"Regret under Theorems 1 and 2: softmax on digits, K = {clients}")
    return path


def picture_title(panel: Panel, preset: str, scale: Scale) -> str:
    """What a picture shows, in one line; a picture off the paper's scale says so."""
    data = panel.data(preset, 0, scale)
    small = "" if scale.full else "QUICK, not the paper's scale: "
    return (
        f"{small}{panel.name}: {panel.task.title}, CCR {panel.ccr} %, K = {data.clients:,}, "
        f"T = {data.steps}, preset {preset}"
    )
