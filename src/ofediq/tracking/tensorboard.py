"""TensorBoard's event files, one folder per run."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ofediq.errors import extra
from ofediq.tracking.base import Parameter

_SECONDS = 5.0
"""Points do not wait longer than this for company on their way to the disk."""


class TensorBoard:
    """Writes event files below `folder`; `tensorboard --logdir FOLDER` shows them.

    Parameters go to the HPARAMS tab. A run whose folder is taken gets another one: name-2, name-3, ...
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        # What is needed is imported now, so that a missing package is noticed before the run. TensorBoard's own
        # EventFileWriter would bring a second thread, which prints a traceback when the disk is full.
        self._make_writer = extra("tensorboard.summary.writer.record_writer", "tensorboard").RecordWriter
        self._event = extra("tensorboard.compat.proto.event_pb2", "tensorboard").Event
        self._summary = extra("tensorboard.compat.proto.summary_pb2", "tensorboard").Summary
        self._hparams = extra("tensorboard.plugins.hparams.summary_v2", "tensorboard")
        self._file: BinaryIO | None = None
        self._step = 0
        self._flushed = 0.0

    def start(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        """Open a new event file."""
        self._close()
        home = self._free(name)
        # TensorBoard looks for files with `tfevents` in their names.
        path = home / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        self._file, self._step = path.open("wb"), 0
        self._write(file_version="brain.Event:2")
        self._write(summary=self._hparams.hparams_pb(dict(parameters), trial_id=home.name))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add points at `step`."""
        self._step = step
        points = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(summary=self._summary(value=points))

    def finish(self, figures: Mapping[str, float]) -> None:
        """Add the figures at the last step, and close the file."""
        self.log(self._step, {f"final/{name}": value for name, value in figures.items()})
        self._close()

    def _write(self, **content: Any) -> None:
        """Add one event; a page that is open sees it within some seconds."""
        assert self._file is not None, "`start` comes first"
        event = self._event(wall_time=time.time(), step=self._step, **content)
        try:
            self._make_writer(self._file).write(event.SerializeToString())
            if time.monotonic() > self._flushed + _SECONDS:
                self._file.flush()
                self._flushed = time.monotonic()
        except OSError:
            with suppress(OSError):
                self._close()
            raise

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _free(self, name: str) -> Path:
        number = 1
        while True:
            home = self.folder / (name if number == 1 else f"{name}-{number}")
            try:
                home.mkdir(parents=True)
            except FileExistsError:
                if not home.is_dir():
                    raise
                number += 1
            else:
                return home
