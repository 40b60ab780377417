"""`ofediq frontier`: how well each method learns, against the bits that it really sends."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ofediq.cli.answers import JobsOption, JsonOption, answer_so_far, require_simulator
from ofediq.cli.options import Given, Variant, numbers, options
from ofediq.experiment.config import Config


@options(
    Config,
    dataset=Variant("digits"),
    methods=Variant(("ofedavg", "fedomd", "ofediq", "ofedgrid"), "Methods to compare with FedOGD."),
    clients=Variant(1000),
    steps=Variant(300),
    step_size=Variant(),
    preset=Variant("authors", "paper or authors, as in `ofediq run`."),
    epsilon=Variant(),
    delta=Variant(),
    model=Variant(),
    seeds=Variant(3),
    seed=Variant(),
    scaling=Variant(help="As in `ofediq run`."),
)
def frontier(
    given: Given,
    budgets: Annotated[
        str, typer.Option(help="Shares of FedOGD's uplink bits, with commas.")
    ] = "0.1,0.01,0.001,0.0001",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files.", show_default="runs/frontier-DATASET-PRESET")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what is there.")] = False,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw final accuracy or error against real uplink bits, with FedOGD as the ceiling.

    Every budget is a run in a folder of its own. What is done is not run
    again: after Ctrl-C, or with more budgets, call it again.

    Examples:
      ofediq frontier
      ofediq frontier --dataset mnist --steps 900 --budgets 0.01,0.001
      ofediq frontier --dataset pm25 --methods ofediq,ofedgrid --json
    """
    require_simulator()
    from ofediq.cli.progress import Reporter
    from ofediq.experiment import frontier as draw

    config = Config(**given, regret=False)
    folder = out or Path("runs") / f"frontier-{config.name}-{config.preset}"
    with Reporter() as reporter:
        found = draw(config, numbers("budgets", budgets), folder, reporter, force=force, jobs=jobs)
    answer_so_far(found, as_json, _show)


def _show(found: dict[str, Any]) -> None:
    from ofediq.cli import render
    from ofediq.report import skill_text, value_text

    if not found["points"]:
        return
    metric = found["metric"]
    private = any(point["epsilon"] for point in found["points"])
    ceiling = found["ceiling"]
    rows = [
        (
            "FedOGD",
            "",
            "100%",
            "100%",
            value_text(ceiling["value"], metric),
            skill_text(ceiling["skill"]),
            "none",
        )
    ]
    for point in found["points"]:
        budget = "" if point["budget"] is None else f"{100 * point['budget']:g}%"
        value = "diverged" if point["value"] is None else value_text(point["value"], metric)
        shares = (f"{100 * point[key]:.3g}%" for key in ("share", "share_total"))
        promised = "none" if point["epsilon"] is None else f"{point['epsilon']:.3g}"
        rows.append((point["name"], budget, *shares, value, skill_text(point["skill"]), promised))
    header = ("method", "budget", "real bits", "all bytes", metric, "skill", "epsilon")
    shown = slice(None) if private else slice(-1)
    render.show(render.table(header[shown], [row[shown] for row in rows]))
    typer.echo(f"Picture: {found['figure']}")
