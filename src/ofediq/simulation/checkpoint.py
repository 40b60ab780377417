"""Saving a run between blocks, and continuing it to a bit-identical result.

One `.npz` file; an interrupted save leaves the previous checkpoint as it was. Of several processes with clients of
one run, the first has the file, with what the clients of all of them remember.
"""

from __future__ import annotations

import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

import jax

from ofediq.arrays import Vector
from ofediq.simulation.blocks import Records
from ofediq.simulation.meeting import all_rows, of_the_first
from ofediq.storage import Format

_CHECKPOINT = Format("checkpoint", 2)


def digest_of(initial: Vector | None) -> str | None:
    """What tells the parameters that a run starts from apart from others; None for the model's own."""
    return None if initial is None else blake2b(initial.tobytes(), digest_size=16).hexdigest()


def save(
    path: Path, identity: dict[str, Any], carry: Any, records: Records, done: int, joined: bool = False
) -> None:
    """Write the state after `done` steps to `path`, atomically; `joined` processes all call this."""
    carry = _whole(carry) if joined else carry
    if not joined or jax.process_index() == 0:
        _CHECKPOINT.write(path, {"carry": carry, "records": records}, identity=identity, meta={"done": done})


def load(
    path: Path, identity: dict[str, Any], like: Any, joined: bool = False, wanted: bool = True
) -> tuple[Any, Records, int] | None:
    """Carry, records and number of steps done from `path`, which must belong to the run `identity`.

    None unless that is `wanted` and the file exists; `joined` processes do as the first, and get the memories of all.
    """
    there = wanted and path.exists()
    if not joined:
        return _read(path, identity, like) if there else None
    content = of_the_first(path.read_bytes() if there else b"")
    if not content:
        return None
    with tempfile.TemporaryDirectory() as folder:
        same = Path(folder) / path.name
        same.write_bytes(content)
        return _read(same, identity, _whole(like))


def _read(path: Path, identity: dict[str, Any], like: Any) -> tuple[Any, Records, int]:
    stored = _CHECKPOINT.read(path, identity=identity)
    records: Any = Records._make(stored.array(f"records/{name}") for name in Records._fields)
    return stored.tree("carry", like), records, int(stored.meta["done"])


def _whole(carry: Any) -> Any:
    return carry._replace(memory=all_rows(carry.memory))
