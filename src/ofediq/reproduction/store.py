"""Finished runs on disk: a few small arrays per unit, so that nothing runs twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.errors import CheckpointError
from ofediq.reproduction.units import Data, Unit
from ofediq.storage import Format

Curve = npt.NDArray[np.float64]
_ARRAYS = ("curve", "loss", "senders", "bits_formula", "bits_wire")
_KEPT = Format("part of a reproduction", 1)


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
        meta = {"seconds": record.seconds, "seed": record.seed}
        arrays = {name: getattr(record, name) for name in _ARRAYS}
        _KEPT.write(self.path(unit), arrays, identity=unit.identity, meta=meta, compress=True)
        self.checkpoint(unit).unlink(missing_ok=True)

    def load(self, unit: Unit) -> Record | None:
        """The finished unit, or None if it is not here, not whole, or that of another run."""
        try:
            stored = _KEPT.read(self.path(unit), identity=unit.identity)
            curves = {name: stored.array(name) for name in _ARRAYS}
        except CheckpointError:
            return None
        return Record(**curves, seconds=stored.meta["seconds"], seed=stored.meta["seed"])

    def save_arrays(self, name: str, meta: Mapping[str, Any], arrays: Mapping[str, Curve]) -> None:
        """Keep other numbers under a name of their own."""
        _KEPT.write(self.folder / f"{name}.npz", arrays, identity={}, meta=meta, compress=True)

    def load_arrays(self, name: str) -> tuple[dict[str, Any], dict[str, Curve]] | None:
        """What `save_arrays` kept, or None."""
        try:
            stored = _KEPT.read(self.folder / f"{name}.npz")
        except CheckpointError:
            return None
        return stored.meta, stored.arrays

    def save_naive(self, data: Data, curves: Mapping[str, Curve]) -> None:
        """Keep the naive references of a stream."""
        self.save_arrays(f"naive-{data.name}", {}, curves)

    def load_naive(self, data: Data) -> dict[str, Curve] | None:
        """The naive references of a stream, if they were computed."""
        found = self.load_arrays(f"naive-{data.name}")
        return None if found is None else found[1]
