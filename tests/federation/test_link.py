"""What a lost or refused connection means: try again, or give up."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from ofediq.federation.network.link import Broker, LinkDown, _is_final, connect
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


@pytest.mark.parametrize(
    ("reason", "final"),
    [
        ("EOF occurred in violation of protocol (_ssl.c:2427)", False),
        ("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol (_ssl.c:1006)", False),
        ("unexpected eof while reading", False),
        ("Connection refused", False),
        ("tlsv13 alert certificate required", True),
        ("certificate is not valid for 'geofence.example'", True),
        ("[code:5] The connection was refused. Not authorised", True),
    ],
)
def test_only_a_refusal_is_final(reason: str, final: bool) -> None:
    assert _is_final(reason) is final
