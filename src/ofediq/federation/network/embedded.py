"""The embedded broker, for a tour and for tests: amqtt inside our own event loop, on loopback only."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

from ofediq.errors import extra
from ofediq.federation.network.broker import Broker, BrokerError

HOST = "127.0.0.1"
_POLITE = 1.0  # seconds in which connections may end by themselves
_PLUGINS = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}


@contextlib.asynccontextmanager
async def embedded(port: int | None = None) -> AsyncIterator[Broker]:
    """Run a broker on loopback and give its address; a free port is found if none is given.

    It asks nobody who they are, which is why it listens to this machine alone. Use mosquitto, or a cluster, for
    anything else.
    """
    module = extra("amqtt.broker", "server")
    logging.getLogger("amqtt").setLevel(logging.ERROR)
    logging.getLogger("transitions").setLevel(logging.ERROR)

    opened: set[asyncio.StreamWriter] = set()

    class Closing(module.Broker):  # type: ignore[name-defined, misc]  # a module that may be missing
        """amqtt leaves a connection open that ends, or is ended, before it has said who it is."""

        async def stream_connected(
            self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener_name: str
        ) -> None:
            opened.add(writer)
            with contextlib.suppress(asyncio.CancelledError), contextlib.closing(writer):
                await super().stream_connected(reader, writer, listener_name)
            opened.discard(writer)

    loop = asyncio.get_running_loop()
    if loop.get_exception_handler() is None:
        loop.set_exception_handler(_without_noise)
    port = free_port() if port is None else port
    broker = Closing(
        {"listeners": {"default": {"type": "tcp", "bind": f"{HOST}:{port}"}}, "plugins": _PLUGINS}
    )
    try:
        await broker.start()
    except module.BrokerError as error:
        raise BrokerError(f"cannot start the embedded broker on port {port}: {error}") from None
    try:
        yield Broker(f"mqtt://{HOST}:{port}", insecure=True)
    finally:
        ending = asyncio.ensure_future(broker.shutdown())
        await asyncio.wait([ending], timeout=_POLITE)
        for writer in list(opened):  # from Python 3.12 on the end waits for them, and some say nothing
            writer.close()
        await ending


def _without_noise(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """As the loop's own handler, but for what the broker lets slip when many connect at once: they try again."""
    error, text = context.get("exception"), str(context.get("message", ""))
    if not (isinstance(error, RuntimeError) and "client_connected_cb" in text):
        loop.default_exception_handler(context)


def free_port() -> int:
    """A port on loopback that is free now, below those that the system gives to outgoing connections."""
    for port in range(18830, 32768):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            return port
    raise BrokerError("no free port on loopback for the embedded broker")
