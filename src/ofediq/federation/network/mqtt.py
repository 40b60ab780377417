"""MQTT 3.1.1, as much of it as a federation needs: one connection, a last will, messages sent once or confirmed.

Whoever serves thousands reads tens of thousands of messages in a minute. Here one costs a few microseconds, since all
that has arrived is taken apart at once and confirmed at once; nobody is woken for a single message.

Words of the standard: "confirmed" is QoS 1, "number" is the packet identifier.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ofediq.federation.network.broker import Broker
from ofediq.federation.protocol.messages import Publish

log = logging.getLogger("ofediq.federation")

CONNECT, CONNACK, PUBLISH, PUBACK = 0x10, 0x20, 0x30, 0x40
SUBSCRIBE, SUBACK, PING, DISCONNECT = 0x82, 0x90, 0xC0, 0xE0
CONFIRMED, RETAIN = 0x02, 0x01  # flags of PUBLISH
CLEAN, WILL, WILL_CONFIRMED, WILL_RETAIN, PASSWORD, USER = 0x02, 0x04, 0x08, 0x20, 0x40, 0x80  # of CONNECT
REFUSED = 0x80  # what SUBACK says of a topic

REASONS = {
    1: "Unsupported protocol version",
    2: "Client identifier not valid",
    3: "Server unavailable",
    4: "Bad user name or password",
    5: "Not authorized",
}
"""What the broker's answer to a connection means."""

TO_CONNECT, TO_CONFIRM, TO_CLOSE = 10.0, 30.0, 2.0
"""Seconds that the broker has for its answers."""

IN_FLIGHT = 1000
"""Messages that wait for the broker's confirmation, at most; the standard has numbers for 65,535."""


class MqttError(Exception):
    """The connection is lost, or the broker does not keep to the standard."""


class MqttRefusedError(MqttError):
    """The broker does not want us."""

    def __init__(self, code: int) -> None:
        super().__init__(REASONS.get(code, f"refused with code {code}"))
        self.code = code


class Mqtt(asyncio.Protocol):
    """One connection. Made by `join`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_message: Callable[[str, bytes], None] = lambda topic, payload: None
        self._on_end: Callable[[], None] = lambda: None
        self._data = bytearray()
        self._awaited: dict[tuple[int, int], asyncio.Future[bytes]] = {}
        self._number, self._room = 0, asyncio.Semaphore(IN_FLIGHT)
        self._writable, self._gone = asyncio.Event(), asyncio.Event()
        self._writable.set()
        self._lost: MqttError | None = None
        self._keepalive, self._pinged = 0.0, False
        self._watch: asyncio.TimerHandle | None = None
        self._said_at = self._heard_at = self._loop.time()
        self.transport: Any = None

    # What users call.

    async def greet(self, name: str, keepalive: int, login: dict[str, str], will: Publish | None) -> None:
        """Say who we are, and wait until the broker agrees. Raises `MqttError`."""
        said = await self._ask(greeting(name, keepalive, login, will), CONNACK, 0, TO_CONNECT)
        if said[1]:
            raise MqttRefusedError(said[1])
        self._keepalive = float(keepalive)
        self._look_after()

    def listen(self, heard: Callable[[str, bytes], None], ended: Callable[[], None]) -> None:
        """Call `heard` with the topic and the payload of every message, and `ended` when the connection is over."""
        self._on_message, self._on_end = heard, ended
        if self._lost is not None:
            ended()

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Ask for the messages of `topics`, in one message. Raises `MqttError`."""
        number = self._next_number()
        wanted = b"".join(_text(topic) + b"\1" for topic in topics)
        packet = _packet(SUBSCRIBE, number.to_bytes(2, "big") + wanted)
        answers = await self._ask(packet, SUBACK, number, TO_CONFIRM)
        for topic, answer in zip(topics, answers[2:], strict=False):
            if answer == REFUSED:
                log.warning("the broker refuses the subscription to %s", topic)

    async def publish(self, message: Publish) -> None:
        """Send, and wait until the broker has confirmed it, if it does. Raises `MqttError`."""
        if not message.acknowledged:
            self._write(publication(message, 0))
            await self._writable.wait()
            return
        async with self._room:
            number = self._next_number()
            await self._ask(publication(message, number), PUBACK, number, TO_CONFIRM)

    async def leave(self) -> None:
        """Close the connection in good order: the last will is not published."""
        if self._lost is None:
            self._write(_packet(DISCONNECT))
            self.transport.close()
            try:
                async with asyncio.timeout(TO_CLOSE):
                    await self._gone.wait()
            except TimeoutError:
                self.transport.abort()

    # What the event loop calls.

    def connection_made(self, transport: Any) -> None:
        """The connection stands."""
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """It is over: whoever waits for something hears so."""
        if self._lost is None:
            self._lost = MqttError("the broker closed the connection" if error is None else str(error))
        self._lost.__cause__ = error
        for future in self._awaited.values():
            if not future.done():
                future.set_exception(self._lost)
        if self._watch is not None:
            self._watch.cancel()
        self._writable.set()
        self._gone.set()
        self._on_end()

    def pause_writing(self) -> None:
        """More waits to be sent than the system takes."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It was sent."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Some bytes have come; whole packets are looked at, all of them at once."""
        self._heard_at, self._pinged = self._loop.time(), False
        self._data += data
        start, confirmations = 0, bytearray()
        try:
            with memoryview(self._data) as view:
                while (found := packet(view, start)) is not None:
                    self._on_packet(view[start], view[found[0] : found[1]], confirmations)
                    start = found[1]
        except MqttError as error:
            self._give_up(error)
            return
        del self._data[:start]
        if confirmations:
            self._write(bytes(confirmations))

    # What stands behind both.

    def _on_packet(self, kind: int, body: memoryview, confirmations: bytearray) -> None:
        with body:
            if kind & 0xF0 == PUBLISH:
                start = 2 + (body[0] << 8 | body[1]) if len(body) > 1 else 2
                place = start + 2 if kind & CONFIRMED else start
                if place > len(body) or kind & 0x04:
                    raise MqttError("the broker sent a message that MQTT 3.1.1 does not know")
                if kind & CONFIRMED:
                    confirmations += b"\x40\x02"  # PUBACK, two bytes
                    confirmations += body[start:place]
                self._on_message(str(body[2:start], "utf-8", "replace"), bytes(body[place:]))
            elif kind in (CONNACK, PUBACK, SUBACK):
                if len(body) < 2:
                    raise MqttError("the broker sent an answer without a number")
                number = 0 if kind == CONNACK else body[0] << 8 | body[1]
                future = self._awaited.get((kind, number))
                if future is not None and not future.done():
                    future.set_result(bytes(body))

    async def _ask(self, message: bytes, answer: int, number: int, seconds: float) -> bytes:
        """Send a packet and wait for the answer of this kind and number."""
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._write(message)
        self._awaited[answer, number] = future
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise MqttError(f"the broker did not answer within {seconds:g} seconds") from None
        finally:
            del self._awaited[answer, number]

    def _next_number(self) -> int:
        """One that nobody waits for; they begin again after 65,535."""
        while True:
            self._number = self._number % 65_535 + 1
            if (PUBACK, self._number) not in self._awaited and (SUBACK, self._number) not in self._awaited:
                return self._number

    def _write(self, message: bytes) -> None:
        if self._lost is not None:
            raise self._lost
        self._said_at = self._loop.time()
        self.transport.write(message)

    def _look_after(self) -> None:
        """Ask a broker that has been silent for long whether it is there; without an answer it is not."""
        now = self._loop.time()
        if now - min(self._said_at, self._heard_at) >= self._keepalive:
            if self._pinged:
                self._give_up(MqttError(f"the broker was silent for {2 * self._keepalive:g} seconds"))
                return
            self._write(_packet(PING))
            self._pinged, self._heard_at = True, now
        self._watch = self._loop.call_at(
            min(self._said_at, self._heard_at) + self._keepalive, self._look_after
        )

    def _give_up(self, error: MqttError) -> None:
        self._lost = error
        if self._watch is not None:
            self._watch.cancel()  # it may be due now, and nobody is there to be asked
        self.transport.abort()


