"""`ofediq promote` and `ofediq rollback`: what the operator decides about versions of a running federation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ofediq.cli.answers import JsonOption
from ofediq.errors import InputError

_Config = Annotated[Path, typer.Option(help="The federation's TOML file.")]


def promote(config: _Config, as_json: JsonOption = False) -> None:
    """Give all clients the version that is tried on some, or that was withdrawn.

    The running server does so within a second; one that is not running, when
    it starts. Without the command a canary is judged by its predictions.

    Examples:
      ofediq promote --config federation.toml
    """
    _ask("promote", config, "The server gives all clients the file's version.", as_json)


def rollback(config: _Config, as_json: JsonOption = False) -> None:
    """Go back to the version before this one, with its model.

    Clients that have a canary come back to the others. What federation.toml
    says is not taken up again until the file changes, or by promote.

    Examples:
      ofediq rollback --config federation.toml
    """
    _ask("rollback", config, "The server goes back to the version before.", as_json)


def _ask(what: str, config: Path, sentence: str, as_json: bool) -> None:
    from ofediq.federation.config import FederationConfig
    from ofediq.federation.rollout import Versions

    versions = Versions(FederationConfig.read(config).folder)
    if versions.running()[0] is None:
        raise InputError(f"`config` must be that of a server that has run, got {str(config)!r}")
    versions.ask(what)
    typer.echo(json.dumps({"asked": what}) if as_json else sentence)
