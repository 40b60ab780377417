"""Our MQTT client against mosquitto, against another client, and against brokers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import aiomqtt
import pytest

from ofediq.federation.network.broker import Broker
from ofediq.federation.network.link import LinkDown, connect
from ofediq.federation.network.mqtt import MqttError, greeting, join, packet, publication
from ofediq.federation.protocol.messages import Publish
from tests.federation.mosquitto import HOST, Mosquitto, needs_mosquitto

AGREED = b"\x20\x02\0\0"  # CONNACK, section 3.2 of the standard


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as one:
        yield Broker(one.address, insecure=True, keepalive=1)


def test_the_packet_of_the_standard_is_made() -> None:
    # Section 3.1 of MQTT 3.1.1: name, level 4, flags (user, password, will kept and confirmed, clean), keep alive,
    # then identifier, topic and message of the will, user, password.
    will = Publish("f/here/a", b"gone", retain=True)
    made = greeting("a", 10, {"username": "u", "password": "pw"}, will)
    head = b"\0\4MQTT\4" + bytes([0b1110_1110]) + b"\0\x0a"
    body = head + b"\0\1a" + b"\0\x08f/here/a" + b"\0\4gone" + b"\0\1u" + b"\0\2pw"
    assert made == bytes([0x10, len(body)]) + body


@pytest.mark.parametrize(
    ("size", "length"), [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (2_097_152, 4)]
)
def test_lengths_are_those_of_the_standard(size: int, length: int) -> None:
    # Table 2.4: how many bytes the length of a packet takes.
    data = publication(Publish("", b"x" * (size - 2), acknowledged=False), 0) if size >= 2 else b"\xd0\0"
    expected = (1 + length, 1 + length + size) if size >= 2 else (2, 2)
    with memoryview(data) as view:
        assert packet(view, 0) == expected
        assert packet(view[:-1], 0) is None


@needs_mosquitto
@pytest.mark.parametrize("acknowledged", [True, False])
def test_messages_of_all_sizes_arrive_in_their_order(mosquitto: Broker, acknowledged: bool) -> None:
    payloads = [bytes([size % 251]) * size for size in (0, 1, 127, 128, 5_000, 300_000, 3_000_000, 2)]

    async def talk() -> list[bytes]:
        async with connect(mosquitto, "ear", ["t/#"]) as ear, connect(mosquitto, "mouth", []) as mouth:
            for payload in payloads:
                await mouth.publish(Publish("t/x", payload, acknowledged=acknowledged))
            return [(await ear.receive(10) or ("", b"nothing"))[1] for _ in payloads]

    assert asyncio.run(talk()) == payloads


@needs_mosquitto
def test_thousands_of_messages_at_once_all_arrive(mosquitto: Broker) -> None:
    async def talk() -> set[bytes]:
        async with connect(mosquitto, "ear", ["many/+"]) as ear, connect(mosquitto, "mouth", []) as mouth:
            said = [mouth.publish(Publish(f"many/{k}", b"%d" % k)) for k in range(900)]
            await asyncio.gather(*said)  # in parallel: each waits for its own number
            return {(await ear.receive(10) or ("", b""))[1] for _ in said}

    assert asyncio.run(talk()) == {b"%d" % k for k in range(900)}


@needs_mosquitto
def test_another_client_understands_ours_and_ours_it(mosquitto: Broker) -> None:
    async def talk() -> tuple[object, tuple[str, bytes] | None]:
        async with (
            aiomqtt.Client(mosquitto.host, mosquitto.port) as other,
            connect(mosquitto, "ours", ["to/ours"], Publish("last/ours", b"gone")) as ours,
        ):
            await other.subscribe("to/other", qos=1)
            await ours.publish(Publish("to/other", "größer".encode(), retain=True))
            await other.publish("to/ours", b"back", qos=1)
            return (await anext(other.messages)).payload, await ours.receive(10)

    assert asyncio.run(talk()) == ("größer".encode(), ("to/ours", b"back"))


@needs_mosquitto
def test_whoever_vanishes_has_a_last_will_and_whoever_leaves_has_none(mosquitto: Broker) -> None:
    async def talk() -> list[tuple[str, bytes] | None]:
        async with connect(mosquitto, "ear", ["last/+"]) as ear:
            vanishing = await join(mosquitto, "b", Publish("last/b", b"gone"))
            vanishing.transport.abort()
            leaving = await join(mosquitto, "c", Publish("last/c", b"gone"))
            await leaving.leave()
            return [await ear.receive(5), await ear.receive(0.3)]

    assert asyncio.run(talk()) == [("last/b", b"gone"), None]


@needs_mosquitto
def test_a_connection_without_traffic_lives_on(mosquitto: Broker) -> None:
    async def wait() -> tuple[str, bytes] | None:
        # The broker cuts off whoever says nothing for one and a half times `keepalive`, one second here.
        async with connect(mosquitto, "quiet", ["t/quiet"]) as quiet:
            await asyncio.sleep(2.5)
            await quiet.publish(Publish("t/quiet", b"still here"))
            return await quiet.receive(5)

    assert asyncio.run(wait()) == ("t/quiet", b"still here")


@contextlib.asynccontextmanager
async def broker_that(
    does: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[Broker]:
    """One that agrees to every connection and then does as it likes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.read(100)
            writer.write(AGREED)
            await does(reader, writer)

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield Broker(f"mqtt://{HOST}:{port}", insecure=True, keepalive=1)


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


