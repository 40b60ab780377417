"""Finished runs on disk: a few small arrays per unit, so that nothing runs twice."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.errors import InputError
from ofediq.reproduction.units import Data, Unit
from ofediq.writing import replaced

Curve = npt.NDArray[np.float64]
_ARRAYS = ("curve", "loss", "senders", "bits_formula", "bits_wire")
# Everything np.load raises for a file that is not a whole archive.
_BROKEN = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


@dataclass(frozen=True, eq=False)
class Record:
    """What is kept of one run; pictures take it like a `Result`.

    Attributes:
        curve: accuracy or MSE up to each step.
        loss: sum of the clients' losses at each step.
        senders: clients that sent at each step.
        bits_formula: uplink bits by the paper's formula at each step.
        bits_wire: uplink bits of the encoded payloads at each step.
        seconds: how long the run took.
        seed: of the run.
    """

    curve: Curve
    loss: Curve
    senders: Curve
    bits_formula: Curve
    bits_wire: Curve
    seconds: float
    seed: int

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.curve)

    @property
    def final(self) -> float:
        """Accuracy or MSE over all steps."""
        return float(self.curve[-1])


@dataclass(frozen=True)
class Store:
    """A folder of finished units."""

    folder: Path

    def path(self, unit: Unit) -> Path:
        """Where a finished unit is."""
        return self.folder / f"{unit.name}.npz"

    def checkpoint(self, unit: Unit) -> Path:
        """Where the state of an interrupted unit is."""
        return self.folder / f"{unit.name}.state.npz"

    def save(self, unit: Unit, record: Record) -> None:
        """Keep a finished unit, in one move."""
        meta = {"identity": dict(unit.identity), "seconds": record.seconds, "seed": record.seed}
        self._write(self.path(unit), meta, {name: getattr(record, name) for name in _ARRAYS})
        self.checkpoint(unit).unlink(missing_ok=True)

    def load(self, unit: Unit) -> Record | None:
        """The finished unit, or None if it is not here, not whole, or that of another run."""
        found = _read(self.path(unit))
        if found is None:
            return None
        meta, arrays = found
        if meta.get("identity") != json.loads(json.dumps(dict(unit.identity))):
            return None
        if not set(_ARRAYS) <= arrays.keys():
            return None
        curves = {name: arrays[name] for name in _ARRAYS}
        return Record(**curves, seconds=meta["seconds"], seed=meta["seed"])

    def save_arrays(self, name: str, meta: Mapping[str, Any], arrays: Mapping[str, Curve]) -> None:
        """Keep other numbers under a name of their own."""
        self._write(self.folder / f"{name}.npz", meta, arrays)

    def load_arrays(self, name: str) -> tuple[dict[str, Any], dict[str, Curve]] | None:
        """What `save_arrays` kept, or None."""
        return _read(self.folder / f"{name}.npz")

    def save_naive(self, data: Data, curves: Mapping[str, Curve]) -> None:
        """Keep the naive references of a stream."""
        self.save_arrays(f"naive-{data.name}", {}, curves)

    def load_naive(self, data: Data) -> dict[str, Curve] | None:
        """The naive references of a stream, if they were computed."""
        found = self.load_arrays(f"naive-{data.name}")
        return None if found is None else found[1]

    def _write(self, path: Path, meta: Mapping[str, Any], arrays: Mapping[str, Curve]) -> None:
        kept: dict[str, Any] = {"meta": np.asarray(json.dumps(meta)), **arrays}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replaced(path) as file:
                np.savez_compressed(file, **kept)
        except OSError as error:
            raise InputError(
                f"`out` must be writable, got {str(path.parent)!r} ({error.strerror or error})"
            ) from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Curve]] | None:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            meta: dict[str, Any] = json.loads(str(file["meta"]))
            return meta, {name: file[name] for name in file.files if name != "meta"}
    except _BROKEN:
        return None
