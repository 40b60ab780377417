"""`ofediq frontier`: how well each method learns, against the bits or bytes that it really sends."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ofediq.cli.answers import JobsOption, JsonOption, answer_so_far, require_simulator
from ofediq.cli.options import Given, Variant, numbers, options
from ofediq.experiment.config import Config

_METHODS = {
    "total": ("fedomd", "ofedduplex"),  # which broadcast less than the whole model at every step
    "uplink": ("ofedavg", "fedomd", "ofediq", "ofedgrid"),
}


@options(
    Config,
    "dataset methods budget_of clients steps step_size preset epsilon delta model seeds seed scaling",
    dataset=Variant("digits"),
    methods=Variant(
        help="Methods to compare with FedOGD.",
        shown="ofedavg,fedomd,ofediq,ofedgrid; of all bytes fedomd,ofedduplex",
    ),
    budget_of=Variant(help="What budgets are shares of: formula, uplink or total, as in `ofediq run`."),
    clients=Variant(1000),
    steps=Variant(300),
    preset=Variant("authors", "paper or authors, as in `ofediq run`."),
    seeds=Variant(3),
    scaling=Variant(help="As in `ofediq run`."),
)
def frontier(
    given: Given,
    budgets: Annotated[
        str, typer.Option(help="Shares of FedOGD's uplink bits, or of what --budget-of says, with commas.")
    ] = "0.1,0.01,0.001,0.0001",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the files.", show_default="runs/frontier-DATASET-PRESET, or ...-total"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what is there.")] = False,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw final accuracy or error against real uplink bits or all bytes, with FedOGD as the ceiling.

    Every budget is a run in a folder of its own. What is done is not run
    again: after Ctrl-C, or with more budgets, call it again. A method that
    cannot come down to a budget is left out there, and named.

    Examples:
      ofediq frontier
      ofediq frontier --dataset mnist --steps 900 --budgets 0.01,0.001
      ofediq frontier --dataset pm25 --methods ofediq,ofedgrid --json
      ofediq frontier --budget-of total --budgets 0.1,0.01
    """
    require_simulator()
    from ofediq.cli.progress import Reporter
    from ofediq.experiment import frontier as draw

    counted = given.get("budget_of", "formula")
    given.setdefault("methods", _METHODS["total" if counted == "total" else "uplink"])
    config = Config(**given, regret=False)
    kind = "" if counted == "formula" else f"-{counted}"
    folder = out or Path("runs") / f"frontier-{config.name}-{config.preset}{kind}"
    with Reporter() as reporter:
        found = draw(config, numbers("budgets", budgets), folder, reporter, force=force, jobs=jobs)
    answer_so_far(found, as_json, _show)


def _show(found: dict[str, Any]) -> None:
    from ofediq.cli import render
    from ofediq.report import skill_text, value_text

    for one in found["left_out"]:
        typer.echo(f"Left out: {one['method']} at {100 * one['budget']:g}%: {one['why']}.", err=True)
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
