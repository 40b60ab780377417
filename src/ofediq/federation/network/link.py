"""The seam to the network: connect to an MQTT broker, publish, receive. Nothing else here knows MQTT."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any, Protocol

from ofediq.errors import extra
from ofediq.federation.network.broker import Broker, BrokerError
from ofediq.federation.protocol.messages import Publish

# Reason codes of MQTT after which trying again is pointless; paho translates those of MQTT 3.1.1 into them.
_FINAL = frozenset(
    {
        132,  # unsupported protocol version
        133,  # client identifier not valid
        134,  # bad user name or password
        135,  # not authorized
        138,  # banned
        140,  # bad authentication method
    }
)


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
    """A connection to an MQTT broker, by aiomqtt. Made by `connect`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._inbox: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue()
        self._pending: Counter[str] = Counter()
        self.dropped = 0
        self._pump = asyncio.create_task(self._read())

    async def publish(self, message: Publish) -> None:
        """Send, and wait until the broker has it."""
        error = extra("aiomqtt", "federation").MqttError
        try:
            await self._client.publish(
                message.topic,
                message.payload,
                qos=int(message.acknowledged),
                retain=message.retain,
                timeout=30,
            )
        except (error, OSError) as cause:
            raise LinkDown(str(cause)) from None

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
        return _socket_bytes(self._client._client.socket())

    async def close(self) -> None:
        """Stop reading."""
        self._pump.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._pump

    async def _read(self) -> None:
        error = extra("aiomqtt", "federation").MqttError
        try:
            async for message in self._client.messages:
                payload, topic = message.payload, str(message.topic)
                if self._pending[topic] >= PENDING or self._inbox.qsize() >= PENDING_IN_ALL:
                    self.dropped += 1
                    continue
                self._pending[topic] += 1
                self._inbox.put_nowait((topic, payload if isinstance(payload, bytes) else b""))
        except (error, OSError):
            pass
        self._inbox.put_nowait(None)


@contextlib.asynccontextmanager
async def connect(
    broker: Broker, name: str, subscriptions: Iterable[str], will: Publish | None = None
) -> AsyncIterator[MqttLink]:
    """Connect as `name`, with a last `will` that the broker publishes when we vanish, and subscribe.

    Raises `LinkDown` if the broker cannot be reached now, `BrokerError` if trying again is pointless.
    """
    aiomqtt = extra("aiomqtt", "federation")
    loop = asyncio.get_running_loop()
    if loop.get_exception_handler() is None:
        loop.set_exception_handler(_without_noise)
    client = aiomqtt.Client(
        broker.host,
        broker.port,
        identifier=name,
        clean_session=True,  # a persistent session would replay every model that was missed
        keepalive=broker.keepalive,
        tls_context=broker.tls(),
        timeout=10,
        will=None if will is None else aiomqtt.Will(will.topic, will.payload, qos=1, retain=will.retain),
        socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        **broker.login,
    )
    client.pending_calls_threshold = PENDING_IN_ALL  # it warns of ten: a server greets thousands
    try:
        await client.__aenter__()
    except aiomqtt.MqttError as error:
        # The library keeps the cause of a failed connection as context only.
        for reason in (error, error.__context__, await asyncio.to_thread(_refusal, broker)):
            if _is_final(reason):
                said = str(getattr(reason, "rc", reason))
                raise BrokerError(f"broker {broker.host}:{broker.port} refuses {name!r}: {said}") from None
        raise LinkDown(str(error)) from None
    link = MqttLink(client)
    try:
        # In one message: a fleet that comes back after its broker would else say thousands more.
        if subscriptions:
            await client.subscribe([(topic, 1) for topic in subscriptions])
        yield link
    except aiomqtt.MqttError as error:
        raise LinkDown(str(error)) from None
    finally:
        await link.close()
        with contextlib.suppress(aiomqtt.MqttError, OSError):
            await client.__aexit__(None, None, None)


def _without_noise(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """As the loop's own handler, but for what the libraries below let slip and recover from by themselves.

    The MQTT library watches a socket that it has just closed; the embedded broker trips when many connect at once,
    and whoever was refused connects again.
    """
    error, text = context.get("exception"), str(context.get("message", ""))
    closed = isinstance(error, OSError) and error.errno == errno.EBADF and "add_writer" in text
    tripped = isinstance(error, RuntimeError) and "client_connected_cb" in text
    if not (closed or tripped):
        loop.default_exception_handler(context)


def _is_final(error: BaseException | None) -> bool:
    """Whether trying again is pointless. A connection that just ends is not: a broker that restarts does that."""
    if isinstance(error, ssl.SSLError):
        return not isinstance(error, ssl.SSLEOFError)
    return getattr(getattr(error, "rc", None), "value", None) in _FINAL


def _refusal(broker: Broker) -> ssl.SSLError | None:
    """What a broker says about our certificate, if that is why it hangs up.

    With TLS 1.3 it judges a client's certificate after the handshake, and the MQTT library waits for an answer that
    never comes. So ask once more, by hand, and listen before saying anything: a broker that has hung up answers a
    message with a reset, which takes its reason away.
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
