"""Finished results on disk: a resumed experiment reads them instead of running them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ofediq.arrays import Vector
from ofediq.methods import Method
from ofediq.models import Model
from ofediq.simulation import Result
from ofediq.simulation.checkpoint import digest_of
from ofediq.storage import Format
from ofediq.streams import Stream

_FINISHED = Format("finished result", 3)
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
    identity = _identity(result.method, result.model, result.stream, result.seed, result.initial)
    arrays = {name: getattr(result, name) for name in _ARRAYS}
    _FINISHED.write(
        path, arrays, identity=identity, meta={"seconds": result.seconds, "engine": result.engine}
    )


def load_result(
    path: Path, method: Method, model: Model, stream: Stream, seed: int, initial: Vector | None = None
) -> Result:
    """The result in `path`, which must be that of this method, model, stream, seed and start."""
    stored = _FINISHED.read(path, identity=_identity(method, model, stream, seed, initial))
    arrays: dict[str, Any] = {name: stored.array(name) for name in _ARRAYS}
    parts: dict[str, Any] = {"method": method, "model": model, "stream": stream, "initial": initial}
    return Result(**parts, seed=seed, **arrays, **stored.meta)


def _identity(
    method: Method, model: Model, stream: Stream, seed: int, initial: Vector | None
) -> dict[str, Any]:
    return {
        "method": method.describe(),
        "model": model.describe(),
        "stream": stream.fingerprint(),
        "seed": seed,
        "initial": digest_of(initial),
    }
