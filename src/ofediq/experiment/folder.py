"""The folder of a run: what is there, and what may be overwritten.

A folder that holds a run is never overwritten unasked: a finished run stays, an unfinished one is continued, and
`force` replaces either. Only files that ofediq wrote are ever removed. While a run is at work, no other one may be.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ofediq import __version__
from ofediq.errors import CheckpointError, InputError, refusing
from ofediq.experiment.config import Config
from ofediq.locks import LOCK_FILE, held, require_free
from ofediq.storage import save_json

_FILES = ("config.json", "summary.json", "metrics.parquet", "figure.png", "regret.png", "model.safetensors")
_STATE = "state"


@dataclass(frozen=True)
class Folder:
    """A folder for one run."""

    path: Path

    @property
    def config(self) -> Path:
        """Where the configuration is."""
        return self.path / "config.json"

    @property
    def summary(self) -> Path:
        """Where the summary is."""
        return self.path / "summary.json"

    @property
    def holds_run(self) -> bool:
        """Whether a run was started here."""
        return self.config.is_file()

    @property
    def finished(self) -> bool:
        """Whether the run here came to its end."""
        if not self.holds_run or not self.summary.is_file():
            return False
        return self.read_summary().get("interrupted") is False

    def checkpoint(self, key: str, seed: int) -> Path:
        """Where the state of an unfinished method goes."""
        return self.path / _STATE / f"{key}-{seed}.npz"

    def archive(self, key: str, seed: int) -> Path:
        """Where the result of a finished method goes until the whole run is finished."""
        return self.path / _STATE / f"{key}-{seed}.finished.npz"

    @property
    def marks(self) -> Path:
        """Where a hash of each column of the data is until the whole run is finished."""
        return self.path / _STATE / "data.json"

    def read_summary(self) -> dict[str, Any]:
        """The summary of the run here."""
        try:
            content: dict[str, Any] = json.loads(self.summary.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"cannot read {self.summary}: {error}") from None
        return content

    def check(self, config: Config, *, resume: bool = False, force: bool = False) -> None:
        """Whether a run of `config` may go here; else the sentence that says why not."""
        require_free(self.path)
        self._check(config, resume, force)

    @contextmanager
    def at_work(self, config: Config, *, resume: bool = False, force: bool = False) -> Iterator[None]:
        """The folder checked, opened, and closed to others while the context lasts."""
        with ExitStack() as stack:
            with refusing("out", "a writable folder", self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(held(self.path))
            self._check(config, resume, force)  # once more: now nobody else can change it
            self.open(config, resume=resume)
            yield

    def _check(self, config: Config, resume: bool, force: bool) -> None:
        shown = repr(str(self.path))
        if resume:
            if not self.holds_run:
                raise InputError(f"`out` must hold a run to resume, got {shown}")
            difference = Config.read(self.config).difference(config)
            if difference:
                raise InputError(f"the run in {shown} is another one: its {difference}")
        elif self.holds_run and not force:
            state = "a finished run" if self.finished else "an unfinished run (--resume continues it)"
            raise InputError(f"`out` must be free, got {shown}, which holds {state}; --force replaces it")
        elif (
            not self.holds_run and self.path.is_dir() and {p.name for p in self.path.iterdir()} - {LOCK_FILE}
        ):
            raise InputError(f"`out` must be a new or empty folder, got {shown}, which holds other files")

    def open(self, config: Config, *, resume: bool = False) -> None:
        """Make the folder ready for a checked run: what an earlier one left goes, unless it is resumed."""
        with refusing("out", "a writable folder", self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if not resume:
                self._clear()
                save_json(self.config, {"config": config.to_dict(), "versions": versions()})
            (self.path / _STATE).mkdir(exist_ok=True)

    def close(self) -> None:
        """Remove what only a resumed run would need."""
        shutil.rmtree(self.path / _STATE, ignore_errors=True)

    def _clear(self) -> None:
        shutil.rmtree(self.path / _STATE, ignore_errors=True)
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)


def free_folder(parent: Path, name: str) -> Folder:
    """A new folder under `parent`: `name`, or `name-2`, `name-3`, ... if that exists."""
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            with refusing("out", "a writable folder", path):
                path.mkdir(parents=True)
        except InputError:
            if not path.exists():
                raise
            number += 1
            continue
        return Folder(path)


def unfinished_folder(parent: Path, name: str, config: Config) -> Folder:
    """The newest folder of `free_folder` that holds an unfinished run of `config`."""
    numbered = re.compile(rf"{re.escape(name)}(?:-(\d+))?")
    found = []
    for path in parent.iterdir() if parent.is_dir() else ():
        match, folder = numbered.fullmatch(path.name), Folder(path)
        if not match or not folder.holds_run or folder.finished:
            continue
        if not Config.read(folder.config).difference(config):
            found.append((int(match[1] or 1), folder))
    if not found:
        raise InputError(
            f"no unfinished run of this configuration in {str(parent)!r}: `out` names its folder"
        )
    return max(found, key=lambda pair: pair[0])[1]


def versions() -> dict[str, str]:
    """What a difference between two repetitions could come from."""
    packages = {name: version(name) for name in ("numpy", "jax", "optax", "scikit-learn")}
    return {"ofediq": __version__, "python": platform.python_version(), **packages}
