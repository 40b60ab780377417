"""Many experiments that differ in a few choices: every combination is an ordinary run in a folder of its own.

All their methods and seeds are handed out together, to the cores of this machine or to a Dask cluster; a point that
is done is not run again.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ofediq.errors import InputError, require
from ofediq.experiment.budgets import summary_of
from ofediq.experiment.config import Config
from ofediq.experiment.folder import Folder
from ofediq.experiment.listener import Listener
from ofediq.experiment.parallel import (
    Errand,
    compute,
    dask_executor,
    diverges,
    processes_for,
    run_errands,
    run_on,
)
from ofediq.experiment.runner import errands
from ofediq.experiment.setup import Experiment
from ofediq.report import draw_sweep
from ofediq.storage import save_json

_MOST_POINTS = 10_000


@dataclass(frozen=True, eq=False)
class Point:
    """One combination."""

    choices: Mapping[str, Any]
    config: Config
    folder: Folder


def sweep(
    config: Config,
    over: Mapping[str, Sequence[Any]],
    path: Path,
    listener: Listener,
    *,
    jobs: int | None = 1,
    dask: str | None = None,
) -> dict[str, Any]:
    """Run `config` at every combination of the values in `over`, draw one picture, and return one table.

    Args:
        config: everything that stays the same.
        over: choices of `Config` by name, each with its values.
        path: the folder; each point gets one below it.
        listener: told about progress.
        jobs: processes, see `experiment.run`.
        dask: address of a Dask scheduler whose workers run everything instead; they need the data, not the folder.

    Returns:
        `{"metric", "points": [{"choices", "method", "name", "value", "values", "bits_wire", ...}], "interrupted",
        "figure", ...}`, one point for each combination and method.
    """
    points = _points(config, over, path)
    summaries: list[tuple[Point, dict[str, Any]]] = []
    interrupted = not _compute(points, listener, jobs, dask)
    for point in [] if interrupted else points:
        summaries.append((point, summary_of(point.config, point.folder, listener, False, 1)))
        if summaries[-1][1]["interrupted"]:
            interrupted = True
            break
    found = _collect(summaries)
    found |= {"over": {name: list(values) for name, values in over.items()}, "interrupted": interrupted}
    found |= {"config": config.to_dict(), "folder": str(path)}
    if found["points"]:
        found["figure"] = str(path / "sweep.png")
        title = f"{config.name}: {found['metric']} over {', '.join(over)}"
        draw_sweep(found["points"], tuple(over), found["metric"], path=path / "sweep.png", title=title)
    save_json(path / "sweep.json", found)
    return found


def _points(config: Config, over: Mapping[str, Sequence[Any]], path: Path) -> list[Point]:
    """Every combination, checked before anything runs."""
    require(len(over) > 0, "over", "must name at least one choice", dict(over))
    plain = config.to_dict()
    for name, values in over.items():
        if name not in plain or name in ("methods", "seeds", "seed"):
            raise InputError(f"`over` must name a choice such as budget or step_size, got {name!r}")
        require(len(values) > 0, "over", f"must give {name} at least one value", list(values))
    combinations = [dict(zip(over, some, strict=True)) for some in itertools.product(*over.values())]
    require(
        len(combinations) <= _MOST_POINTS, "over", f"must be at most {_MOST_POINTS} points", len(combinations)
    )
    points = []
    for choices in combinations:
        name = ",".join(f"{key}={value}" for key, value in choices.items()).replace("/", "_")
        points.append(Point(choices, Config.from_dict({**plain, **choices}), Folder(path / name)))
    return points


def _compute(points: Sequence[Point], listener: Listener, jobs: int | None, dask: str | None) -> bool:
    """What is missing of all points, together; returns whether it came to its end."""
    with ExitStack() as stack:
        wanted: list[Errand] = []
        work = 0.0
        for point in points:
            same = point.folder.holds_run and not Config.read(point.folder.config).difference(point.config)
            if same and point.folder.finished:
                continue
            point.folder.check(point.config, resume=same)
            experiment = Experiment.set_up(point.config)
            stack.enter_context(point.folder.at_work(point.config, resume=same))
            stream = experiment.deal(point.config.seed)
            missing = errands(experiment, point.folder, stream.steps, resume=True, shared=dask is None)
            work += float(len(missing)) * stream.clients * stream.steps * experiment.model.dim
            wanted += missing
        try:
            if dask is not None and wanted:
                run_on(stack.enter_context(dask_executor(dask)), wanted, listener)
            elif wanted and (processes := processes_for(work, len(wanted), jobs)) > 1:
                run_errands(wanted, listener, compute, processes=processes, alarm=diverges)
        except KeyboardInterrupt:
            return False
    return True


def _collect(summaries: Sequence[tuple[Point, dict[str, Any]]]) -> dict[str, Any]:
    """One entry per combination and method."""
    points, metric = [], None
    for point, summary in summaries:
        metric = summary.get("metric", metric)
        for key, one in summary["methods"].items():
            if not one["interrupted"]:
                points.append(
                    {
                        "choices": dict(point.choices),
                        "method": key,
                        "name": one["name"],
                        "value": one[metric],
                        "values": one["per_seed"][metric],
                        "bits_wire": one["bits_wire"],
                        "seconds": one["seconds"],
                        "folder": str(point.folder.path),
                    }
                )
    return {"metric": metric, "points": points}
