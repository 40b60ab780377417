"""A real mosquitto process for the tests, on a free loopback port."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

import pytest

from ofediq.federation.network.broker import Broker
from ofediq.federation.security.access import BrokerSettings, write_settings

HOST = "127.0.0.1"
# Debian puts daemons into /usr/sbin, which is not on every user's path.
BINARY = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

needs_mosquitto = pytest.mark.skipif(BINARY is None, reason="mosquitto is not installed")

Configuration = Callable[[int], str]
"""The text of mosquitto.conf, given the port."""


def free_port() -> int:
    """A loopback port that nothing uses, below the range that outgoing connections take theirs from.

    A restarted broker needs the same port again; above 32768 a client's own end may sit on it by then.
    """
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def open_to_all(port: int) -> str:
    """A listener without encryption that lets everyone in."""
    return f"listener {port} {HOST}\nallow_anonymous true\nset_tcp_nodelay true\n"


class Mosquitto:
    """One broker. It keeps its port and its folder over restarts.

    Args:
        folder: for its configuration, its log and what it stores.
        configuration: makes mosquitto.conf from the port; an open listener if left out.
        secure: whether that listener speaks TLS; only `address` depends on it.

    Use it as a context manager: `with Mosquitto(tmp_path) as broker: connect(broker.host, broker.port)`.
    """

    host = HOST

    def __init__(
        self, folder: Path, configuration: Configuration = open_to_all, *, secure: bool = False
    ) -> None:
        self.folder, self.configuration, self.secure = folder, configuration, secure
        self.port = free_port()
        self.log_file = folder / "mosquitto.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """As a URL: mqtt://127.0.0.1:20123, or mqtts://."""
        return f"{'mqtts' if self.secure else 'mqtt'}://{self.host}:{self.port}"

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def wait_for_log(self, text: str, since: int = 0) -> str:
        """Wait until it has logged `text` after the first `since` characters; returns what follows these."""
        deadline = time.monotonic() + 30
        while text not in (news := self.log[since:]) and time.monotonic() < deadline:
            time.sleep(0.01)
        return news

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        if BINARY is None:
            pytest.skip("mosquitto is not installed")
        assert self._process is None, "it runs already"
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "mosquitto.conf"
        file.write_text(self.configuration(self.port) + self._surroundings())
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [BINARY, "-c", str(file)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._wait_until_open(time.monotonic() + 30)

    def stop(self) -> None:
        """End it in good order: it stores retained messages first."""
        self._end("terminate")

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._end("kill")

    def restart(self) -> None:
        """Stop it and start it again on the same port."""
        self.stop()
        self.start()

    def stand_still(self, seconds: float) -> None:
        """Let it do nothing for so long: connections stay open, new ones are taken by the system, nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def reload(self) -> None:
        """Make it read its files again; connections stay."""
        assert self._process is not None
        before = len(self.log)
        self._process.send_signal(signal.SIGHUP)
        assert "Reloading config." in self.wait_for_log("Reloading config.", before)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _surroundings(self) -> str:
        """What depends on this machine. Started by root, it would give up the right to read the test's folder."""
        lines = ["log_dest stderr\nlog_type all\n"]
        text = self.configuration(self.port)
        if "persistence true" not in text:
            lines.append("persistence true\n")
        if "persistence_location" not in text:
            lines.append(f"persistence_location {self.folder}/\n")
        if os.geteuid() == 0:
            lines.append("user root\n")
        return "".join(lines)

    def _wait_until_open(self, deadline: float) -> None:
        assert self._process is not None
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self._process = None
                pytest.fail(f"mosquitto ended at once:\n{self.log}")
            try:
                socket.create_connection((self.host, self.port), timeout=1).close()
            except OSError:
                time.sleep(0.01)
            else:
                return
        self.kill()
        pytest.fail(f"mosquitto did not open its port:\n{self.log}")

    def _end(self, how: str) -> None:
        if self._process is not None:
            getattr(self._process, how)()
            self._process.wait(timeout=30)
            self._process = None


def secured(
    certificates: Path, federation: str, clients: tuple[str, ...] | None = None, **choices: Any
) -> Configuration:
    """The configuration that `ofediq certs broker-config` writes; `certificates` holds a certificate of `broker`."""

    def configuration(port: int) -> str:
        home = certificates / "broker"
        settings = BrokerSettings(federation, clients, PurePosixPath(home), port=port, bind=HOST, **choices)
        write_settings(home, settings)
        return settings.configuration()

    return configuration


def context_of(folder: Path) -> ssl.SSLContext:
    """The TLS settings of whoever has the certificate in `folder`."""
    ca, certificate, key = (str(folder / name) for name in ("authority.pem", "certificate.pem", "key.pem"))
    context = Broker(f"mqtts://{HOST}", ca=ca, certificate=certificate, key=key).tls()
    assert context is not None
    return context