def test_a_broker_that_is_dead_is_noticed() -> None:
    async def wait() -> float:
        async with broker_that(says_nothing) as dead, connect(dead, "a", []) as link:
            start = time.monotonic()
            with pytest.raises(LinkDown):
                await link.receive(20)
            with pytest.raises(LinkDown, match="silent for 2 seconds"):
                await link.publish(Publish("t", b""))
            return time.monotonic() - start

    assert 1.9 < asyncio.run(wait()) < 10


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x30\xff\xff\xff\xff\x01",  # a length of five bytes
        b"\x30\x02\x00\x09",  # a topic longer than its packet
        b"\x30\x01\x00",  # a topic without a length
        b"\x32\x04\x00\x02ab",  # to be confirmed, without a number
        b"\x34\x06\x00\x02ab\0\1",  # QoS 2, which nobody asked for
        b"\x40\x01\x00",  # an answer without a number
    ],
)
def test_a_broker_that_talks_nonsense_is_left(nonsense: bytes) -> None:
    async def says_it(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(nonsense)
        await reader.read()

    async def wait() -> None:
        async with broker_that(says_it) as broker, connect(broker, "a", []) as link:
            with pytest.raises(LinkDown):
                await link.receive(20)
            with pytest.raises(LinkDown, match="the broker sent"):
                await link.publish(Publish("t", b""))

    asyncio.run(wait())


def test_nonsense_that_comes_with_the_time_to_ask_ends_the_connection_once() -> None:
    """The loop was busy: nonsense and the timer of the keepalive are both due. Nobody is asked then."""
    failures: list[object] = []

    async def wait() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        writers: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            await says_nothing(reader, writer)

        async with broker_that(serve) as broker, connect(broker, "a", []) as link:
            writers[0].write(b"\x30\x02\x00\x09")  # sent at once
            time.sleep(1.2)  # longer than the keepalive
            with pytest.raises(LinkDown):
                await link.receive(20)

    asyncio.run(wait())
    assert failures == []


def test_whoever_waits_for_an_answer_hears_of_the_end() -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)

    async def wait() -> None:
        async with broker_that(hangs_up) as broker:
            one = await join(broker, "a")
            with pytest.raises(MqttError, match="closed the connection"):
                await asyncio.gather(one.publish(Publish("t", b"")), one.publish(Publish("t", b"")))
            await one.leave()

    asyncio.run(wait())


def test_a_refused_subscription_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read(100)
        writer.write(b"\x90\x04" + asked[2:4] + b"\x01\x80")  # SUBACK, section 3.9: one topic is granted
        await reader.read()

    async def ask() -> None:
        async with broker_that(refuses) as broker, connect(broker, "a", ["open/x", "closed/x"]):
            pass

    asyncio.run(ask())
    assert caplog.messages == ["the broker refuses the subscription to closed/x"]
