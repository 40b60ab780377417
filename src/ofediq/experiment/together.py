"""One run over several processes, on this machine or on many: each has its share of the clients.

All processes run the same configuration; the first one keeps the results, shows them and talks to the user.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ofediq.errors import InputError, LostProcessError, require_integer
from ofediq.experiment.config import Config
from ofediq.experiment.folder import Folder
from ofediq.experiment.listener import Silent
from ofediq.experiment.runner import run
from ofediq.experiment.setup import Experiment
from ofediq.machine import cores

_GLANCE = 0.5  # seconds between two looks at the helpers
_PATIENCE = 30  # seconds that helpers have to end by themselves


@dataclass(frozen=True)
class Seat:
    """Which of several processes this one is."""

    coordinator: str
    process: int
    of: int

    def __post_init__(self) -> None:
        require_integer("of", self.of, 1)
        require_integer("process", self.process, 0, self.of - 1)


@contextmanager
def joined(seat: Seat) -> Iterator[None]:
    """This process as one of several, while the context lasts; before JAX is used."""
    import jax

    from ofediq.simulation import join_processes

    join_processes(seat.coordinator, seat.of, seat.process)
    yield
    jax.distributed.shutdown()  # only after a good end: else it would wait for the others


@contextmanager
def spawned(config: Config, processes: int) -> Iterator[Seat]:
    """The seat of this process among `processes` on this machine; the others are started, and ended if need be."""
    require_integer("processes", processes, 2, 1024)
    os.environ.setdefault("OFEDIQ_THREADS", str(max(1, cores() // processes)))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{probe.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_text(json.dumps({"config": config.to_dict()}), encoding="utf-8")
        command = [sys.executable, "-m", "ofediq", "run", "--config", str(file), "--coordinator", coordinator]
        helpers = [
            subprocess.Popen(
                [*command, "--process", str(index), "--of", str(processes)], stdout=subprocess.DEVNULL
            )
            for index in range(1, processes)
        ]
        try:
            with _watched(helpers):
                yield Seat(coordinator, 0, processes)
            for helper in helpers:
                helper.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            for helper in helpers:
                helper.kill()
                helper.wait()


@contextmanager
def _watched(helpers: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Inside, this process ends in a sentence when somebody ends another one, whose sums it would wait for."""
    over = threading.Event()

    def look() -> None:
        if any((helper.poll() or 0) < 0 for helper in helpers):
            for helper in helpers:
                helper.kill()
            sentence = (
                "a process of the run was ended from outside; --resume continues from the last saved state"
            )
            sys.stderr.write(f"\nofediq: error: {sentence}\n")
            sys.stderr.flush()
            os._exit(1)  # the main thread may wait inside a sum, where nothing reaches it

    def watch() -> None:
        while not over.wait(_GLANCE):
            look()

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except (RuntimeError, LostProcessError):  # a sum that broke off, perhaps before the next glance
        over.wait(_GLANCE)
        look()
        raise
    finally:
        over.set()


def help_out(config: Config) -> None:
    """Run `config` as one of the others: everything is computed, nothing is kept."""
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path) / "run")
        folder.open(config)
        run(Experiment.set_up(config), folder, Silent())  # an interruption is the first one's to tell


def seat_of(coordinator: str | None, process: int | None, of: int | None) -> Seat | None:
    """The seat that three options name together; None if none of them is there."""
    given = (coordinator, process, of)
    if given == (None, None, None):
        return None
    if coordinator is None or process is None or of is None:
        raise InputError(f"`coordinator`, `process` and `of` belong together, got {given}")
    return Seat(coordinator, process, of)
