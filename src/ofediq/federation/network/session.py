"""A client's life on the network: connect, listen, speak, connect again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ofediq.errors import InputError
from ofediq.federation.network.broker import Broker, BrokerError
from ofediq.federation.network.link import Link, LinkDown, connect
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import Publish, split_topic, write_json

log = logging.getLogger("ofediq.federation")


class Backoff:
    """Growing pauses between attempts: 0.1 s at first, 5 s at most, with jitter so that a fleet does not march."""

    def __init__(self) -> None:
        self.pause = 0.1

    async def wait(self) -> None:
        """Pause."""
        await asyncio.sleep(self.pause * random.uniform(0.5, 1.5))
        self.pause = min(5.0, 2 * self.pause)

    def reset(self) -> None:
        """It worked."""
        self.pause = 0.1


class Session:
    """One client, connected.

    Args:
        learner: the client itself.
        broker: where to connect.
        feed: called after every message; may give the learner samples, and returns what to publish.
        patience: seconds to wait for the broker before the first connection; None for ever.
        lock: held while the learner is used, where another thread uses it as well.
    """

    def __init__(
        self,
        learner: Learner,
        broker: Broker,
        feed: Callable[[], list[Publish]],
        patience: float | None = None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._lock = contextlib.nullcontext() if lock is None else lock
        self.learner, self.broker, self.feed, self.patience = learner, broker, feed, patience
        self.received = self.sent = 0  # bytes on sockets that are closed by now
        self._outbox: asyncio.Queue[Publish | None] = asyncio.Queue()  # None: nothing more
        self._stop = asyncio.Event()
        self._link: Link | None = None
        self._reached = (
            False  # whether the broker was there once: from then on it may be away for as long as it likes
        )

    def send(self, messages: list[Publish]) -> None:
        """Publish soon; call it in the session's own thread."""
        for message in messages:
            self._outbox.put_nowait(message)

    def stop(self) -> None:
        """Say goodbye and end."""
        self._stop.set()

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._link is not None

    def traffic(self) -> tuple[int, int]:
        """Bytes received and sent on all sockets so far."""
        received, sent = (0, 0) if self._link is None else self._link.traffic()
        return self.received + received, self.sent + sent

    async def run(self) -> None:
        """Live until `stop`, or until the federation is over; the connection may come and go."""
        backoff = Backoff()
        loop = asyncio.get_running_loop()
        give_up = None if self.patience is None else loop.time() + self.patience
        while not self._stop.is_set():
            try:
                await self._connected(backoff)
                return
            except LinkDown as reason:
                log.warning("client %s: no connection (%s), trying again", self.learner.name, reason)
                if give_up is not None and not self._reached and loop.time() > give_up:
                    where = f"{self.broker.host}:{self.broker.port}"
                    raise BrokerError(f"cannot reach the broker at {where}: {reason}") from None
                if not self._stop.is_set():
                    await backoff.wait()

    async def _connected(self, backoff: Backoff) -> None:
        will = self._presence(online=False)
        name = f"{self.learner.federation}.{self.learner.name}"
        async with connect(self.broker, name, self.learner.subscriptions, will) as link:
            self._link, self._reached = link, True
            try:
                while not self._outbox.empty():  # said on the last connection: the server will ask again
                    self._outbox.get_nowait()
                await link.publish(self._presence(online=True))
                backoff.reset()
                await self._talk(link)
                for last in [*self.learner.farewell(), will]:
                    await link.publish(last)
            finally:
                received, sent = link.traffic()
                self.received, self.sent = self.received + received, self.sent + sent
                self._link = None

    async def _talk(self, link: Link) -> None:
        """Listen and speak until it is time to stop; what was said by then is still sent."""
        listening, stopped = asyncio.create_task(self._listen(link)), asyncio.create_task(self._stop.wait())
        speaking = asyncio.create_task(self._speak(link))
        tasks = [listening, stopped, speaking]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises what went wrong
            self._outbox.put_nowait(None)
            await speaking
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, link: Link) -> None:
        while not self.learner.finished:
            item = await link.receive()
            if item is None:
                continue
            kind, _ = split_topic(item[0], self.learner.federation)
            with self._lock:
                try:
                    self.send(self.learner.receive(kind, item[1]))
                except (InputError, ArithmeticError, ValueError, MemoryError) as error:
                    log.warning("client %s: refused a message (%s): %s", self.learner.name, kind, error)
                    continue
                self.send(self.feed())

    async def _speak(self, link: Link) -> None:
        while (message := await self._outbox.get()) is not None:
            await link.publish(message)

    def _presence(self, online: bool) -> Publish:
        topic = f"{self.learner.federation}/here/{self.learner.name}"
        place = self.learner.place if online else {}
        return Publish(topic, write_json(online=online, **place), retain=True)
