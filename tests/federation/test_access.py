"""What a real mosquitto does with the configuration that `ofediq certs` writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import aiomqtt
import pytest

from ofediq.errors import InputError
from ofediq.federation.security.access import BrokerSettings, write_settings
from ofediq.federation.security.certificates import issue, make_authority
from tests.federation.mosquitto import HOST, Mosquitto, context_of, needs_mosquitto, secured

PLAIN = BrokerSettings("f", ("pi-1", "pi-2"), PurePosixPath("/etc/mosquitto/ofediq"))


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a broker at the loopback address, the server and three clients."""
    folder = tmp_path_factory.mktemp("certs")
    make_authority(folder)
    issue(folder, "broker", "broker", hosts=[HOST])
    issue(folder, "server", "server")
    for name in ("pi-1", "pi-2", "lost"):
        issue(folder, name)
    return folder


@pytest.fixture(scope="module", params=["listed", "everyone"])
def broker(
    request: pytest.FixtureRequest, certs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mosquitto]:
    clients = ("pi-1", "pi-2") if request.param == "listed" else None
    folder = tmp_path_factory.mktemp("broker")
    with Mosquitto(folder, secured(certs, "f", clients, message_bytes=2048), secure=True) as running:
        yield running


@pytest.fixture(scope="module")
def listing(certs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    """The broker that knows pi-1 and pi-2 only."""
    with Mosquitto(tmp_path_factory.mktemp("listing"), secured(certs, "f", ("pi-1", "pi-2"))) as running:
        yield running


def connection(broker: Mosquitto, folder: Path, **choices: Any) -> aiomqtt.Client:
    return aiomqtt.Client(broker.host, broker.port, tls_context=context_of(folder), timeout=5, **choices)


async def next_message(client: aiomqtt.Client) -> tuple[str, bytes]:
    async with asyncio.timeout(30):
        message = await anext(client.messages)
    assert isinstance(message.payload, bytes)
    return message.topic.value, message.payload


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    asyncio.run(main())


@needs_mosquitto
def test_everyone_reaches_what_is_theirs(broker: Mosquitto, certs: Path) -> None:
    async def body() -> None:
        async with (
            connection(broker, certs / "server") as server,
            connection(broker, certs / "pi-1") as client,
        ):
            for topic in ("f/u/+", "f/here/+"):
                await server.subscribe(topic, qos=1)
            for topic in ("f/task", "f/model", "f/welcome/pi-1"):
                await client.subscribe(topic, qos=1)
                await server.publish(topic, "to a client", qos=1)
                assert await next_message(client) == (topic, b"to a client")
            for topic in ("f/u/pi-1", "f/here/pi-1"):
                await client.publish(topic, "to the server", qos=1)
                assert await next_message(server) == (topic, b"to the server")

    run(body)


# Messages of one connection arrive in their order: what comes before the last one and is not seen, was dropped.
@needs_mosquitto
@pytest.mark.parametrize(
    "topic", ["f/u/pi-2", "f/here/pi-2", "f/task", "f/model", "f/welcome/pi-1", "g/u/pi-1"]
)
def test_writing_elsewhere_is_dropped(broker: Mosquitto, certs: Path, topic: str) -> None:
    async def body() -> None:
        server, other = connection(broker, certs / "server"), connection(broker, certs / "pi-2")
        async with server, other, connection(broker, certs / "pi-1") as client:
            await server.subscribe("#", qos=1)
            await other.subscribe("#", qos=1)
            await client.publish(topic, "forged", qos=1, retain=True)
            await client.publish("f/u/pi-1", "own", qos=1)
            assert await next_message(server) == ("f/u/pi-1", b"own")
            await server.publish("f/welcome/pi-2", "real", qos=1)
            assert await next_message(other) == ("f/welcome/pi-2", b"real")

    run(body)


@needs_mosquitto
def test_reading_elsewhere_gives_nothing(broker: Mosquitto, certs: Path) -> None:
    async def body() -> None:
        server, other = connection(broker, certs / "server"), connection(broker, certs / "pi-2")
        async with server, other, connection(broker, certs / "pi-1") as spy:
            for topic in ("#", "f/u/+", "f/u/pi-2", "f/welcome/+", "$SYS/#"):
                await spy.subscribe(topic, qos=1)
            await other.publish("f/u/pi-2", "private", qos=1)
            await other.publish("f/here/pi-2", "private", qos=1)
            await server.publish("f/welcome/pi-2", "private", qos=1)
            await server.publish("f/welcome/pi-1", "for the spy", qos=1)
            assert await next_message(spy) == ("f/welcome/pi-1", b"for the spy")

    run(body)


@needs_mosquitto
def test_a_last_will_under_anothers_name_is_dropped(broker: Mosquitto, certs: Path) -> None:
    async def pushed_out(topic: str) -> None:
        """A second connection with the same certificate ends the first, and sets off its will."""
        will = aiomqtt.Will(topic, "gone", qos=1)
        with suppress(aiomqtt.MqttError):
            async with (
                connection(broker, certs / "pi-1", will=will) as first,
                connection(broker, certs / "pi-1"),
            ):
                await next_message(first)

    async def body() -> None:
        async with connection(broker, certs / "server") as server:
            await server.subscribe("f/here/+", qos=1)
            await pushed_out("f/here/pi-2")
            await pushed_out("f/here/pi-1")
            assert await next_message(server) == ("f/here/pi-1", b"gone")

    run(body)


@needs_mosquitto
def test_nobody_is_pushed_out_by_a_stolen_client_id(broker: Mosquitto, certs: Path) -> None:
    async def body() -> None:
        victim = connection(broker, certs / "pi-1", identifier="pi-1")
        thief = connection(broker, certs / "pi-2", identifier="pi-1")
        async with connection(broker, certs / "server") as server, victim, thief:
            await server.subscribe("f/u/+", qos=1)
            await victim.publish("f/u/pi-1", "still here", qos=1)
            assert await next_message(server) == ("f/u/pi-1", b"still here")

    run(body)


@needs_mosquitto
def test_who_is_not_on_the_list_is_alone(listing: Mosquitto, certs: Path) -> None:
    async def body() -> None:
        server, client = connection(listing, certs / "server"), connection(listing, certs / "pi-1")
        async with server, client, connection(listing, certs / "lost") as lost:
            await server.subscribe("#", qos=1)
            await lost.subscribe("#", qos=1)
            await lost.publish("f/u/lost", "let me in", qos=1)
            await server.publish("f/model", "a secret", qos=1)
            await client.publish("f/u/pi-1", "own", qos=1)
            assert await next_message(server) == ("f/u/pi-1", b"own")
            await lost.subscribe("f/task", qos=1)  # its answer comes after everything sent before
            assert len(lost.messages) == 0

    run(body)


@needs_mosquitto
def test_a_lost_device_is_shut_out_while_it_is_connected(certs: Path, tmp_path: Path) -> None:
    own = Mosquitto(tmp_path, secured(certs, "f", ("pi-1", "lost")))

    async def body() -> None:
        server, client = connection(own, certs / "server"), connection(own, certs / "pi-1")
        async with server, client, connection(own, certs / "lost") as lost:
            await server.subscribe("f/u/+", qos=1)
            await lost.publish("f/u/lost", "as always", qos=1)
            assert await next_message(server) == ("f/u/lost", b"as always")
            secured(certs, "f", ("pi-1",))(own.port)
            own.reload()
            await lost.publish("f/u/lost", "too late", qos=1)
            await client.publish("f/u/pi-1", "still in", qos=1)
            assert await next_message(server) == ("f/u/pi-1", b"still in")

    with own:
        run(body)


@needs_mosquitto
def test_the_model_survives_a_restart(certs: Path, tmp_path: Path) -> None:
    """With a folder of its own for storage, as without Debian's configuration around it."""
    storage = PurePosixPath(tmp_path / "storage")
    Path(storage).mkdir()
    own = Mosquitto(tmp_path, secured(certs, "f", storage=storage))

    async def publish() -> None:
        async with connection(own, certs / "server") as server:
            await server.publish("f/model", "w", qos=1, retain=True)

    async def receive() -> None:
        async with connection(own, certs / "pi-1") as client:
            await client.subscribe("f/model", qos=1)
            assert await next_message(client) == ("f/model", b"w")

    with own:
        run(publish)
        own.restart()
        run(receive)
    assert (Path(storage) / "mosquitto.db").exists()


def test_the_lists_name_everyone_once() -> None:
    listed, everyone = PLAIN.access(), replace(PLAIN, clients=None).access()
    assert [line for line in listed.splitlines() if line.startswith("user")] == [
        "user server",
        "user pi-1",
        "user pi-2",
    ]
    assert "pattern" not in listed
    assert "pi-1" not in everyone


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"federation": "a/b"}, "`federation` must have 1 to 64"),
        ({"clients": ("pi-1", "+")}, "`clients` must have 1 to 64"),
        ({"clients": ("server",)}, "`clients` must not have the server's name, got 'server'"),
        ({"server": "x\ntopic #"}, "`server` must have 1 to 64"),
        ({"port": 0}, "`port` must be an integer from 1 to 65535, got 0"),
        ({"bind": "::\nallow_anonymous true"}, "`bind` must be one line"),
        ({"folder": PurePosixPath("/etc/\nx")}, "`folder` must be one line"),
        ({"message_bytes": 0}, "`message_bytes` must be an integer from 1024 to 268435455, got 0"),
    ],
)
def test_wrong_choices_are_one_sentence(choices: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(PLAIN, **choices)
    assert str(caught.value).startswith(sentence)


def test_the_configuration_goes_beside_the_certificate(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`ofediq certs broker` makes one"):
        write_settings(tmp_path, PLAIN)
    make_authority(tmp_path)
    issue(tmp_path, "broker", "broker", hosts=["localhost"])
    configuration, access = write_settings(tmp_path / "broker", PLAIN)
    assert configuration.read_text() == PLAIN.configuration()
    assert access.read_text() == PLAIN.access()
    issue(tmp_path, "broker", "broker", hosts=["localhost"], force=True)
    assert access.read_text() == PLAIN.access()  # a new key leaves it alone
