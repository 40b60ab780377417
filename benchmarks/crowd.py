"""Thousands of connections in one process: clients that say real messages of made-up gradients, and learn nothing.

`python -m benchmarks.fleet live 5000` starts it. To the broker and the server it looks like a fleet: every client has
its connection, gets every model, and those who are due answer it with an update of the method's own codec. A library
for MQTT with its timers would take more time for one client than this does for ten.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import struct
from typing import Any

import numpy as np

from ofediq.federation.protocol.messages import UpdateMessage, write_body, write_json
from ofediq.federation.protocol.reports import Report
from ofediq.methods import Method
from ofediq.randomness import Address

CONNECT, PUBLISH, PUBACK, SUBSCRIBE, DISCONNECT = 0x10, 0x30, 0x40, 0x82, 0xE0
ONCE = 0x02  # QoS 1
RETAIN = 0x01
KEEPALIVE = 3600
FINAL = 1  # a flag of the model's header


class Voices:
    """What the clients of a fleet say to a model.

    Args:
        method: what runs.
        seed: of its draws.
        dim: D.
        clients: K.
    """

    def __init__(self, method: Method, seed: int, dim: int, clients: int) -> None:
        self.method, self.seed, self.clients = method, seed, clients
        self.vectors = np.random.default_rng(0).standard_normal((16, dim)).astype(np.float32) / 100
        self.due = functools.lru_cache(maxsize=2)(self._due)

    def _due(self, step: int) -> Any:
        numbers = np.arange(self.clients)
        return np.asarray(self.method.participation.active(self.seed, step, numbers, self.clients))

    def answer(self, number: int, step: int) -> bytes | None:
        """The update of a client that is due; None for the others."""
        if not self.due(step)[number]:
            return None
        address = Address(self.seed, step, number)
        encoded = self.method.compress.encode(self.vectors[number % 16], address)
        return UpdateMessage(Report(1, 0.0, 1.0), step, write_body({"update": encoded}, step)).encode()


class Client(asyncio.Protocol):
    """One connection, with as much of MQTT 3.1.1 as it needs."""

    def __init__(self, federation: str, number: int, voices: Voices) -> None:
        self.federation, self.number, self.voices = federation, number, voices
        self.name, self._data, self._numbers = f"c{number}", bytearray(), itertools.count(1)
        self.accepted = asyncio.get_running_loop().create_future()
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Introduce itself."""
        self.transport = transport
        self._send(CONNECT, _text("MQTT") + struct.pack(">BBH", 4, 2, KEEPALIVE) + _text(self.name))

    def connection_lost(self, error: Exception | None) -> None:
        """The end, in good order or not."""
        for one in (self.accepted, self.over):
            if not one.done():
                one.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Some bytes of the stream; whole packets are looked at."""
        self._data += data
        while (found := _packet(self._data)) is not None:
            start, end = found
            self._on_packet(self._data[0], memoryview(bytes(self._data[start:end])))
            del self._data[:end]

    def _on_packet(self, kind: int, body: memoryview) -> None:
        if kind & 0xF0 == 0x20:
            topic = _text(f"{self.federation}/model") + b"\1"
            self._send(SUBSCRIBE, struct.pack(">H", next(self._numbers)) + topic)
            self._publish("here", write_json(online=True), RETAIN)
            self.accepted.set_result(None)
        elif kind & 0xF0 == PUBLISH:
            size = 2 + int.from_bytes(body[:2], "big")
            if kind & 0x06:
                self._send(PUBACK, bytes(body[size : size + 2]))
                size += 2
            if len(body) > size:
                self._on_model(body[size:])

    def _on_model(self, payload: memoryview) -> None:
        if payload[3] & FINAL:
            self._send(DISCONNECT, b"")
            self.transport.close()
            return
        answer = self.voices.answer(self.number, int.from_bytes(payload[12:20], "little"))
        if answer is not None:
            self._publish("u", answer)

    def _publish(self, topic: str, payload: bytes, flags: int = 0) -> None:
        head = _text(f"{self.federation}/{topic}/{self.name}") + struct.pack(
            ">H", next(self._numbers) % 65_535 + 1
        )
        self._send(PUBLISH | ONCE | flags, head + payload)

    def _send(self, kind: int, body: bytes) -> None:
        self.transport.write(bytes([kind]) + _length(len(body)) + body)


async def crowd(host: str, port: int, federation: str, numbers: range, voices: Voices) -> None:
    """Clients of these numbers, until the federation is over; they connect one after another."""
    loop, clients = asyncio.get_running_loop(), []
    for number in numbers:
        make = functools.partial(Client, federation, number, voices)
        _, client = await loop.create_connection(make, host, port)
        await client.accepted
        clients.append(client)
    await asyncio.gather(*(client.over for client in clients))


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def _length(size: int) -> bytes:
    made = b""
    while True:
        size, low = divmod(size, 128)
        made += bytes([low | (128 if size else 0)])
        if not size:
            return made


def _packet(data: bytearray) -> tuple[int, int] | None:
    """Where the body of the first packet begins and ends; None if it is not whole yet."""
    size, shift, place = 0, 0, 1
    while place < len(data):
        size, more = size | (data[place] & 127) << shift, data[place] & 128
        shift, place = shift + 7, place + 1
        if not more:
            return (place, place + size) if len(data) >= place + size else None
    return None
