"""What a lost or refused connection means: try again, or give up."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from ofediq.federation.link import Broker, LinkDown, connect
from tests.federation.mosquitto import HOST


@pytest.fixture(params=[1, 4096], ids=["reset", "end"])
def hangs_up(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a broker that ends every connection in its handshake, as one that restarts.

    What was sent and not read makes the system reset the connection; otherwise it just ends.
    """
    with socket.create_server((HOST, 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(request.param)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_a_broker_that_hangs_up_is_tried_again(hangs_up: int) -> None:
    async def try_it() -> None:
        async with connect(Broker(f"mqtts://{HOST}:{hangs_up}"), "vault.c0", []):
            pass

    with pytest.raises(LinkDown):
        asyncio.run(try_it())
