"""Finished results on disk: a resumed experiment reads them instead of running them again."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ofediq.errors import CheckpointError
from ofediq.methods import Method
from ofediq.models import Model
from ofediq.simulation import Result
from ofediq.streams import Stream
from ofediq.writing import replaced

_FORMAT = 1
_ARRAYS = (
    "loss",
    "error",
    "present",
    "senders",
    "bits_formula",
    "bits_wire",
    "bits_downlink",
    "params",
)


def save_result(path: Path, result: Result) -> None:
    """Write what `result` recorded to `path`, in one move."""
    identity = _identity(result.method, result.model, result.stream, result.seed)
    meta = json.dumps({"format": _FORMAT, "seconds": result.seconds, "identity": identity})
    try:
        with replaced(path) as file:
            arrays: dict[str, Any] = {name: getattr(result, name) for name in _ARRAYS}
            np.savez(file, meta=np.asarray(meta), **arrays)
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror or error}") from error


def load_result(path: Path, method: Method, model: Model, stream: Stream, seed: int) -> Result:
    """The result in `path`, which must be that of this method, model, stream and seed."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            meta = json.loads(str(file["meta"]))
            arrays = {name: file[name] for name in _ARRAYS}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"cannot read finished result {path}: {error}") from error
    wanted = {"format": _FORMAT, **_identity(method, model, stream, seed)}
    found = {"format": meta.get("format"), **meta.get("identity", {})}
    for name, value in json.loads(json.dumps(wanted)).items():
        if found.get(name) != value:
            raise CheckpointError(
                f"finished result {path} belongs to another run: its {name} is {found.get(name)}, not {value}"
            )
    return Result(method=method, model=model, stream=stream, seed=seed, seconds=meta["seconds"], **arrays)


def _identity(method: Method, model: Model, stream: Stream, seed: int) -> dict[str, Any]:
    return {
        "method": method.describe(),
        "model": model.describe(),
        "stream": stream.fingerprint(),
        "seed": seed,
    }
