"""`ofediq zoo`: every method on one dataset, at equal real bits, each with its own step size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ofediq.cli.answers import JobsOption, JsonOption, answer_so_far, require_simulator
from ofediq.cli.options import Given, Variant, numbers, options, split
from ofediq.experiment.config import Config


@options(
    Config,
    "dataset data target client_column time_column options scaling clients steps alpha labels "
    "methods budget model hidden seeds seed",
    dataset=Variant(shown="digits"),
    clients=Variant(shown="50, or those of the file"),
    steps=Variant(shown="400, or those of the file"),
    methods=Variant(shown="all that have a name"),
    budget=Variant(0.05),
    seeds=Variant(3),
)
def zoo(
    given: Given,
    partitions: Annotated[
        str | None,
        typer.Option(
            help="Streams, with commas; label is strongly non-IID.",
            show_default="random,label; a file's own clients",
        ),
    ] = None,
    step_sizes: Annotated[
        str, typer.Option(help="The grid that every method is tuned on.")
    ] = "0.004,0.016,0.064,0.25,1",
    prefix: Annotated[float, typer.Option(help="Share of the first stream that tuning looks at.")] = 0.25,
    further: Annotated[
        int, typer.Option(help="Step sizes beyond the grid to try while the best one is at its edge.")
    ] = 4,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files.", show_default="runs/zoo-DATASET")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what is there.")] = False,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables as Markdown.")] = False,
) -> None:
    """One table over every named method, tuned with the same effort, at equal real bits.

    Every method gets the step size that does best on the first part of the
    first seed's stream, and then runs over all of it with every seed. Every
    run that is done is kept: after Ctrl-C, or with more methods, seeds or
    streams, call it again.

    Examples:
      ofediq zoo
      ofediq zoo --dataset pm25 --model mlp --budget 0.02
      ofediq zoo --methods "fedogd,ofediq,fedpoe(ofedgrid)" --partitions random --json
    """
    require_simulator()
    from ofediq.cli.progress import Reporter
    from ofediq.cli.serve import alone
    from ofediq.experiment.tuning import Effort
    from ofediq.experiment.zoo_runs import every_method
    from ofediq.experiment.zoo_runs import zoo as run

    own = given.get("client_column") is not None
    if not own:
        given = {"clients": 50, "steps": 400, **given}
    config = Config(**{"methods": every_method(), **given}, preset="paper", regret=False)
    kinds = ("column" if own else "random,label") if partitions is None else partitions
    folder = out or Path("runs") / f"zoo-{config.name}"
    effort = Effort(tuple(numbers("step_sizes", step_sizes)), prefix, further)
    with alone("out", folder), Reporter() as reporter:
        found = run(config, split(kinds), folder, reporter, effort=effort, force=force, jobs=jobs)
    answer_so_far(found, as_json, _show_markdown if markdown else _show)


def _show_markdown(found: dict[str, Any]) -> None:
    from ofediq.report.zoo_table import zoo_markdown

    typer.echo("\n\n".join(map(zoo_markdown, found["parts"].values())))


def _show(found: dict[str, Any]) -> None:
    from ofediq.cli import render
    from ofediq.report.zoo_table import COLUMNS, remarks, zoo_rows

    for partition, part in found["parts"].items():
        render.show(
            render.heading(
                f"{part['dataset']}, {partition} stream: D = {part['dim']:,}, K = {part['clients']:,}, "
                f"T = {part['steps']:,}"
            ),
            render.table((COLUMNS[0], part["metric"], *COLUMNS[2:]), zoo_rows(part)),
            *remarks(part),
        )
    tuning = found["tuning"]
    sizes = ", ".join(f"{one:g}" for one in tuning["step_sizes"])
    typer.echo(
        f"Tuned on the first {100 * tuning['prefix']:g} % of the first stream: step sizes {sizes}, the same for "
        f"all, and up to {tuning['further']} further ones while the best is at the edge; the budget up to "
        f"{tuning['fits']} times, where real bits differ from the formula's."
    )
    if "figure" in found:
        typer.echo(f"Picture: {found['figure']}")
