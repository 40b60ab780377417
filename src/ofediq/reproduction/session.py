"""`reproduce`: run what is missing, then write figures, report.html, tables.md and results.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ofediq.errors import refusing, require_choice, require_integer
from ofediq.experiment import Config, Experiment, Folder, Listener, finished, run
from ofediq.report import Comparison
from ofediq.reproduction.claims import AT_99
from ofediq.reproduction.convex import bounded, measure, summarise, trial_series, trials
from ofediq.reproduction.figures import draw_panels, draw_regrets
from ofediq.reproduction.page import render_page, render_tables
from ofediq.reproduction.panels import PANELS, PRESETS, Scale, all_series, experiment_of
from ofediq.reproduction.results import collect
from ofediq.storage import save_bytes, save_json

TARGETS = ("table1", *PANELS, "claims", "all")
_CLAIMED = ("fig2", "fig3", *AT_99)
# Seconds per step with 1000 clients, on two cores with the compiled kernels; the MLPs are all about equal.
_ON_RECORD = {"mnist": 0.035}
_MLP = 0.0015
_START = 1.5  # seconds before the first step: data, compilation


def reproduce(
    target: str = "all",
    *,
    preset: str = "authors",
    seeds: int = 3,
    scale: Scale | None = None,
    out: str | Path = "runs/reproduce",
    force: bool = False,
    listener: Listener,
    jobs: int | None = 1,
) -> dict[str, Any]:
    """Run the target's panels and claims, write what they came to, and return what results.json holds.

    Finished runs lie in `out`/units and are not run again unless `force` says so; the pictures and the report go
    to `out`/`preset`, or `out`/`preset`-quick, which is the result's `folder`. What was interrupted says so in
    `interrupted`.

    Args:
        target: table1, a panel (fig2, ...), claims or all.
        preset: `authors` (what made the figures) or `paper` (what the text says).
        seeds: how many seeds, from 0.
        scale: the paper's by default.
        out: folder.
        force: run everything again.
        listener: told about progress.
        jobs: see `experiment.run`.
    """
    require_choice("target", target, TARGETS)
    require_choice("preset", preset, PRESETS)
    require_integer("seeds", seeds, 1)
    scale = scale or Scale()
    names, units = panels_of(target), Path(out) / "units"
    folder = Path(out) / (preset if scale.full else f"{preset}-quick")
    wanted = all_series(names, preset, seeds, scale)
    convex = trials(seeds, scale) if target in ("claims", "all") else []
    if wanted and not scale.full:
        listener.note(
            f"QUICK: {scale.clients} clients and at most {scale.steps} steps. This is NOT the paper's scale, and "
            "nothing is compared with the authors' values."
        )
    wanted |= trial_series(convex)
    series = {name: experiment_of(config) for name, config in wanted.items()}
    complete = run_missing(series, units, listener, force=force, jobs=jobs)
    done = load_all(series, units)
    regrets = measure(convex, done)
    results = collect(names, preset, seeds, scale, done, summarise(convex, regrets))
    results |= {"target": target, "interrupted": not complete, "folder": str(folder)}
    with refusing("out", "writable", out):
        folder.mkdir(parents=True, exist_ok=True)
        pictures = draw_panels(names, preset, scale, done, folder)
        if convex:
            pictures |= draw_regrets(bounded(regrets), convex[0].clients, folder)
        save_bytes(folder / "report.html", render_page(results, pictures).encode())
        save_bytes(folder / "tables.md", render_tables(results).encode())
        save_json(folder / "results.json", results)
    return results


def load_all(series: Mapping[str, Experiment], units: Path) -> dict[str, Comparison]:
    """What is finished of each series, where anything is."""
    found = {name: finished(one, Folder(units / name)) for name, one in series.items()}
    return {name: comparison for name, comparison in found.items() if comparison is not None}


def run_missing(
    series: Mapping[str, Experiment],
    units: Path,
    listener: Listener,
    *,
    force: bool = False,
    jobs: int | None = 1,
) -> bool:
    """Run what is not finished, with `force` everything; returns whether all came to its end.

    Seed after seed: whenever it is interrupted, the panels have as much to show as possible.
    """
    done = load_all(series, units)
    missing = {name: _missing(one, None if force else done.get(name)) for name, one in series.items()}
    seconds = [estimate_seconds(series[name].config, len(missing[name]), done.get(name)) for name in series]
    if sum(seconds):
        listener.note(f"about {in_words(sum(seconds))} of simulation ahead.")
    elif series:
        listener.note("all runs are finished already; --force runs them again.")
    for seed in sorted({seed for one in series.values() for seed in one.config.all_seeds}):
        for name, one in series.items():
            folder = Folder(units / name)
            keys = [key for key, wanted in missing[name] if wanted == seed]
            for key in keys:  # what lies there is damaged, of another run, or unwanted
                folder.archive(key, seed).unlink(missing_ok=True)
            if not keys:
                continue
            config, methods = replace(one.config, seed=seed, seeds=1), {key: one.methods[key] for key in keys}
            part = replace(one, config=config, methods=methods)
            if run(part, folder, listener, resume=not force, jobs=jobs).interrupted:
                return False
    return True


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


def _missing(series: Experiment, done: Comparison | None) -> list[tuple[str, int]]:
    """Names of recipes and seeds that are not done."""
    runs = {} if done is None else done.runs
    there = {(key, result.seed) for key, results in runs.items() for result in results}
    return [
        (key, seed) for seed in series.config.all_seeds for key in series.methods if (key, seed) not in there
    ]


def estimate_seconds(config: Config, runs: int, done: Comparison | None) -> float:
    """Seconds that `runs` more runs of `config` will take, to within a factor of two or so.

    Finished runs of the same data tell the speed of this machine; where there are none, speeds on record stand in.
    Methods cost about the same per step: those that compute fewer gradients quantise them.
    """
    clients, steps = config.clients or 0, config.steps or 0
    one = _START + steps * clients / 1000 * _ON_RECORD.get(str(config.dataset), _MLP)
    if done is not None:
        one = fmean(result.seconds for results in done.runs.values() for result in results)
    return runs * one


def in_words(seconds: float) -> str:
    """A duration for people.

    >>> in_words(42.0), in_words(600.0), in_words(7200.0)
    ('42 seconds', '10 minutes', '2.0 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
