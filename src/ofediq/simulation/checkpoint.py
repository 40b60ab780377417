"""Saving a run between blocks, and continuing it to a bit-identical result.

One `.npz` file; an interrupted save leaves the previous checkpoint as it was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ofediq.simulation.blocks import Records
from ofediq.storage import Format

_CHECKPOINT = Format("checkpoint", 2)


def save(path: Path, identity: dict[str, Any], carry: Any, records: Records, done: int) -> None:
    """Write the state after `done` steps to `path`, atomically."""
    _CHECKPOINT.write(path, {"carry": carry, "records": records}, identity=identity, meta={"done": done})


def load(path: Path, identity: dict[str, Any], like: Any) -> tuple[Any, Records, int]:
    """Carry, records and number of steps done from `path`, which must belong to the run `identity`."""
    stored = _CHECKPOINT.read(path, identity=identity)
    records: Any = Records._make(stored.array(f"records/{name}") for name in Records._fields)
    return stored.tree("carry", like), records, int(stored.meta["done"])
