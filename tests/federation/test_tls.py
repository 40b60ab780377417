"""Who gets a connection to a real mosquitto with the generated configuration, and who does not."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ofediq.federation.security.certificates import issue, make_authority, renew
from tests.federation.mosquitto import HOST, Mosquitto, context_of, needs_mosquitto, secured

# MQTT 3.1.1: CONNECT with client id "id", alone and with user pi-1 and a password; CONNACK with code 0.
CONNECT = b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x3c\x00\x02id"
AS_PI_1 = b"\x10\x18\x00\x04MQTT\x04\xc2\x00\x3c\x00\x02id\x00\x04pi-1\x00\x02pw"
ACCEPTED = b"\x20\x02\x00\x00"
LONG_AGO = datetime.now(UTC) - timedelta(days=400)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    make_authority(folder)
    issue(folder, "broker", "broker", hosts=[HOST])
    issue(folder, "pi-1")
    return folder


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another authority of the same name, with a client of the same name."""
    folder = tmp_path_factory.mktemp("strangers")
    make_authority(folder)
    issue(folder, "pi-1")
    return folder


@pytest.fixture(scope="module")
def broker(certs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("broker"), secured(certs, "f"), secure=True) as running:
        yield running


def connect(broker: Mosquitto, context: ssl.SSLContext, host: str = HOST, hello: bytes = CONNECT) -> bytes:
    """The broker's answer to an MQTT connection; empty if it hangs up."""
    with (
        socket.create_connection((HOST, broker.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=host) as encrypted,
    ):
        encrypted.sendall(hello)
        return encrypted.recv(4)


def refusal(broker: Mosquitto, context: ssl.SSLContext, hello: bytes = CONNECT) -> str:
    """What the broker logs when it hangs up; the client may only see a broken connection."""
    before = len(broker.log)
    with pytest.raises(OSError):  # noqa: PT011  # an alert or a reset, whichever comes first
        connect(broker, context, hello=hello)
    return broker.wait_for_log("SSL routines", before)


def trusting(folder: Path) -> ssl.SSLContext:
    """Knows the authority, and has nothing to show."""
    return ssl.create_default_context(cafile=folder / "authority.pem")


@needs_mosquitto
def test_a_certificate_opens_the_door(broker: Mosquitto, certs: Path) -> None:
    assert connect(broker, context_of(certs / "pi-1")) == ACCEPTED


@needs_mosquitto
@pytest.mark.parametrize("hello", [CONNECT, AS_PI_1], ids=["nameless", "as pi-1"])
def test_no_certificate(broker: Mosquitto, certs: Path, hello: bytes) -> None:
    assert "peer did not return a certificate" in refusal(broker, trusting(certs / "pi-1"), hello)


@needs_mosquitto
def test_no_encryption(broker: Mosquitto) -> None:
    with socket.create_connection((HOST, broker.port), timeout=30) as plain:
        plain.sendall(CONNECT)
        with suppress(ConnectionError):
            assert plain.recv(4) != ACCEPTED


@needs_mosquitto
def test_a_certificate_of_another_authority(broker: Mosquitto, certs: Path, strangers: Path) -> None:
    context = trusting(certs / "pi-1")
    context.load_cert_chain(strangers / "pi-1" / "certificate.pem", strangers / "pi-1" / "key.pem")
    assert "certificate verify failed" in refusal(broker, context)


@needs_mosquitto
def test_an_expired_certificate_until_it_is_renewed(broker: Mosquitto, certs: Path) -> None:
    issue(certs, "old", days=365, now=LONG_AGO)
    assert "certificate verify failed" in refusal(broker, context_of(certs / "old"))
    renew(certs, "old")
    assert connect(broker, context_of(certs / "old")) == ACCEPTED


@needs_mosquitto
def test_the_brokers_certificate_does_not_connect(broker: Mosquitto, certs: Path) -> None:
    assert "certificate verify failed" in refusal(broker, context_of(certs / "broker"))


@needs_mosquitto
def test_a_broker_of_another_authority(broker: Mosquitto, strangers: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(broker, context_of(strangers / "pi-1"))


@needs_mosquitto
def test_a_broker_under_another_host_name(broker: Mosquitto, certs: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        connect(broker, context_of(certs / "pi-1"), host="localhost")


def shake_hands(client: ssl.SSLContext, listener: ssl.SSLContext, host: str) -> None:
    """A whole handshake in memory."""
    to_listener, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_listener, server_hostname=host),
        listener.wrap_bio(to_listener, to_client, server_side=True),
    ]
    while sides:
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)


def listening(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


def test_a_client_cannot_pose_as_the_broker(certs: Path) -> None:
    shake_hands(context_of(certs / "pi-1"), listening(certs / "broker"), HOST)
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        shake_hands(context_of(certs / "pi-1"), listening(certs / "pi-1"), HOST)


def test_an_expired_broker(certs: Path) -> None:
    issue(certs, "old-broker", "broker", hosts=[HOST], now=LONG_AGO)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        shake_hands(context_of(certs / "pi-1"), listening(certs / "old-broker"), HOST)


def test_host_names_and_addresses_in_one_certificate(certs: Path) -> None:
    issue(certs, "many", "broker", hosts=["broker.example", "localhost", "10.0.0.7", "::1"])
    for host in ("broker.example", "localhost", "10.0.0.7", "::1"):
        shake_hands(context_of(certs / "pi-1"), listening(certs / "many"), host)
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        shake_hands(context_of(certs / "pi-1"), listening(certs / "many"), "10.0.0.8")
