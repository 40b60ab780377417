"""What commands share at their beginning and their end: common options, what must be installed, how they answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ofediq.errors import extra

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
JobsOption = Annotated[
    int | None,
    typer.Option(help="Processes for methods and seeds.", show_default="one per core, if worth it"),
]


def require_simulator() -> None:
    """Say what is missing before the work starts, not after it."""
    extra("jax", "sim")
    extra("pyarrow", "sim")
    extra("matplotlib", "report")


def answer(found: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None]) -> None:
    """Print what a command `found`, as JSON or as `show` does it."""
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show(found)


def answer_so_far(found: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None]) -> None:
    """The same of a command that may have been interrupted: then it says so, and ends with 130."""
    answer(found, as_json, show)
    if found["interrupted"]:
        typer.echo("Interrupted; the same command continues.", err=True)
        raise typer.Exit(130)
