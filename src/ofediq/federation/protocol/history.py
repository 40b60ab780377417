"""What the server's checkpoint keeps of the past without writing it again in every round.

The curves of the page lie in a file beside the state, to which new points are added: a line of JSON that names their
numbers, then rows of doubles. What is known of each client becomes columns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ofediq.arrays import Numbers
from ofediq.storage import save_bytes

Point = Mapping[str, float]
_WHOLE = ("step", "samples")  # numbers of a point that are counts
_ALL = {
    *_WHOLE,
    "seconds",
    "senders",
    "expected",
    "error",
    "naive",
    "bits_wire",
    "bits_fedogd",
}  # that it must have


def history_file(path: Path) -> Path:
    """Where the points of the state in `path` are.

    >>> history_file(Path("state.npz")).name
    'state.history'
    """
    return path.with_suffix(".history")


def save_points(path: Path, points: Sequence[Point], spacing: int) -> None:
    """Add what `path` lacks of `points`; a file of other points is replaced.

    It is no loss if the system keeps the end for itself when power fails: the state says how many points it knows.
    """
    if not points:
        with suppress(FileNotFoundError):
            path.unlink()
        return
    head = _head(points[0], spacing)
    with suppress(OSError), path.open("r+b") as file:
        if file.read(len(head)) == head:
            width = 8 * len(points[0])
            known = min((os.fstat(file.fileno()).st_size - len(head)) // width, len(points))
            if known and _at(file, len(head), known - 1, width) == _rows(points[known - 1 : known]):
                file.seek(len(head) + known * width)
                file.write(_rows(points[known:]))
                file.truncate()
                return
    save_bytes(path, head + _rows(points))


def read_points(path: Path, count: int, step: int) -> tuple[list[dict[str, float]], int]:
    """At most `count` points up to `step`, and their spacing; none where the file is missing or damaged."""
    try:
        first, _, rest = path.read_bytes().partition(b"\n")
        about = json.loads(first)
        names, spacing = [str(name) for name in about["names"]], int(about["spacing"])
        if not set(names) >= _ALL or len(set(names)) < len(names) or spacing < 1:
            return [], 1
        rows = np.frombuffer(rest[: len(rest) // (8 * len(names)) * 8 * len(names)], "<f8")
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return [], 1
    points = [
        {name: int(value) if name in _WHOLE else value for name, value in zip(names, row, strict=True)}
        for row in rows.reshape(-1, len(names)).tolist()
        if np.isfinite(row).all()
    ]
    return [point for point in points[:count] if point.get("step", 0) <= step], spacing


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Numbers]:
    """What is known of the clients, by name of the field; nothing known is NaN.

    >>> columns([{"name": "a", "sent": 3, "last_seen": None}])
    {'sent': array([3]), 'last_seen': array([nan])}
    """
    names = [name for name in (rows[0] if rows else ()) if name != "name"]
    made = {}
    for name in names:
        values = [row[name] for row in rows]
        made[name] = np.array([np.nan if value is None else value for value in values])
    return made


def rows_of(names: Sequence[str], found: Mapping[str, Numbers]) -> list[dict[str, Any]]:
    """The inverse of `columns`."""
    lists = {
        name: [None if value != value else value for value in array.tolist()] for name, array in found.items()
    }
    return [
        {"name": name, **{field: values[place] for field, values in lists.items()}}
        for place, name in enumerate(names)
    ]


def _head(point: Point, spacing: int) -> bytes:
    return json.dumps({"spacing": spacing, "names": list(point)}).encode() + b"\n"


def _rows(points: Sequence[Point]) -> bytes:
    return np.array([list(point.values()) for point in points], "<f8").tobytes()


def _at(file: BinaryIO, start: int, place: int, width: int) -> bytes:
    file.seek(start + place * width)
    return file.read(width)
