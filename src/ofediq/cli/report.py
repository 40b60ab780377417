"""`ofediq report`: one HTML page about a run or a live federation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ofediq.errors import DataError


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, or a server's state folder.")],
    out: Annotated[
        Path | None, typer.Option(help="The page to write.", show_default="report.html in the folder")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write one HTML page: skill over time, drift, clients, bytes.

    The page needs no network and no script. A run brings its methods side
    by side; a server's folder its clients, best to worst.

    Examples:
      ofediq report runs/plant-auto
      ofediq report state --out weekly.html
    """
    from ofediq.federation.network.server import STATE_FILE
    from ofediq.storage import save_bytes

    if (folder / STATE_FILE).is_file():
        text = _of_server(folder / STATE_FILE)
    elif (folder / "summary.json").is_file():
        text = _of_run(folder)
    else:
        raise DataError(
            f"`folder` must hold a run (summary.json) or a server's {STATE_FILE}, got {str(folder)!r}"
        )
    path = folder / "report.html" if out is None else out
    save_bytes(path, text.encode())
    typer.echo(json.dumps({"file": str(path)}) if as_json else f"Report: {path}")


def _of_server(path: Path) -> str:
    from ofediq.federation.protocol.state import ServerState
    from ofediq.report.page import SkillCurve, skill_page

    saved = ServerState.read(path)
    assert saved is not None
    record = saved.record
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
    return skill_page(name, [SkillCurve(name, steps, skills)], tables, note)


def _named(row: dict[str, Any], place: int, count: int) -> str:
    mark = {0: " (best)", count // 2: " (median)", count - 1: " (worst)"}.get(place, "") if count > 2 else ""
    return f"{row['name']}{mark}"


def _judged(row: dict[str, Any]) -> list[str]:
    samples = max(row["samples"], 1)
    means = [f"{row[name] / samples:.4g}" for name in ("error", "naive")]
    return [f"{1 - row['error'] / row['naive']:+.1%}", *means, f"{row['samples']:,}", f"{row['sent']:,}"]


def _of_run(folder: Path) -> str:
    from ofediq.errors import extra
    from ofediq.experiment import Folder
    from ofediq.report.page import SkillCurve, skill_page

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
            "" if one["skill"] is None else f"{one['skill']:+.1%}",
            one["reference"] or "",
            f"{one[metric]:.5g}",
            f"{one['bits_wire'] / 8e3:,.1f}",
            ", ".join(map(str, one["drift"] or ())) or "none",
        ]
        for one in summary["methods"].values()
    ]
    tables = {"Methods": [["method", "skill", "against", metric, "uplink kB", "drift at step"], *rows]}
    stream = summary["stream"]
    note = f"{stream['clients']:,} clients, {stream['steps']:,} steps, {stream['predictions']:,} predictions"
    return skill_page(str(stream["dataset"]), curves, tables, note)
