"""What an unfinished run saw: a hash of each column, so that a resumed one can say what has changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from ofediq.errors import InputError
from ofediq.storage import save_json
from ofediq.streams import Stream

_SHOWN = 5


def keep_marks(path: Path, stream: Stream) -> None:
    """Write the hashes of `stream`, readings as they come from a file, to `path`."""
    save_json(path, _marks(stream))


def require_same(path: Path, stream: Stream, source: str) -> None:
    """Nothing if `stream` is what `path` knows, or there is no such file; else a sentence that names the columns."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        known, number = dict(before["columns"]), int(before["samples"])
    except (OSError, ValueError, KeyError, TypeError):
        return  # an older run, or a damaged file: whoever reads the states compares the whole
    now = _marks(stream)
    found = now["columns"]
    said = [f"{now['samples']:,} samples instead of {number:,}"] if now["samples"] != number else []
    said += _listed("without", [name for name in known if name not in found])
    said += _listed("with a new", [name for name in found if name not in known])
    if not said:  # with other rows every column is another one
        said += _listed("with other values in", [name for name in found if found[name] != known[name]])
    if not said and now["all"] != before.get("all"):
        said = ["with other times or clients"]
    if said:
        raise InputError(f"`data` must be what the run began with, got {source} {' and '.join(said)}")


def _listed(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{what} column{'s' * (len(names) > 1)} {', '.join(map(repr, names[:_SHOWN]))}{more}"]


def _marks(stream: Stream) -> dict[str, Any]:
    data = stream.dataset
    blocks = data.x if data.x.ndim == 2 else data.x.reshape(len(data), 1, -1)
    names = data.feature_names if len(data.feature_names) == blocks.shape[1] else range(blocks.shape[1])
    columns = {str(name): _hash(blocks[:, place]) for place, name in enumerate(names)}
    return {
        "samples": len(data),
        "columns": {**columns, data.target_name: _hash(data.y)},
        "all": stream.fingerprint(),
    }


def _hash(values: Any) -> str:
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=8).hexdigest()
