"""A whole federation on one machine: recorded streams, and client processes that replay them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from ofediq.federation.names import is_name
from ofediq.federation.network.broker import Broker
from ofediq.federation.network.replay import write_replay
from ofediq.streams import Stream


def client_names(clients: int) -> tuple[str, ...]:
    """c00, c01, ...: names of equal length.

    >>> client_names(3)
    ('c0', 'c1', 'c2')
    """
    width = len(str(clients - 1))
    return tuple(f"c{k:0{width}d}" for k in range(clients))


def names_of(stream: Stream) -> tuple[str, ...]:
    """The names of a stream's clients: those of its file where they are safe, else c00, c01, ..."""
    names = stream.dataset.client_names
    own = len(set(names)) == len(names) == stream.clients and all(map(is_name, names))
    return names if own else client_names(stream.clients)


def record(stream: Stream, folder: Path, federation: str, broker: Broker) -> list[Path]:
    """Write each client's part of `stream` and its configuration into `folder`; returns the configurations."""
    folder.mkdir(parents=True, exist_ok=True)
    data, configs = stream.dataset, []
    targets = np.asarray(data.label_names)[data.y] if data.label_names else data.y  # as the task calls them
    for k, name in enumerate(names_of(stream)):
        rows, present = stream.order[:, k], stream.present[:, k]
        time = None if data.time is None else data.time[rows]
        write_replay(folder / f"{name}.npz", data.x[rows], targets[rows], present, time)
        config = folder / f"{name}.toml"
        config.write_text(
            f"name = {json.dumps(name)}\nfederation = {json.dumps(federation)}\n\n"
            f"[broker]\naddress = {json.dumps(broker.address)}\ninsecure = {str(broker.insecure).lower()}\n\n"
            f'[source]\nkind = "replay"\npath = "{name}.npz"\n'
        )
        configs.append(config)
    return configs


class Fleet:
    """Client processes. Leaving the context ends them, first politely, then not."""

    def __init__(self, configs: list[Path], folder: Path) -> None:
        self.configs, self.folder = configs, folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            for config in self.configs:
                self.start(config)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def start(self, config: Path) -> None:
        """Start one client; one that was ended may be started again."""
        with (self.folder / f"{config.stem}.log").open("ab") as log:
            command = [sys.executable, "-m", "ofediq", "client", "--config", str(config), "--json"]
            self.processes[config.stem] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def sockets(self, patience: float = 5.0) -> dict[str, int]:
        """Bytes that the clients which ended by themselves sent and received, as they said in the end."""
        sums = {"bytes_sent": 0, "bytes_received": 0}
        until = time.monotonic() + patience
        for name, process in self.processes.items():
            with contextlib.suppress(subprocess.TimeoutExpired, ValueError, IndexError, KeyError):
                process.wait(timeout=max(0.01, until - time.monotonic()))
                said = json.loads((self.folder / f"{name}.log").read_text().splitlines()[-1])
                for key in sums:
                    sums[key] += said[key]
        return sums

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        patience = time.monotonic() + 5
        for process in self.processes.values():
            try:
                process.wait(timeout=max(0.1, patience - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
