"""Thousands of connections in one process: clients that say real messages of made-up gradients, and learn nothing.

`python -m benchmarks.fleet live 5000` starts it. To the broker and the server it looks like a fleet: every client has
its connection, gets every model, and those who are due answer it with an update of the method's own codec.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import numpy as np

from ofediq.federation import Broker
from ofediq.federation.network.mqtt import Mqtt, join
from ofediq.federation.protocol.messages import Publish, UpdateMessage, write_body, write_json
from ofediq.federation.protocol.reports import Report
from ofediq.methods import Method
from ofediq.randomness import Address

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


class Voice:
    """One client: a connection, and what it says to a model."""

    def __init__(self, connection: Mqtt, federation: str, number: int, voices: Voices) -> None:
        self.connection, self.number, self.voices = connection, number, voices
        self.topic, self.over, self._said = f"{federation}/u/c{number}", asyncio.Event(), set[Any]()
        connection.listen(self.hear, self.over.set)

    def hear(self, topic: str, payload: bytes) -> None:
        """A model: answer it, without waiting for the broker's word."""
        if payload[3] & FINAL:
            self.over.set()
            return
        answer = self.voices.answer(self.number, int.from_bytes(payload[12:20], "little"))
        if answer is not None:
            said = asyncio.create_task(self.connection.publish(Publish(self.topic, answer)))
            self._said.add(said)
            said.add_done_callback(self._said.discard)


async def crowd(where: Broker, federation: str, numbers: range, voices: Voices) -> None:
    """Clients of these numbers, until the federation is over; they connect one after another."""
    clients = []
    for number in numbers:
        name = f"c{number}"
        client = Voice(await join(where, name), federation, number, voices)
        await client.connection.subscribe([f"{federation}/model"])
        here = Publish(f"{federation}/here/{name}", write_json(online=True), retain=True)
        await client.connection.publish(here)
        clients.append(client)
    await asyncio.gather(*(client.over.wait() for client in clients))
    await asyncio.gather(*(client.connection.leave() for client in clients))
