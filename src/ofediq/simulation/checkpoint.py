"""Saving a run between blocks, and continuing it to a bit-identical result.

One `.npz` file; an interrupted save leaves the previous checkpoint as it was.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ofediq.errors import CheckpointError
from ofediq.simulation.topologies import Carry, Records
from ofediq.writing import replaced

_FORMAT = 1


def save(path: Path, identity: dict[str, Any], carry: Carry, records: Records, done: int) -> None:
    """Write the state after `done` steps to `path`, atomically."""
    meta = json.dumps({"format": _FORMAT, "done": done, "identity": identity})
    arrays = {f"carry{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(carry))}
    arrays |= {f"record_{name}": np.asarray(value) for name, value in records._asdict().items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as file:
            np.savez(file, meta=np.asarray(meta), **arrays)  # type: ignore[arg-type]  # the stub wants one type
    except OSError as error:
        raise CheckpointError(f"cannot write checkpoint {path}: {error.strerror or error}") from error


def load(path: Path, identity: dict[str, Any], like: Carry) -> tuple[Carry, Records, int]:
    """Carry, records and number of steps done from `path`, which must belong to the run `identity`."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            meta = json.loads(str(file["meta"]))
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"cannot read checkpoint {path}: {error}") from error
    if meta.get("format") != _FORMAT:
        raise CheckpointError(
            f"checkpoint {path} has format {meta.get('format')!r}, this version reads {_FORMAT}"
        )
    for key, wanted in identity.items():
        found = meta["identity"].get(key)
        if found != json.loads(json.dumps(wanted)):
            raise CheckpointError(
                f"checkpoint {path} belongs to another run: its {key} is {found}, not {wanted}"
            )
    leaves = [arrays[f"carry{i}"] for i in range(len(jax.tree.leaves(like)))]
    records = Records(*(arrays[f"record_{name}"] for name in Records._fields))
    return jax.tree.unflatten(jax.tree.structure(like), leaves), records, int(meta["done"])
