"""`ServerState`: the server's state on disk, one file that is replaced in one step."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.errors import CheckpointError
from ofediq.writing import replaced

_FORMAT = 1


@dataclass(frozen=True, eq=False)
class ServerState:
    """All that a server needs to continue.

    Attributes:
        identity: what the state belongs to; another federation, task or server rule must not continue it.
        epoch: of the server that saved it.
        step: t of the last closed round.
        params: the model after it.
        server: the server rule's state: arrays in nested tuples.
        signal: the budget's state, or None.
        numbers: the clients' numbers by name.
        norms: of recent updates, for clipping.
        record: the monitor's counts.
    """

    identity: Mapping[str, Any]
    epoch: int
    step: int
    params: npt.NDArray[np.float32]
    server: Any
    signal: Any
    numbers: Mapping[str, int]
    norms: tuple[float, ...]
    record: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Replace `path` by this state; an interrupted or failed write leaves the old one as it was."""
        meta = {
            "format": _FORMAT,
            "identity": dict(self.identity),
            "epoch": self.epoch,
            "step": self.step,
            "numbers": dict(self.numbers),
            "norms": self.norms,
            "record": self.record,
        }
        arrays = {f"server{i}": leaf for i, leaf in enumerate(_leaves(self.server))}
        arrays |= {f"signal{i}": leaf for i, leaf in enumerate(_leaves(self.signal))}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replaced(path) as file:
                np.savez(file, meta=np.asarray(json.dumps(meta)), params=self.params, **arrays)  # type: ignore[arg-type]  # the stub wants one type
        except OSError as error:
            raise CheckpointError(f"cannot write checkpoint {path}: {error.strerror or error}") from error

    @classmethod
    def read(cls, path: Path) -> ServerState | None:
        """The state in `path`; None if there is no such file; `CheckpointError` if it cannot be read."""
        if not path.exists():
            return None
        try:
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            meta = json.loads(str(arrays["meta"]))
            if meta["format"] != _FORMAT:
                raise ValueError(f"format {meta['format']}, this version reads {_FORMAT}")
            return cls(
                identity=meta["identity"],
                epoch=meta["epoch"],
                step=meta["step"],
                params=arrays["params"],
                server=_numbered(arrays, "server"),
                signal=_numbered(arrays, "signal"),
                numbers=meta["numbers"],
                norms=tuple(meta["norms"]),
                record=meta["record"],
            )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"cannot read checkpoint {path}: {error}") from error

    def require_same(self, identity: Mapping[str, Any]) -> None:
        """Raise `CheckpointError` unless the state belongs to `identity`."""
        for key, wanted in identity.items():
            if self.identity.get(key) != wanted:
                raise CheckpointError(
                    f"the checkpoint belongs to another federation: its {key} is {self.identity.get(key)}, "
                    f"not {wanted}"
                )

    def restore(self, server: Any, signal: Any) -> tuple[Any, Any]:
        """The saved states of server rule and budget, in the shape of the given ones."""
        return _rebuild(server, iter(_leaves(self.server))), _rebuild(signal, iter(_leaves(self.signal)))


def _leaves(tree: Any) -> list[npt.NDArray[Any]]:
    """The arrays in nested tuples, in order."""
    if tree is None:
        return []
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [np.asarray(tree)]


def _rebuild(like: Any, leaves: Iterator[npt.NDArray[Any]]) -> Any:
    """Nested tuples as in `like`, with these arrays."""
    if like is None:
        return None
    if isinstance(like, tuple):
        parts = [_rebuild(part, leaves) for part in like]
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    try:
        return next(leaves).astype(np.asarray(like).dtype)
    except StopIteration:
        raise CheckpointError("the checkpoint does not hold the whole state of the server rule") from None


def _numbered(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> list[npt.NDArray[Any]]:
    count = sum(name.startswith(prefix) for name in arrays)
    return [arrays[f"{prefix}{i}"] for i in range(count)]
