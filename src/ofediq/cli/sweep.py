"""`ofediq sweep`: many runs that differ in a few choices, on all cores or on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ofediq.cli.answers import JobsOption, JsonOption, answer_so_far, require_simulator
from ofediq.cli.options import Given, option_values, options
from ofediq.errors import extra
from ofediq.experiment.config import Config


@options(Config)
def sweep(
    given: Given,
    over: Annotated[
        list[str], typer.Option(help="A choice and its values, such as budget=.1,.01; repeatable.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files.", show_default="runs/sweep-DATASET-PRESET")
    ] = None,
    jobs: JobsOption = None,
    dask: Annotated[
        str | None, typer.Option(help="Run on the workers of the Dask scheduler at this address.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run every combination of some choices: one table, one picture.

    Every combination is a run in a folder of its own. What is done is not
    run again: after Ctrl-C, or with more values, call it again.

    Examples:
      ofediq sweep --over budget=.1,.01,.001 --over step_size=.1,.01 --seeds 5
      ofediq sweep --dataset room --methods ofediq --over hidden=16;64,64 --json
      ofediq sweep --over budget=.1,.01 --seeds 20 --dask tcp://10.0.0.1:8786
    """
    require_simulator()
    if dask is not None:
        extra("distributed", "dask")
    from ofediq.cli.progress import Reporter
    from ofediq.experiment import sweep as run

    config = Config(**{"regret": False, **given})
    folder = out or Path("runs") / f"sweep-{config.name}-{config.preset}"
    values = dict(option_values(Config, text, "over") for text in over)
    with Reporter() as reporter:
        found = run(config, values, folder, reporter, jobs=jobs, dask=dask)
    answer_so_far(found, as_json, _show)


def _show(found: dict[str, Any]) -> None:
    from ofediq.cli import render
    from ofediq.report import bits_text, value_text

    if not found["points"]:
        return
    names, metric = tuple(found["over"]), found["metric"]
    rows = [
        (
            *(str(point["choices"][name]) for name in names),
            point["name"],
            "diverged" if point["value"] is None else value_text(point["value"], metric),
            bits_text(point["bits_wire"]),
        )
        for point in found["points"]
    ]
    render.show(render.table((*names, "method", metric, "bits sent"), rows))
    typer.echo(f"Picture: {found['figure']}")
