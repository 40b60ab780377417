"""`ServerState`: the server's state on disk, one file that is replaced in one step, and its history beside it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ofediq.errors import CheckpointError, OFedIQError
from ofediq.federation.protocol.history import columns, history_file, read_points, rows_of, save_points
from ofediq.storage import Format, Stored, leaves

log = logging.getLogger("ofediq.federation")

_STATE = Format("checkpoint of the server", 4)


@dataclass(frozen=True, eq=False)
class ServerState:
    """All that a server needs to continue.

    Attributes:
        identity: what the state belongs to; another federation, task or server rule must not continue it.
        epoch: of the server that saved it.
        step: t of the last closed round.
        state: the round's after it (model, server rule, what the clients know) and what the guard knows of members,
            or the arrays of both by their paths.
        numbers: the clients' numbers by name.
        counted: numbers of the clients whose updates counted in that round.
        record: the monitor's counts.
    """

    identity: Mapping[str, Any]
    epoch: int
    step: int
    state: Mapping[str, Any]
    numbers: Mapping[str, int]
    counted: Sequence[int]
    record: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Replace `path` by this state; an interrupted or failed write leaves the old one as it was.

        The state before it stays beside it, for a disk that damages what it has taken.
        """
        record = dict(self.record)
        points, rows = record.pop("points", []), record.pop("clients", [])
        meta = {
            "epoch": self.epoch,
            "step": self.step,
            "numbers": dict(self.numbers),
            "counted": list(self.counted),
            "record": record,
            "points": len(points),
            "names": [row["name"] for row in rows],
        }
        if meta["names"] == list(self.numbers):
            del meta["names"]
        tree = {**self.state, "rows": columns(rows)}
        _STATE.write(path, tree, identity=self.identity, meta=meta, keep=previous(path))
        with suppress(OSError):  # curves for the page: a disk that refuses them has refused the state
            save_points(history_file(path), points, int(record.get("spacing", 1)))

    @classmethod
    def read(cls, path: Path) -> ServerState | None:
        """The state in `path`; None if there is no such file; `CheckpointError` if it cannot be read.

        Where it is damaged the one before it is taken, and a line in the log says so.
        """
        if not path.exists():
            return None
        try:
            return _restored(path, path)
        except CheckpointError as error:
            try:
                found = _restored(path, previous(path))
            except CheckpointError:
                raise error from None
            log.error("server: %s; it continues from the state before it, step %s", error, found.step)
            return found

    def require_same(self, identity: Mapping[str, Any]) -> None:
        """Raise `CheckpointError` unless the state belongs to `identity`."""
        self._stored().require(identity)

    def restore(self, like: Any) -> Any:
        """The saved state of the round, in the shape of the given one."""
        return self._stored().tree("state", like)

    def below(self, name: str) -> dict[str, Any]:
        """The arrays under `name`, by the rest of their paths."""
        found = leaves(self.state)
        return {path.removeprefix(f"{name}/"): found[path] for path in found if path.startswith(f"{name}/")}

    def _stored(self) -> Stored:
        return Stored("the server's checkpoint", {}, dict(self.identity), leaves(self.state))


@contextmanager
def continuing(what: object) -> Iterator[None]:
    """What is read has the wrong types or sizes, though nothing is damaged: that is a `CheckpointError`, too."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, OFedIQError):
            raise
        raise CheckpointError(f"cannot continue from {what}: what it holds does not fit ({error})") from None


def _restored(path: Path, file: Path) -> ServerState:
    """The state in `file`, with the points and rows that are kept apart from its record, beside `path`."""
    stored = _STATE.read(file)
    with continuing(file):
        return _joined(path, stored)


def _joined(path: Path, stored: Stored) -> ServerState:
    meta, arrays = dict(stored.meta), stored.arrays
    count, names = meta.pop("points", None), meta.pop("names", list(meta["numbers"]))
    record = dict(meta.pop("record"))
    if count is not None:  # else it was written by an earlier version
        points, spacing = read_points(history_file(path), count, meta["step"])
        rows = {
            name.removeprefix("rows/"): array for name, array in arrays.items() if name.startswith("rows/")
        }
        record |= {"points": points, "spacing": spacing, "clients": rows_of(names if rows else [], rows)}
        arrays = {name: array for name, array in arrays.items() if not name.startswith("rows/")}
    return ServerState(identity=stored.identity, state=arrays, record=record, **meta)


def previous(path: Path) -> Path:
    """Where the state before that in `path` is kept.

    >>> previous(Path("state.npz")).name
    'state.previous.npz'
    """
    return path.with_name(f"{path.stem}.previous{path.suffix}")
