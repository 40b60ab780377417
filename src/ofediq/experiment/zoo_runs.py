"""The zoo: every named method on one dataset, at equal real bits, each with a step size of its own.

How one method is tuned and run is in `tuning`. What is done is kept, run by run.
"""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ofediq.errors import InputError, require
from ofediq.experiment.config import Config
from ofediq.experiment.listener import Listener, Silent
from ofediq.experiment.parallel import processes_for, run_errands, shown_on
from ofediq.experiment.tuning import Effort, MissingError, Tuning
from ofediq.machine import cores
from ofediq.methods.registry import entries
from ofediq.report.figures.dots import draw_dots
from ofediq.simulation.interrupt import deferred_interrupt
from ofediq.storage import save_json

_ENOUGH = 4  # rows that are missing, from which on several processes are sooner done than one
_ELSEWHERE = ("methods", "seeds", "partition")  # choices that may change from call to call in one folder


def every_method() -> tuple[str, ...]:
    """The names of all methods, and Fed-POE without a scale; what wraps another is around OFedIQ."""
    return (*entries(), "fedpoe(ofediq, mixing=adaptive)")


def zoo(
    config: Config,
    partitions: Sequence[str],
    path: Path,
    listener: Listener,
    *,
    effort: Effort | None = None,
    force: bool = False,
    jobs: int | None = 1,
) -> dict[str, Any]:
    """Run every method of `config` on every partition; one row for each, in `path`/zoo.json and a picture.

    Args:
        config: data, model, methods, budget and seeds; the step size and partition of its own are not used.
        partitions: how samples are dealt; those of a file with clients of its own are `column`.
        path: the folder; runs that are there are not run again.
        listener: told about progress.
        effort: how methods are tuned.
        force: run again what is there.
        jobs: processes, each with one method at a time; None for one per core where several methods are missing.
    """
    effort = effort or Effort()
    require(len(partitions) > 0, "partitions", "must name at least one", partitions)
    require(len(set(partitions)) == len(partitions), "partitions", "must differ", ",".join(partitions))
    question = {name: value for name, value in config.to_dict().items() if name not in _ELSEWHERE}
    if not force:
        _check(path / "question.json", question)
    found: dict[str, Any] = {
        "config": {**config.to_dict(), "methods": []},
        "partitions": list(partitions),
        "tuning": {**asdict(effort), "step_sizes": list(effort.step_sizes)},
        "parts": {},
        "interrupted": False,
    }
    folder = path / "units"
    dealt = {kind: replace(config, partition=kind, methods=("fedogd",)) for kind in partitions}
    errands = [
        RowErrand(dealt[kind], effort, folder / kind, text) for kind in partitions for text in config.methods
    ]
    tunings = {kind: Tuning(one, effort, folder / kind, listener) for kind, one in dealt.items()}
    if force:
        shutil.rmtree(folder, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    save_json(path / "question.json", question)
    try:
        _run(errands, tunings, listener, jobs)
    except KeyboardInterrupt:
        found["interrupted"] = True
    for kind, tuning in tunings.items():
        rows = {errand.text: _row(errand, tunings) for errand in errands if errand.config.partition == kind}
        found["parts"][kind] = tuning.describe() | {
            "rows": {text: row for text, row in rows.items() if row is not None}
        }
    save_json(path / "zoo.json", found)
    if any(row["value"] is not None for part in found["parts"].values() for row in part["rows"].values()):
        found["figure"] = str(path / "zoo.png")
        _draw(found, path / "zoo.png")
    return found


def _check(asked: Path, question: Mapping[str, Any]) -> None:
    """Nothing was asked in this folder yet, or the same question."""
    if not asked.is_file():
        return
    try:
        kept = json.loads(asked.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"`out` must hold a zoo that can be read, got {str(asked)!r}: {error}") from None
    for name, value in question.items():
        if kept.get(name) != value:
            raise InputError(
                f"`out` must be of the same question, got {name} {value!r} where it has {kept.get(name)!r} "
                "(--force runs anew)"
            )


@dataclass(frozen=True)
class RowErrand:
    """One method on one partition, for whatever process."""

    config: Config
    effort: Effort
    archive: Path
    text: str

    @property
    def steps(self) -> int:
        """Units, if the grid is enough and the budget fits at once."""
        return len(self.effort.step_sizes) + self.config.seeds


def leave_row(errand: RowErrand, board: str | None, place: int) -> None:
    """In a process of its own: leave all units of an errand in its folder, or those until everybody stops."""
    show = shown_on(board, place)
    with suppress(KeyboardInterrupt):
        show(0)
        tuning = _last_tuning(pickle.dumps((errand.config, errand.effort, errand.archive)))
        tuning.row(errand.text, check=lambda done: show(min(done, errand.steps)))
        show(errand.steps)


@lru_cache(maxsize=1)
def _last_tuning(where: bytes) -> Tuning:
    """The tuning of the last errand: often that of the next one."""
    config, effort, folder = pickle.loads(where)
    return Tuning(config, effort, folder, Silent())


def _run(
    errands: Sequence[RowErrand], tunings: Mapping[str, Tuning], listener: Listener, jobs: int | None
) -> None:
    """Run what is missing, here or in several processes."""
    missing = [errand for errand in errands if _row(errand, tunings) is None]
    wanted = cores() if jobs is None and len(missing) >= _ENOUGH else jobs or 1
    processes = processes_for(0.0, len(missing), wanted)
    if processes > 1:
        run_errands(missing, listener, leave_row, processes=processes)
        return
    with deferred_interrupt(listener.stopping) as check:
        for errand in missing:
            tunings[str(errand.config.partition)].row(errand.text, check=lambda done: check())


def _row(errand: RowErrand, tunings: Mapping[str, Tuning]) -> dict[str, Any] | None:
    """The row of an errand, if all of its units are there."""
    try:
        return tunings[str(errand.config.partition)].row(errand.text, run=False)
    except MissingError:
        return None


def _draw(found: Mapping[str, Any], path: Path) -> None:
    parts, budget = {}, float(found["config"]["budget"])
    for partition, part in found["parts"].items():
        rows = [row for row in part["rows"].values() if row["value"] is not None]
        better = -1 if part["metric"] == "accuracy" else 1
        rows.sort(key=lambda row: better * row["value"])
        if rows:
            parts[partition] = (
                {_label(row, budget): (row["value"], row["std"] or 0.0, _kind(row)) for row in rows},
                {name: value for name, value in part["naive"].items() if name != "constant"},
            )
    first = next(iter(found["parts"].values()))
    title = (
        f"{first['dataset']}: every method at {100 * budget:g} % of FedOGD's uplink bits, "
        f"K = {first['clients']:,}, T = {first['steps']:,}"
    )
    draw_dots(parts, first["metric"], path, title)


def _label(row: Mapping[str, Any], budget: float) -> str:
    """The name, and the real bits of a method that spends others than it may."""
    star = " *" if row["model"] == "random_features" else ""
    fits = not row["federated"] or row["share"] > 0.9 or 0.75 <= row["share"] / budget <= 1.25
    return f"{row['name']}{star}" + ("" if fits else f" ({100 * row['share']:.2g} %)")


def _kind(row: Mapping[str, Any]) -> str:
    if not row["federated"]:
        return "reference"
    if row["share"] > 0.9:
        return "all bits"
    return "personal" if row["personal"] else "common"