async def join(broker: Broker, name: str, will: Publish | None = None) -> Mqtt:
    """Connect to the broker as `name`. Raises `MqttError`, `OSError` (with `ssl.SSLError` among them)."""
    tls = broker.tls()
    try:
        async with asyncio.timeout(TO_CONNECT):
            _, connection = await asyncio.get_running_loop().create_connection(
                Mqtt, broker.host, broker.port, ssl=tls
            )
    except TimeoutError:
        raise MqttError("the broker did not answer") from None
    try:
        await connection.greet(name, broker.keepalive, broker.login, will)
    except BaseException:
        connection.transport.abort()
        raise
    return connection


def greeting(name: str, keepalive: int, login: dict[str, str], will: Publish | None) -> bytes:
    """The packet that opens a connection; nothing is kept from an earlier one of the same name.

    >>> greeting("pi", 15, {}, None).hex(" ")
    '10 0e 00 04 4d 51 54 54 04 02 00 0f 00 02 70 69'
    """
    flags, rest = CLEAN, _text(name)  # a kept session would replay every model that was missed
    if will is not None:
        flags |= WILL | WILL_CONFIRMED | (WILL_RETAIN if will.retain else 0)
        rest += _text(will.topic) + len(will.payload).to_bytes(2, "big") + will.payload
    for flag, key in ((USER, "username"), (PASSWORD, "password")):
        if key in login:
            flags |= flag
            rest += _text(login[key])
    return _packet(CONNECT, _text("MQTT") + struct.pack(">BBH", 4, flags, keepalive) + rest)


def publication(message: Publish, number: int) -> bytes:
    r"""A message as a packet; `number` is that of a message to be confirmed.

    >>> publication(Publish("f/d", b"hi", acknowledged=False), 0)
    b'0\x07\x00\x03f/dhi'
    """
    flags = (CONFIRMED if message.acknowledged else 0) | (RETAIN if message.retain else 0)
    confirmed = number.to_bytes(2, "big") if message.acknowledged else b""
    return _packet(PUBLISH | flags, _text(message.topic) + confirmed + message.payload)


def packet(data: memoryview, start: int) -> tuple[int, int] | None:
    r"""Where the body of the packet at `start` begins and ends; None if not all of it has come yet.

    >>> packet(memoryview(b"\x30\x02ab\x30"), 0)
    (2, 4)
    """
    size, shift, place, end = 0, 0, start + 1, len(data)
    while place < end:
        byte = data[place]
        size |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return (place, place + size) if place + size <= end else None
        if shift > 21:
            raise MqttError("the broker sent a length that MQTT 3.1.1 does not know")
    return None


def _packet(kind: int, body: bytes = b"") -> bytes:
    size, length = len(body), bytearray()
    while True:
        size, low = divmod(size, 128)
        length.append(low | (128 if size else 0))
        if not size:
            return bytes([kind]) + length + body


def _text(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(2, "big") + encoded
