"""`ofediq export`: what other programs read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ofediq.federation.protocol.task import Task


def export(
    device: Annotated[
        Path,
        typer.Option(
            help="federation.toml, or the server's announcement as JSON: write the C client's header for it."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("ofediq_config.h"),
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write the configuration of a client in C, for devices too small for Python.

    The client itself is device/ofediq.h and ofediq.c, see docs/device.md.

    Examples:
      ofediq export --device federation.toml
      ofediq export --device task.json --out firmware/ofediq_config.h
    """
    from ofediq.device import header
    from ofediq.storage import save_bytes

    task = _task(device)
    text = header(task)
    save_bytes(out, text.encode())
    if as_json:
        typer.echo(json.dumps({"file": str(out), "method": task.method.name, "dim": task.dim}, indent=2))
    else:
        typer.echo(f"{out}: {task.method.name} with {task.dim:,} parameters")


def _task(path: Path) -> Task:
    """The task that `path` describes."""
    from ofediq.errors import InputError
    from ofediq.federation.config import FederationConfig
    from ofediq.federation.protocol.task import Task
    from ofediq.federation.setup import assemble

    if path.suffix != ".json":
        return assemble(FederationConfig.read(path)).task
    try:
        return Task.decode(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"`device` must be a file that can be read, got {str(path)!r}: {error.strerror}"
        ) from None
