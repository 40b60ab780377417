"""`ofediq admit`: let a quarantined client back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ofediq.cli.answers import JsonOption


def admit(
    name: Annotated[str, typer.Argument(help="The client's name.")],
    config: Annotated[Path, typer.Option(help="The federation's TOML file.")],
    as_json: JsonOption = False,
) -> None:
    """Let a client out of quarantine.

    The running server takes it up within a second; one that is not running, when it starts.

    Examples:
      ofediq admit pi-03 --config federation.toml
    """
    from ofediq.federation.config import FederationConfig
    from ofediq.federation.names import require_name
    from ofediq.federation.network.server import ADMIT_FILE

    folder = FederationConfig.read(config).folder
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ADMIT_FILE).open("a", encoding="utf-8") as file:
        file.write(require_name("name", name) + "\n")
    typer.echo(json.dumps({"admitted": name}) if as_json else f"The server lets {name} back.")
