"""`ofediq reproduce`: the paper's tables, figures and claims, with the authors' numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ofediq.cli.answers import JobsOption, JsonOption, answer_so_far, require_simulator
from ofediq.cli.serve import alone


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            help="table1, fig2, fig3, fig4a to fig4f, fig4c_all, fig4d_all, fig4f_all, claims or all."
        ),
    ] = "all",
    preset: Annotated[
        str,
        typer.Option(help="authors: what made the paper's figures (Adam); paper: what its text says (OGD)."),
    ] = "authors",
    quick: Annotated[
        bool, typer.Option("--quick", help="A minute instead of the paper's scale, one seed; no comparison.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds.", show_default="3; 1 with --quick")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, figures and report.")] = Path("runs/reproduce"),
    force: Annotated[bool, typer.Option("--force", help="Run again what is finished.")] = False,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the paper's experiments again and check its claims.

    Finished runs are kept and shared between figures: an interrupted
    reproduction continues where it was. Writes one PNG per figure,
    report.html (self-contained) and results.json.

    Examples:
      ofediq reproduce --quick
      ofediq reproduce fig4b
      ofediq reproduce claims --json
      ofediq reproduce all --preset paper
    """
    require_simulator()
    from ofediq.cli.progress import Reporter
    from ofediq.reproduction import Scale
    from ofediq.reproduction import reproduce as run

    with alone("out", out), Reporter() as reporter:
        results = run(
            target,
            preset=preset,
            seeds=(1 if quick else 3) if seeds is None else seeds,
            scale=Scale.quick() if quick else Scale(),
            out=out,
            force=force,
            listener=reporter,
            jobs=jobs,
        )
    answer_so_far(_chosen(target, results), as_json, lambda _: _show(target, results))


def _chosen(target: str, results: dict[str, Any]) -> dict[str, Any]:
    """What a target prints as JSON: claims and Table 1 alone, else everything."""
    common = {name: results[name] for name in ("preset", "paper_scale", "seeds", "interrupted")}
    if target in ("claims", "table1"):
        return {**common, target: results[target]}
    return results


def _show(target: str, results: dict[str, Any]) -> None:
    from ofediq.cli import render
    from ofediq.reproduction import page
    from ofediq.reproduction.table1 import COLUMNS, cells

    if target in ("table1", "all"):
        render.show(
            render.heading("Table 1: D = 34,826, K = 1000"),
            render.table(COLUMNS, cells(results["table1"])),
        )
    scale = "" if results["paper_scale"] else " (QUICK: not the paper's scale)"
    for name, panel in results["panels"].items():
        render.show(
            render.heading(f"{page.panel_title(name, panel)}, preset {results['preset']}{scale}"),
            render.table(page.VALUE_COLUMNS, page.panel_rows(panel)),
        )
    if target in ("claims", "all"):
        render.show(render.heading(f"Claims{scale}"))
        for claim in results["claims"]:
            render.show(f"{claim['statement']} {claim['sentence']}")
    typer.echo(f"Report: {Path(results['folder']) / 'report.html'}")
