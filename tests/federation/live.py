"""A live federation for the tests: real broker, real sockets; clients as tasks or as processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.federation.local.fleet import client_names, record
from ofediq.federation.network.broker import Broker
from ofediq.federation.network.server import STATE_FILE, Server
from ofediq.federation.network.session import Session
from ofediq.federation.network.sources import SourceSample
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import Publish
from ofediq.federation.protocol.state import ServerState
from ofediq.streams import Stream


class InMemory:
    """One client's part of a stream, as a source."""

    def __init__(self, stream: Stream, number: int) -> None:
        self.stream, self.number, self.exhausted, self.position = stream, number, False, 0

    def at(self, step: int) -> SourceSample | None:
        if step > self.stream.steps or not self.stream.present[step - 1, self.number]:
            return None
        row = self.stream.order[step - 1, self.number]
        return SourceSample(self.stream.x[row], self.stream.y[row])


async def federate(
    coordinator: Coordinator,
    broker: Broker,
    stream: Stream,
    limit: float = 60.0,
    on_round: Callable[[], None] | None = None,
) -> list[Session]:
    """Run server and clients as tasks until all rounds are done."""
    from ofediq.federation.network.sources import Feeder

    sessions = []
    for number, name in enumerate(client_names(stream.clients)):
        learner = Learner(coordinator.federation, name)
        sessions.append(Session(learner, broker, Feeder(learner, InMemory(stream, number)), patience=10.0))
    server = Server(coordinator, broker, patience=10.0, on_round=on_round)
    async with asyncio.timeout(limit):
        await asyncio.gather(server.run(), *(session.run() for session in sessions))
    return sessions


class Processes:
    """`ofediq serve` and its clients as processes, to be killed and started again."""

    def __init__(self, folder: Path, broker: Broker, stream: Stream, **tables: Any) -> None:
        self.folder, self.broker, self.stream = folder, broker, stream
        self.names = client_names(stream.clients)
        self.configs = dict(zip(self.names, record(stream, folder / "clients", "test", broker), strict=True))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.state = folder / "state" / STATE_FILE
        self.config = folder / "federation.toml"
        self.config.write_text(self._toml(tables))

    def start(self, *names: str) -> None:
        """Start `server` or clients by name."""
        for name in names:
            what = ["serve", "--config", str(self.config)]
            if name != "server":
                what = ["client", "--config", str(self.configs[name])]
            with (self.folder / f"{name}.log").open("ab") as log:
                command = [sys.executable, "-m", "ofediq", *what, "--json"]
                self.running[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )

    def kill(self, *names: str) -> None:
        """SIGKILL: no chance to say goodbye."""
        for name in names:
            os.kill(self.running[name].pid, signal.SIGKILL)
            self.running.pop(name).wait()

    def wait_for_step(self, step: int, limit: float = 60.0) -> None:
        """Wait until a state of this step or a later one is on disk."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            saved = ServerState.read(self.state)
            if saved is not None and saved.step >= step:
                return
            time.sleep(0.02)
        raise AssertionError(f"step {step} did not come:\n{self.log('server')}")

    def wait_for_end(self, limit: float = 60.0, expected: int = 0) -> dict[str, Any]:
        """Wait until the server has finished, with this exit code; returns what it printed."""
        try:
            code = self.running["server"].wait(timeout=limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server did not finish:\n{self.log('server')}") from None
        assert code == expected, self.log("server")
        text = self.log("server")
        result: dict[str, Any] = json.loads(
            text[text.rindex("\n{\n") if "\n{\n" in text else text.index("{") :]
        )
        return result

    def params(self) -> npt.NDArray[np.float32]:
        """The model on disk."""
        saved = ServerState.read(self.state)
        assert saved is not None
        return np.asarray(saved.state["state/params"], np.float32)

    def client(self, name: str) -> dict[str, Any]:
        """What the server has on disk about a client."""
        saved = ServerState.read(self.state)
        assert saved is not None
        return next(row for row in saved.record["clients"] if row["name"] == name)

    def log(self, name: str) -> str:
        """What a process wrote."""
        return (self.folder / f"{name}.log").read_text()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def _toml(self, tables: dict[str, dict[str, Any]]) -> str:
        shape = list(self.stream.x.shape[1:])
        chosen: dict[str, dict[str, Any]] = {
            "model": {"name": "softmax", "shape": shape, "classes": self.stream.classes},
            "broker": {"address": self.broker.address, "insecure": self.broker.insecure},
            "clients": {"roster": list(self.names)},
            "page": {"enabled": False},
        }
        for name, table in tables.items():
            chosen[name] = {**chosen.get(name, {}), **table}
        lines = ['name = "test"', "seed = 5"]
        for name, table in chosen.items():
            lines.append(f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        return "\n".join(lines) + "\n"


def inject(broker: Broker, messages: list[Publish], name: str = "stranger") -> None:
    """Publish `messages` over a connection of one's own."""
    from ofediq.federation.network.link import connect

    async def publish() -> None:
        async with connect(broker, name, ()) as link:
            for message in messages:
                await link.publish(message)

    asyncio.run(publish())
