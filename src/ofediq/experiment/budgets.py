"""The frontier: the same methods at several budgets, against the bits or bytes that they really sent.

Each budget is an ordinary run in a folder of its own; a budget that is done is not run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from ofediq.errors import InputError, require, require_fraction
from ofediq.experiment.config import Config
from ofediq.experiment.folder import Folder
from ofediq.experiment.listener import Listener
from ofediq.experiment.output import write_output
from ofediq.experiment.runner import run
from ofediq.experiment.setup import Experiment
from ofediq.methods.registry import entry, parse
from ofediq.report import draw_frontier
from ofediq.storage import save_json
from ofediq.streams import APART


def frontier(
    config: Config,
    budgets: Sequence[float],
    path: Path,
    listener: Listener,
    *,
    force: bool = False,
    jobs: int | None = 1,
) -> dict[str, Any]:
    """Run `config`'s methods at every budget, draw the frontier, and return it.

    Args:
        config: data, model, methods, seeds; its own budget is not used.
        budgets: shares of what `config.budget_of` says of FedOGD.
        path: the folder; each budget gets one below it.
        listener: told about progress.
        force: run again what is there.
        jobs: see `experiment.run`.

    Returns:
        `{"metric", "ceiling", "points": [{"method", "name", "budget", "share", "value", "values", ...}],
        "left_out": [{"method", "budget", "why"}], "interrupted", "figure", ...}`; `share` is real uplink bits over
        FedOGD's, `share_total` all bytes. Left out are methods that cannot come down to a budget.
    """
    require(len(budgets) > 0, "budgets", "must name at least one budget", budgets)
    for budget in budgets:
        require_fraction("budgets", budget)
    if all(_free(key) for key in config.methods):
        raise InputError(f"`methods` must name one that has a budget, got {', '.join(config.methods)}")
    summaries, left_out = {}, list[dict[str, Any]]()
    for name, one in _runs(config, budgets, left_out):
        summaries[name] = summary_of(one, Folder(path / name), listener, force, jobs)
        if summaries[name]["interrupted"]:
            break
    found = _collect(summaries)
    found |= {"config": config.to_dict(), "budgets": list(budgets), "left_out": left_out}
    found["folder"] = str(path)
    if found["points"]:
        _draw(config, found, path / "frontier.png")
        found["figure"] = str(path / "frontier.png")
    save_json(path / "frontier.json", found)
    return found


def _runs(
    config: Config, budgets: Sequence[float], left_out: list[dict[str, Any]]
) -> Iterator[tuple[str, Config]]:
    """The runs behind a frontier, by the name of their folder: first the ceiling, then budget after budget.

    Who cannot come down to a budget is written to `left_out`.
    """
    free = tuple(dict.fromkeys(("fedogd", *(key for key in config.methods if _free(key)))))
    reference = replace(config, methods=free, budget=1.0, epsilon=None)
    yield "reference", reference
    paid = tuple(key for key in config.methods if not _free(key))
    known = None if config.budget_of == "formula" else Experiment.set_up(reference)
    for budget in budgets:
        one = replace(config, methods=paid, budget=budget)
        refused = {} if known is None else known.unaffordable(one)
        left_out += [{"method": key, "budget": budget, "why": why} for key, why in refused.items()]
        affordable = tuple(key for key in paid if key not in refused)
        if affordable:
            yield f"budget-{budget:g}", replace(one, methods=affordable)


def _free(key: str) -> bool:
    """Does a budget leave this method as it is?"""
    return not entry(parse(key)[0]).budgeted


def summary_of(
    config: Config, folder: Folder, listener: Listener, force: bool, jobs: int | None
) -> dict[str, Any]:
    """The summary of one run: read if it is done, else made."""
    same = folder.holds_run and not force and not Config.read(folder.config).difference(config)
    if same and folder.finished:
        return folder.read_summary()
    folder.check(config, resume=same, force=force)
    experiment = Experiment.set_up(config)
    with folder.at_work(config, resume=same, force=force):
        outcome = run(experiment, folder, listener, resume=same, jobs=jobs)
        return write_output(config, folder, outcome, experiment.spec)


def _collect(summaries: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """One point per method and budget."""
    reference = summaries["reference"]
    metric = reference.get("metric")
    fedogd = reference["methods"].get("fedogd")
    points = []
    for name, summary in summaries.items():
        for key, one in summary["methods"].items():
            if key == "fedogd" or fedogd is None or one["interrupted"]:
                continue
            points.append(
                {
                    "method": key,
                    "name": one["name"],
                    "budget": None if name == "reference" else summary["config"]["budget"],
                    "share": one["bits_wire"] / fedogd["bits_wire"],
                    "share_total": one["bytes_total"] / fedogd["bytes_total"],
                    "share_formula": one["bits_formula"] / fedogd["bits_formula"],
                    "epsilon": one.get("epsilon"),
                    "value": one[metric],
                    "values": one["per_seed"][metric],
                    "skill": one["skill"],
                    "reference": one["reference"],
                    "seconds": one["seconds"],
                }
            )
    return {
        "metric": metric,
        "ceiling": None
        if fedogd is None
        else {"value": fedogd[metric], "values": fedogd["per_seed"][metric], "skill": fedogd["skill"]},
        "naive": reference.get("naive", {}),
        "points": points,
        "interrupted": any(summary["interrupted"] for summary in summaries.values()),
    }


def _draw(config: Config, found: Mapping[str, Any], path: Path) -> None:
    key, what = ("share_total", "all bytes") if config.budget_of == "total" else ("share", "real uplink bits")
    lines: dict[str, tuple[list[float], list[list[float]]]] = {}
    for point in found["points"]:
        if point[key] > 0 and None not in point["values"]:
            shares, columns = lines.setdefault(point["name"], ([], []))
            shares.append(point[key])
            columns.append(point["values"])
    if not lines:
        return
    drawn = {name: (shares, list(zip(*columns, strict=True))) for name, (shares, columns) in lines.items()}
    title = f"{config.name}: learning against {what}"
    skills = {point["name"]: point["skill"] for point in sorted(found["points"], key=itemgetter(key))}
    naive = {name: value for name, value in found["naive"].items() if name not in APART and value is not None}
    draw_frontier(
        drawn,
        found["ceiling"]["values"],
        found["metric"],
        path=path,
        title=title,
        counted=what,
        skills={**skills, "FedOGD": found["ceiling"]["skill"]},
        naive=naive,
    )
