"""`reproduce`: run what is missing, then write figures, report.html, tables.md and results.json."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ofediq.errors import InputError, require_choice, require_integer
from ofediq.experiment import Listener
from ofediq.reproduction.claims import AT_99
from ofediq.reproduction.convex import cases, measure_all
from ofediq.reproduction.estimate import estimate_seconds, in_words
from ofediq.reproduction.figures import draw_panels, draw_regrets
from ofediq.reproduction.markdown import write_tables
from ofediq.reproduction.page import write_page
from ofediq.reproduction.panels import PANELS, PRESETS, Scale, all_units
from ofediq.reproduction.results import collect
from ofediq.reproduction.store import Store
from ofediq.reproduction.work import run_units
from ofediq.storage import save_json

TARGETS = ("table1", *PANELS, "claims", "all")
_CLAIMED = ("fig2", "fig3", *AT_99)


@dataclass(frozen=True)
class Outcome:
    """What a reproduction came to.

    Attributes:
        results: what results.json holds.
        folder: where it, report.html and the figures are.
        finished: False if it was interrupted.
    """

    results: dict[str, Any]
    folder: Path
    finished: bool


def reproduce(
    target: str = "all",
    *,
    preset: str = "authors",
    seeds: int = 3,
    scale: Scale | None = None,
    out: str | Path = "runs/reproduce",
    force: bool = False,
    listener: Listener,
) -> Outcome:
    """Run the target's panels and claims, and write what they came to.

    Finished units lie in `out`/units and are not run again unless `force` says so; the pictures and the report go
    to `out`/`preset`, or `out`/`preset`-quick.

    Args:
        target: table1, a panel (fig2, ...), claims or all.
        preset: `authors` (what made the figures) or `paper` (what the text says).
        seeds: how many seeds, from 0.
        scale: the paper's by default.
        out: folder.
        force: run everything again.
        listener: told about progress.
    """
    require_choice("target", target, TARGETS)
    require_choice("preset", preset, PRESETS)
    require_integer("seeds", seeds, 1)
    scale = scale or Scale()
    names, wants_regret = panels_of(target), target in ("claims", "all")
    store = Store(Path(out) / "units")
    folder = Path(out) / (preset if scale.full else f"{preset}-quick")
    convex = cases(seeds, scale) if wants_regret else []
    units = all_units(names, preset, seeds, scale)
    finished = True
    if units:
        _announce(estimate_seconds(units, store, force=force), scale, listener)
        finished = run_units(units, store, listener, force=force)
    if finished and convex:
        finished = measure_all(convex, store, listener, force=force)
    results = collect(names, preset, seeds, scale, store, convex)
    results |= {"target": target, "interrupted": not finished}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = draw_panels(names, preset, seeds, scale, store, folder)
        regret = draw_regrets(convex, store, folder) if convex else None
        write_page(
            results, pictures if regret is None else {**pictures, "regret": regret}, folder / "report.html"
        )
        write_tables(results, folder / "tables.md")
        save_json(folder / "results.json", results)
    except OSError as error:
        raise InputError(f"`out` must be writable, got {str(out)!r} ({error.strerror or error})") from None
    return Outcome(results, folder, finished)


def panels_of(target: str) -> tuple[str, ...]:
    """The panels behind a target.

    >>> panels_of("fig3"), panels_of("table1")
    (('fig3',), ())
    """
    if target == "all":
        return tuple(PANELS)
    if target == "claims":
        return tuple(name for name in PANELS if name in _CLAIMED)
    return (target,) if target in PANELS else ()


def _announce(seconds: float, scale: Scale, listener: Listener) -> None:
    if not scale.full:
        listener.note(
            f"QUICK: {scale.clients} clients and at most {scale.steps} steps. This is NOT the paper's scale, and "
            "nothing is compared with the authors' values."
        )
    if seconds:
        listener.note(f"about {in_words(seconds)} of simulation ahead.")
    else:
        listener.note("all runs are finished already; --force runs them again.")
