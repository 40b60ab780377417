"""`ServerState`: the server's state on disk, one file that is replaced in one step."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ofediq.errors import CheckpointError
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
        meta = {
            "epoch": self.epoch,
            "step": self.step,
            "numbers": dict(self.numbers),
            "counted": list(self.counted),
            "record": self.record,
        }
        _keep_previous(path)
        _STATE.write(path, self.state, identity=self.identity, meta=meta)

    @classmethod
    def read(cls, path: Path) -> ServerState | None:
        """The state in `path`; None if there is no such file; `CheckpointError` if it cannot be read.

        Where it is damaged the one before it is taken, and a line in the log says so.
        """
        if not path.exists():
            return None
        try:
            stored = _STATE.read(path)
        except CheckpointError as error:
            try:
                stored = _STATE.read(previous(path))
            except CheckpointError:
                raise error from None
            log.error(
                "server: %s; it continues from the state before it, step %s", error, stored.meta["step"]
            )
        return cls(identity=stored.identity, state=stored.arrays, **stored.meta)

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


def previous(path: Path) -> Path:
    """Where the state before that in `path` is kept.

    >>> previous(Path("state.npz")).name
    'state.previous.npz'
    """
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def _keep_previous(path: Path) -> None:
    """A second name for the present state, in one move; a file system without such names keeps none."""
    partial = path.with_name(f".{path.name}.previous")
    with suppress(OSError):
        partial.unlink(missing_ok=True)
        os.link(path, partial)
        os.replace(partial, previous(path))
