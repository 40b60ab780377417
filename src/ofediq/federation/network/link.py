"""The seam to the network: connect to an MQTT broker, publish, receive. Nothing else here knows MQTT."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any, Protocol

from ofediq.federation.network.broker import Broker, BrokerError
from ofediq.federation.network.mqtt import Mqtt, MqttError, MqttRefusedError, join
from ofediq.federation.protocol.messages import Publish

_FINAL = frozenset(
    {
        1,  # unsupported protocol version
        2,  # client identifier not valid
        4,  # bad user name or password
        5,  # not authorized
    }
)
"""Codes of a broker's refusal after which trying again is pointless."""

PENDING, PENDING_IN_ALL = 64, 2**14
"""Messages of one topic, and of all, that wait to be read; what comes beyond is dropped: a topic is one member's."""


class LinkDown(Exception):  # noqa: N818  # a signal to reconnect, not an error that a user sees
    """The connection is lost."""


class Link(Protocol):
    """An open connection."""

    async def publish(self, message: Publish) -> None:
        """Send, and wait until the broker has it, if it is acknowledged. Raises `LinkDown`."""

    async def receive(self, timeout: float | None = None) -> tuple[str, bytes] | None:
        """The next message (topic, payload), or None after `timeout` seconds. Raises `LinkDown`."""

    def traffic(self) -> tuple[int, int]:
        """Bytes received and sent on the socket so far, everything included; zeros where the system hides it."""


class MqttLink:
    """A connection to an MQTT broker. Made by `connect`."""

    def __init__(self, connection: Mqtt) -> None:
        self._connection = connection
        self._inbox: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue()
        self._pending: Counter[str] = Counter()
        self.dropped, self._traffic = 0, (0, 0)
        connection.listen(self._heard, lambda: self._inbox.put_nowait(None))

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Ask for the messages of `topics`. Raises `LinkDown`."""
        await self._carefully(self._connection.subscribe(list(topics)))

    async def publish(self, message: Publish) -> None:
        """Send, and wait until the broker has it."""
        await self._carefully(self._connection.publish(message))

    async def receive(self, timeout: float | None = None) -> tuple[str, bytes] | None:
        """The next message, or None after `timeout` seconds."""
        try:
            # Whatever has come is taken at once: a timer for each message would cost as much as reading it.
            item = self._inbox.get_nowait()
        except asyncio.QueueEmpty:
            try:
                item = await asyncio.wait_for(self._inbox.get(), timeout)
            except TimeoutError:
                return None
        if item is None:
            raise LinkDown("the broker closed the connection")
        self._pending[item[0]] -= 1
        if not self._pending[item[0]]:
            del self._pending[item[0]]
        return item

    def traffic(self) -> tuple[int, int]:
        """Bytes received and sent on the socket so far."""
        found = _socket_bytes(self._connection.transport.get_extra_info("socket"))
        self._traffic = max(self._traffic, found)  # one that is closed tells nothing
        return self._traffic

    async def close(self) -> None:
        """Leave in good order."""
        await self._connection.leave()

    async def _carefully(self, said: Awaitable[None]) -> None:
        try:
            await said
        except (MqttError, OSError) as error:
            raise LinkDown(str(error)) from None

    def _heard(self, topic: str, payload: bytes) -> None:
        if self._pending[topic] >= PENDING or self._inbox.qsize() >= PENDING_IN_ALL:
            self.dropped += 1
            return
        self._pending[topic] += 1
        self._inbox.put_nowait((topic, payload))


@contextlib.asynccontextmanager
async def connect(
    broker: Broker, name: str, subscriptions: Iterable[str], will: Publish | None = None
) -> AsyncIterator[MqttLink]:
    """Connect as `name`, with a last `will` that the broker publishes when we vanish, and subscribe.

    Raises `LinkDown` if the broker cannot be reached now, `BrokerError` if trying again is pointless.
    """
    try:
        link = MqttLink(await join(broker, name, will))
    except (MqttError, OSError) as error:
        for reason in (error, error.__cause__, await asyncio.to_thread(_refusal, broker)):
            if _is_final(reason):
                raise BrokerError(f"broker {broker.host}:{broker.port} refuses {name!r}: {reason}") from None
        raise LinkDown(str(error)) from None
    try:
        # In one message: a fleet that comes back after its broker would else say thousands more.
        if subscriptions:
            await link.subscribe(subscriptions)
        yield link
    finally:
        await link.close()


def _is_final(error: BaseException | None) -> bool:
    """Whether trying again is pointless. A connection that just ends is not: a broker that restarts does that."""
    if isinstance(error, ssl.SSLError):
        return not isinstance(error, ssl.SSLEOFError)
    return isinstance(error, MqttRefusedError) and error.code in _FINAL


def _refusal(broker: Broker) -> ssl.SSLError | None:
    """What a broker says about our certificate, if that is why it hangs up.

    With TLS 1.3 it judges a client's certificate after the handshake, when we have spoken already. So ask once more,
    and listen before saying anything: a broker that has hung up answers a message with a reset, which takes its
    reason away.
    """
    context = broker.tls()
    if context is None:
        return None
    try:
        with (
            socket.create_connection((broker.host, broker.port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=broker.host) as encrypted,
        ):
            encrypted.settimeout(2)
            encrypted.recv(1)
    except ssl.SSLError as error:
        return error if _is_final(error) else None
    except OSError:
        pass
    return None


def _socket_bytes(connection: Any) -> tuple[int, int]:
    """(received, sent) by the kernel's own count, where there is one: Linux's TCP_INFO."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None or connection is None:
        return 0, 0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, option, 136)
        sent, received = struct.unpack_from("=QQ", info, 120)
    except (OSError, struct.error):
        return 0, 0
    return int(received), int(sent)
