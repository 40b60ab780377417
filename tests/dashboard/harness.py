"""A page that really runs: a monitor, its event loop in a thread, and a web server on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from ofediq.dashboard import page, serve_page
from ofediq.federation.protocol.monitor import Monitor, Round

T = TypeVar("T")
DIM = 650


def monitor(clients: int = 20, **parameters: Any) -> Monitor:
    """A federation with all its clients present and no round yet."""
    chosen = {"method": "OFedIQ", "dim": DIM, "rate": 0.1, "levels": 3, "blocks": 10, **parameters}
    one = Monitor("greenhouse", "classification", chosen, round_limit=1000)
    one.state = "running"
    for number in range(clients):
        row = one.client(f"c{number}", number)
        row.present, row.last_seen = True, one.started
    return one


def a_round(step: int, **changes: Any) -> Round:
    """Two of twenty clients sent 2,000 bits each, and reported ten predictions of which four were wrong."""
    plain: dict[str, Any] = {
        "step": step,
        "seconds": 0.005,
        "clients": 20,
        "present": 20,
        "expected": 2,
        "senders": 2,
        "counted": 2,
        "bits_wire": 4000.0,
        "bits_formula": 4300.0,
        "bits_fedogd": 32.0 * DIM * 20,
        "bits_downlink": 32.0 * DIM,
        "samples": 10,
        "error": 4.0,
        "naive": 5.0,
    }
    return Round(**(plain | changes))


def drifting(one: Monitor, first: int = 1) -> int:
    """Two hundred rounds in the middle of which errors double; returns the step of the alarm."""
    for step in range(first, first + 200):
        one.record(a_round(step, error=3.0 + step % 3 + 4.0 * (step >= first + 100)))
    (alarm,) = one.drift
    return alarm


class Answer(NamedTuple):
    """What a server said."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class _Stay(urllib.request.HTTPRedirectHandler):
    """Redirections are answers too."""

    def redirect_request(self, *_: Any) -> None:
        return None


_ask = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay()).open


class Page:
    """A page that is being served, from a thread of its own.

    Everything that touches the monitor goes through `call`, into the thread that serves.
    """

    def __init__(
        self, one: Monitor, port: int = 0, host: str = "127.0.0.1", token: str | None = None
    ) -> None:
        self.monitor = one
        self._where = host, port
        self._token = token
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stack = AsyncExitStack()
        self.address = ""

    def __enter__(self) -> Page:
        self._thread.start()
        try:
            self.address = self._wait(self._open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._wait(self._stack.aclose())
        finally:
            self._end()

    def call(self, work: Callable[[Monitor], T]) -> T:
        """Do something with the monitor where it lives."""

        async def in_loop() -> T:
            return work(self.monitor)

        done: T = self._wait(in_loop())
        return done

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        request = urllib.request.Request(self.address + path, method=method, headers=headers)
        try:
            with _ask(request, timeout=10) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    async def _open(self) -> str:
        app = page(self.monitor, token=self._token)
        return await self._stack.enter_async_context(serve_page(app, *self._where))

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
