"""What a lost or refused connection means: try again, or give up."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofediq.federation.network import link
from ofediq.federation.network.broker import Broker, BrokerError
from ofediq.federation.network.embedded import embedded
from ofediq.federation.network.link import LinkDown, _is_final, connect
from ofediq.federation.network.mqtt import REASONS, MqttError, MqttRefusedError
from ofediq.federation.network.session import Session
from ofediq.federation.protocol.learner import Learner
from tests.federation.mosquitto import HOST, Mosquitto


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


def refused(reason: str) -> MqttRefusedError:
    return MqttRefusedError(next(code for code, text in REASONS.items() if text == reason))


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol (_ssl.c:2427)"), False),
        (ConnectionRefusedError("Connection refused"), False),
        (ConnectionResetError("alert: certificate ssl"), False),  # words are not what counts
        (MqttError("Operation timed out"), False),
        (refused("Server unavailable"), False),
        (MqttRefusedError(99), False),  # no code of the standard
        (ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required"), True),
        (ssl.SSLCertVerificationError(1, "certificate is not valid for 'geofence.example'"), True),
        (refused("Not authorized"), True),
        (refused("Bad user name or password"), True),
        (refused("Client identifier not valid"), True),
        (refused("Unsupported protocol version"), True),
    ],
)
def test_only_a_refusal_is_final(error: Exception, final: bool) -> None:
    assert _is_final(error) is final


def test_a_broker_that_wants_a_password_is_not_asked_again(tmp_path: Path) -> None:
    async def try_it(address: str) -> None:
        async with connect(Broker(address, insecure=True), "vault.c0", []):
            pass

    (tmp_path / "nobody").write_text("")
    with (
        Mosquitto(
            tmp_path / "mosquitto",
            lambda port: (
                f"listener {port} {HOST}\nallow_anonymous false\npassword_file {tmp_path / 'nobody'}\n"
            ),
        ) as broker,
        pytest.raises(BrokerError, match=r"refuses 'vault\.c0': Not authorized$"),
    ):
        asyncio.run(try_it(broker.address))


def test_a_client_that_reached_its_broker_once_waits_for_it_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed socket behind TLS tells of no bytes, and neither do other systems than Linux."""
    monkeypatch.setattr(link, "_socket_bytes", lambda connection: (0, 0))

    async def scene() -> None:
        async with embedded() as broker:
            session = Session(Learner("f", "c0"), broker, list, patience=0.3)
            life = asyncio.create_task(session.run())
            while not session.connected:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)
        await asyncio.sleep(0.5)
        assert not life.done()
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scene(), 60))
