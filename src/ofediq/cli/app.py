"""The `ofediq` command: its subcommands, and what every error looks like on a terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ofediq import __version__
from ofediq.cli.certs import certs
from ofediq.cli.client import client
from ofediq.cli.data import data
from ofediq.cli.frontier import frontier
from ofediq.cli.plan import plan
from ofediq.cli.reproduce import reproduce
from ofediq.cli.run import run
from ofediq.cli.serve import serve
from ofediq.cli.up import up
from ofediq.errors import OFedIQError

app = typer.Typer(
    help="Online federated learning that counts every bit: plan, simulate, federate.",
    epilog="Start with: ofediq plan --budget 0.01 --dim 34826",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

# The commands, one line each, in the order of the help page.
app.command()(plan)
app.command()(run)
app.command()(frontier)
app.command()(reproduce)
app.command()(data)
app.command()(up)
app.command()(serve)
app.command()(client)
app.add_typer(certs, name="certs")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ofediq {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line. Errors of ofediq become one sentence and exit code 2, an interruption exit code 130."""
    try:
        app(prog_name="ofediq")
    except OFedIQError as error:
        typer.echo(f"ofediq: error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
