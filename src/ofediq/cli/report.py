"""`ofediq report`: one HTML page about a run or a live federation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ofediq.cli.answers import JsonOption
from ofediq.errors import DataError, OFedIQError, refusing
from ofediq.report.words import skill_text

if TYPE_CHECKING:
    from ofediq.report.page import SkillCurve

Tables = dict[str, list[list[str]]]
Page = tuple[str, list["SkillCurve"], Callable[[], tuple[Tables, str]]]
"""Title, curves, and what makes the tables and the note."""

_MOST_PREDICTIONS = 2 * 10**6  # of a method, for rows about its clients: a minute or two


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, or a server's state folder.")],
    out: Annotated[
        Path | None, typer.Option(help="The page to write.", show_default="report.html in the folder")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Write skill over time alone, an .svg file, and no page.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page: skill over time, drift, clients, bytes.

    The page needs no network and no script. A run brings its methods side
    by side, with their best, median and worst client; a server's folder its
    clients, best to worst.

    Examples:
      ofediq report runs/plant-auto
      ofediq report state --out weekly.html
      ofediq report runs/plant-auto --picture skill.svg
    """
    from ofediq.federation.network.server import STATE_FILE
    from ofediq.report.page import skill_page, skill_picture
    from ofediq.storage import save_bytes

    if (folder / STATE_FILE).is_file():
        title, curves, make = _of_server(folder / STATE_FILE)
    elif (folder / "summary.json").is_file():
        title, curves, make = _of_run(folder)
    else:
        raise DataError(
            f"`folder` must hold a run (summary.json) or a server's {STATE_FILE}, got {str(folder)!r}"
        )
    path = picture or out or folder / "report.html"
    text = skill_page(title, curves, *make()) if picture is None else skill_picture(curves, ink="#777")
    with refusing("out", "a file that can be written", path):
        save_bytes(path, text.encode())
    typer.echo(json.dumps({"file": str(path)}) if as_json else f"Report: {path}")


def _of_server(path: Path) -> Page:
    from ofediq.federation.protocol.state import ServerState
    from ofediq.report.page import SkillCurve

    saved = ServerState.read(path)
    assert saved is not None
    record = saved.record
    drift = record.get("drift", ())
    steps, skills, error, naive = [], [], 0.0, 0.0
    for point in record["points"]:
        error, naive = error + point["error"], naive + point["naive"]
        steps.append(point["step"])
        skills.append(1 - error / naive if naive > 0 else 0.0)
    rows = [row for row in record["clients"] if row["naive"] > 0]
    rows.sort(key=lambda row: row["error"] / row["naive"])
    totals, name = record["totals"], str(saved.identity["federation"])
    tables = {
        "Clients, best to worst": [
            ["client", "skill", "mean error", "last value's", "predictions", "updates sent"],
            *([_named(row, place, len(rows)), *_judged(row)] for place, row in enumerate(rows)),
        ],
        "Bytes": [
            ["", "kB"],
            ["updates, as encoded", f"{totals['bits_wire'] / 8e3:,.1f}"],
            ["FedOGD would have sent", f"{totals['bits_fedogd'] / 8e3:,.1f}"],
            ["broadcasts, each once", f"{totals['bits_downlink'] / 8e3:,.1f}"],
        ],
    }
    note = f"{totals['rounds']:,} rounds, {totals['samples']:,} predictions, step {saved.step:,}"
    return name, [SkillCurve(name, steps, skills, drift)], lambda: (tables, note)


def _named(row: dict[str, Any], place: int, count: int) -> str:
    mark = {0: " (best)", count // 2: " (median)", count - 1: " (worst)"}.get(place, "") if count > 2 else ""
    return f"{row['name']}{mark}"


def _judged(row: dict[str, Any]) -> list[str]:
    samples = max(row["samples"], 1)
    means = [f"{row[name] / samples:.4g}" for name in ("error", "naive")]
    return [skill_text(1 - row["error"] / row["naive"]), *means, f"{row['samples']:,}", f"{row['sent']:,}"]


def _of_run(folder: Path) -> Page:
    from ofediq.errors import extra
    from ofediq.experiment import Folder
    from ofediq.report.page import SkillCurve

    summary = Folder(folder).read_summary()
    frame = extra("pyarrow.parquet", "sim").read_table(folder / "metrics.parquet").to_pandas()
    metric, curves = summary["metric"], []
    for key, one in summary["methods"].items():
        own = frame[(frame["method"] == key) & (frame["seed"] == frame["seed"].min())]
        if one["reference"] is None or "naive" not in own:
            continue
        error, naive = own[metric].to_numpy(), own["naive"].to_numpy()
        if metric == "accuracy":
            error, naive = 1 - error, 1 - naive
        skills = [1 - mine / theirs if theirs > 0 else 0.0 for mine, theirs in zip(error, naive, strict=True)]
        curves.append(SkillCurve(one["name"], own["step"].tolist(), skills, one["drift"] or ()))
    rows = [
        [
            one["name"],
            skill_text(one["skill"]),
            one["reference"] or "",
            f"{one[metric]:.5g}",
            f"{one['bits_wire'] / 8e3:,.1f}",
            ", ".join(map(str, one["drift"] or ())) or "none",
        ]
        for one in summary["methods"].values()
    ]
    head, stream = ["method", "skill", "against", metric, "uplink kB", "drift at step"], summary["stream"]
    note = f"{stream['clients']:,} clients, {stream['steps']:,} steps, {stream['predictions']:,} predictions"

    def tables() -> tuple[Tables, str]:
        clients = _client_rows(summary)
        about = {"Clients: best, median and worst": clients} if clients else {}
        return {"Methods": [head, *rows], **about}, note

    return str(stream["dataset"]), curves, tables


def _client_rows(summary: dict[str, Any]) -> list[list[str]]:
    """Three clients of every federated method: its steps are taken again, one client beside the other."""
    from ofediq.cli.progress import Reporter
    from ofediq.experiment import Config, Experiment
    from ofediq.experiment.per_client import per_client

    stream, methods = summary["stream"], summary["methods"]
    if stream["clients"] < 3 or stream["clients"] * stream["steps"] > _MOST_PREDICTIONS:
        return []
    try:
        experiment = Experiment.set_up(Config.from_dict(summary["config"]))
    except OFedIQError as error:
        typer.echo(f"Note: no rows about clients, {error}.", err=True)
        return []
    rows = [["method", "client", "skill", "mean error", "last value's", "predictions", "uplink kB"]]
    seed = experiment.config.seed
    for key, one in experiment.methods.items():
        if one.topology != "federated" or methods[key]["interrupted"]:
            continue
        with Reporter() as reporter:
            reporter.started(f"{one.name}, client by client", stream["steps"])
            dealt = experiment.deal(seed)
            found = per_client(
                one, experiment.model, dealt, seed, experiment.initial, progress=reporter.advanced
            )
        for word, row in (("best", found[0]), ("median", found[len(found) // 2]), ("worst", found[-1])):
            cells = [f"{row.error:.4g}", f"{row.naive:.4g}", f"{row.samples:,}", f"{row.bits / 8e3:,.1f}"]
            rows.append([one.name, f"{row.name} ({word})", skill_text(row.skill), *cells])
    return rows if len(rows) > 1 else []
