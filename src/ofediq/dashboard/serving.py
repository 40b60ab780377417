"""`serve_page`: a web server inside the caller's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette

from ofediq.errors import InputError, require_integer
from ofediq.federation.network.hosts import is_loopback

READERS = 100
"""Connections at the same time; more get an answer that says so (503), and the rounds go on."""

PATIENCE = 10.0
"""Seconds after which a connection that has not ended its request is closed."""

_TICKS = 10  # of uvicorn, in a second
_GRACE = 1.0  # seconds that open requests get at the end; event streams end by themselves
_LAST_RESORT = 5  # seconds after which uvicorn gives up waiting
_WILDCARDS = ("0.0.0.0", "::")


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which belong to the federation's server, and with an end that is one.

    It closes connections whose requests do not end: uvicorn itself waits for them for ever, and READERS of them that
    send a byte now and then would keep everyone else out.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._unfinished: dict[Any, tuple[Any, float]] = {}  # by connection: after which answer, since when

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections once a second."""
        if counter % _TICKS == 0:
            self._leave_slow()
        return await super().on_tick(counter)

    def _leave_slow(self) -> None:
        now, before, self._unfinished = time.monotonic(), self._unfinished, {}
        for one in list(self.server_state.connections):
            answer = getattr(one, "cycle", None)
            if answer is not None and not answer.response_complete:
                continue  # one who reads
            known, since = before.get(one, (answer, now))
            self._unfinished[one] = answer, since if known is answer else now
            if known is answer and now - since > PATIENCE:
                one.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Hang up on readers who do not read."""
        late = asyncio.get_running_loop().call_later(_GRACE, self._hang_up)
        try:
            await super().shutdown(sockets)
        finally:
            late.cancel()

    def _hang_up(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


@contextlib.asynccontextmanager
async def serve_page(app: Starlette, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve an application made by `page` until the block ends; gives its address, as http://127.0.0.1:8080/.

    Args:
        app: the application.
        host: where to listen. Without a token only loopback is allowed.
        port: 0 for any free one.

    >>> from ofediq.dashboard import page
    >>> from ofediq.federation.protocol.monitor import Monitor
    >>> async def tour() -> str:
    ...     async with serve_page(page(Monitor("greenhouse", "classification", {}))) as address:
    ...         return address
    >>> asyncio.run(tour())
    'http://127.0.0.1:...'
    """
    listener = _listen(host, require_integer("port", port, 0, 65535), bool(app.state.has_token))
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,  # addresses may hold the token
        lifespan="off",
        http="h11",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=_LAST_RESORT,
        limit_concurrency=READERS,
    )
    app.state.closing.clear()
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:
            if running.done():
                running.result()
            await asyncio.sleep(0.01)
        yield _address(listener)
    finally:
        app.state.closing.set()  # open event streams end now
        server.should_exit = True
        await running
        listener.close()


def _listen(host: str, port: int, has_token: bool) -> socket.socket:
    """A listening socket, or one sentence that says why not."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise InputError(f"`host` must be a name or address of this machine, got {host!r}") from None
    family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    if not (has_token or is_loopback(str(address[0]))):
        raise InputError(f"`host` must be a loopback address when the page has no token, got {host!r}")
    try:
        return socket.create_server(address, family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"`port` must be free, got {port}, which another program uses on {host}"
            ) from None
        raise InputError(
            f"`host` and `port` must be free for this user to listen on, got {host!r} and {port} ({error.strerror})"
        ) from None


def _address(listener: socket.socket) -> str:
    """Where a browser on this machine finds the page."""
    host, port = listener.getsockname()[:2]
    if host in _WILDCARDS:
        host = "127.0.0.1" if listener.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
