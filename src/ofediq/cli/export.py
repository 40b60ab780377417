"""`ofediq export`: what other programs read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ofediq.cli.answers import JsonOption, answer
from ofediq.errors import InputError, refusing

if TYPE_CHECKING:
    from ofediq.federation.model_file import LearntModel
    from ofediq.federation.protocol.task import Task


def export(
    model: Annotated[
        Path | None, typer.Argument(help="A model.safetensors, or the folder of a run or a server with one.")
    ] = None,
    device: Annotated[
        Path | None,
        typer.Option(
            help="federation.toml, or the server's announcement as JSON: write the C client's header for it."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write: .onnx or .npz.", show_default="model.onnx, or ofediq_config.h"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a model for other runtimes, or the header of a client in C.

    ONNX needs the extra onnx; npz holds params, model and card. The C
    client itself is device/ofediq.h and ofediq.c, see docs/device.md.

    Examples:
      ofediq export runs/plant-auto --out plant.onnx
      ofediq export state/model.safetensors --out model.npz
      ofediq export --device federation.toml
      ofediq export --device task.json --out firmware/ofediq_config.h
    """
    if (model is None) == (device is None):
        raise InputError("`model` or `device` must be given, and not both")
    facts = _model(model, out) if model is not None else _header(Path(str(device)), out)
    answer(facts, as_json, lambda _: typer.echo("{file}: {method} with {dim:,} parameters".format(**facts)))


def _header(device: Path, out: Path | None) -> dict[str, Any]:
    from ofediq.device import header

    path = Path("ofediq_config.h") if out is None else out
    task = _task(device)
    _write(path, header(task).encode())
    return {"file": str(path), "method": task.method.name, "dim": task.dim}


def _model(source: Path, out: Path | None) -> dict[str, Any]:
    from ofediq.federation.model_file import load_model

    learnt = load_model(source)
    path = Path("model.onnx") if out is None else out
    if path.suffix not in (".onnx", ".npz"):
        raise InputError(f"`out` must end in .onnx or .npz, got {str(path)!r}")
    _write(path, _onnx(learnt) if path.suffix == ".onnx" else _npz(learnt))
    return {"file": str(path), "method": learnt.card.get("method", "model"), "dim": int(learnt.params.size)}


def _write(path: Path, data: bytes) -> None:
    """The file and the folders that it lies in."""
    from ofediq.storage import save_bytes

    with refusing("out", "a file that can be written", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_bytes(path, data)


def _onnx(learnt: LearntModel) -> bytes:
    from ofediq.models.onnx_graph import to_onnx

    if learnt.model is None or learnt.spec is None:
        raise InputError("`model` must be a built-in one for ONNX, got one that is not")
    about = {"model": json.dumps(learnt.spec.to_dict()), "card": json.dumps(dict(learnt.card))}
    return to_onnx(learnt.model, learnt.params, about)


def _npz(learnt: LearntModel) -> bytes:
    import io

    import numpy as np

    file = io.BytesIO()
    described = "null" if learnt.spec is None else json.dumps(learnt.spec.to_dict())
    np.savez(
        file, params=learnt.params, model=np.array(described), card=np.array(json.dumps(dict(learnt.card)))
    )
    return file.getvalue()


def _task(path: Path) -> Task:
    """The task that `path` describes."""
    from ofediq.federation.config import FederationConfig
    from ofediq.federation.protocol.task import Task
    from ofediq.federation.setup import assemble

    if path.suffix != ".json":
        return assemble(FederationConfig.read(path)).task
    with refusing("device", "a file that can be read", path):
        return Task.decode(path.read_bytes())
