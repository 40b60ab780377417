"""The server's life on the network: what the coordinator decides is carried out here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ofediq.errors import CheckpointError
from ofediq.federation import clock
from ofediq.federation.model_file import FILE, save_model
from ofediq.federation.network.broker import Broker, BrokerError
from ofediq.federation.network.leader import Leadership
from ofediq.federation.network.link import Link, LinkDown, connect
from ofediq.federation.network.session import Backoff
from ofediq.federation.protocol.coordinator import Action, Coordinator, Save
from ofediq.federation.protocol.messages import Publish
from ofediq.federation.protocol.state import ServerState
from ofediq.kernels import library
from ofediq.machine import keep_freed_memory

log = logging.getLogger("ofediq.federation")

STATE_FILE = "state.npz"
ADMIT_FILE = "admit"
"""Names that the operator lets out of quarantine, one per line; the server removes the file when it has read it."""

MODEL_EVERY = 60.0
"""Seconds between two writes of the model's own file, beside the state of every round."""

MANY = 100
"""Members from which on compiled code is made, in the background, where the package brought none, and the memory of a
round's updates is kept for the next: a small fleet is served as well without."""

AGAIN = 1.0
"""Seconds between two repetitions of the task, at least, where others write in the server's name."""

LINGER = 5.0
"""Seconds that the server stays after the last round, for the clients' last reports."""


class Server:
    """A coordinator on the network, with its state on disk.

    Args:
        coordinator: what decides.
        broker: where to connect.
        folder: for the state; None to keep none.
        patience: seconds to wait for the broker at the start; None for ever.
        on_round: called after every closed round with the monitor's latest round.
        operator: asked now and then whether another coordinator takes over; returns it, and what it says then.
        new: whether it leads though an earlier server, or the clients, have come further.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        broker: Broker,
        folder: Path | None = None,
        patience: float | None = None,
        on_round: Callable[[], None] | None = None,
        operator: Callable[[Coordinator, float], tuple[Coordinator, list[Action]] | None] | None = None,
        *,
        new: bool = False,
    ) -> None:
        self.coordinator, self.broker, self.patience = coordinator, broker, patience
        self.monitor, self.leader = coordinator.monitor, Leadership(coordinator, new=new)
        self.path = None if folder is None else folder / STATE_FILE
        self._model_at = self._told_at = -float("inf")
        self._task, self._overwritten = f"{coordinator.federation}/task", False  # by whoever may write there
        self.on_round, self.operator = on_round, operator
        self._number = secrets.token_hex(4)
        self._prepared = False
        self._stop = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()
        self._closed = (0, 0)  # bytes on sockets that are closed by now
        self._reached = False  # whether the broker was ever there: then it comes back

    def stop(self) -> None:
        """End soon; the state of the last closed round is on disk already."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until all rounds are done, or until `stop`; the connection may come and go."""
        try:
            await self._serve()
        finally:
            if self.coordinator.step:
                self._save_model(now=True)

    async def _serve(self) -> None:
        backoff = Backoff()
        started = time.monotonic()
        while not self._stop.is_set():
            try:
                await self._connected(backoff)
                return
            except LinkDown as reason:
                self.monitor.problem("broker", f"no connection to the broker: {reason}")
                log.warning("server: no connection to the broker (%s), trying again", reason)
                waited = time.monotonic() - started
                if not self._reached and self.patience is not None and waited > self.patience:
                    where = f"{self.broker.host}:{self.broker.port}"
                    raise BrokerError(f"cannot reach the broker at {where}: {reason}") from None
                await backoff.wait()

    async def _connected(self, backoff: Backoff) -> None:
        # Another server must not take this one's session from it: it would wait in vain instead of hearing so.
        name = f"{self.coordinator.federation}.server.{self._number}"
        topics = (*self.coordinator.subscriptions, self.leader.topic, self._task)
        async with connect(self.broker, name, topics) as link:
            self.monitor.problem("broker", None)
            self._reached = True
            backoff.reset()
            log.info("server: connected to %s:%d", self.broker.host, self.broker.port)
            before = self._closed
            try:
                waiting = await self.leader.ask(link)
                await link.publish(self.leader.claim())
                await self._perform(link, self.coordinator.connected(clock.now()))
                for item in waiting:
                    await self._perform(link, self.coordinator.receive(*item, clock.now()))
                await self._talk(link, before)
                if self.coordinator.finished:  # nobody has to know more than this server any longer
                    await link.publish(self.leader.claim(withdrawn=True))
            finally:
                self._count(link, before)
                self._closed = (self.monitor.socket["in"], self.monitor.socket["out"])

    async def _talk(self, link: Link, before: tuple[int, int]) -> None:
        stopped = asyncio.create_task(self._stop.wait())
        leave_at = float("inf")
        try:
            while not stopped.done():
                now = clock.now()
                if self.coordinator.finished:
                    leave_at = min(leave_at, now + LINGER)
                    if now >= leave_at or not self.coordinator.members.present:
                        return
                wait = min(self.coordinator.next_tick() - now, leave_at - now, 0.5)
                item = await link.receive(max(0.0, wait))
                now = clock.now()
                if item is None:
                    self._count(link, before)
                    self._admit()
                    actions = self.coordinator.tick(now)
                elif item[0] == self.leader.topic:
                    self.leader.hear(item[1])
                    if self.leader.asked:
                        await link.publish(self.leader.claim())
                    continue
                elif item[0] == self._task:
                    self._overwritten |= item[1] != self.coordinator.task.encode()
                    actions = []
                else:
                    actions = self.coordinator.receive(*item, now)
                self.leader.check()
                await self._perform(link, actions + self._repeated(now))
                found = None if self.operator is None else self.operator(self.coordinator, now)
                if found is not None:
                    self.coordinator, actions = found
                    self.leader.follow(self.coordinator)
                    await self._perform(link, actions)
        finally:
            stopped.cancel()

    def _repeated(self, now: float) -> list[Action]:
        """The task again, if the broker keeps another one in its place: whoever comes would get that, or none."""
        if not self._overwritten or now < self._told_at + AGAIN:
            return []
        self._overwritten, self._told_at = False, now
        log.warning("server: somebody has changed %s at the broker: it is said again", self._task)
        return self.coordinator.connected(now)

    async def _perform(self, link: Link, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Save):
                await asyncio.to_thread(self._save, action.saved)
                if await asyncio.to_thread(self._save_model):
                    await link.publish(self.leader.claim())
                self._closed_round()
            elif "/welcome/" in action.topic:  # nobody waits for the answer to a greeting
                answer = asyncio.create_task(_answer(link, action))
                self._answers.add(answer)
                answer.add_done_callback(self._answers.discard)
            else:
                if self._answers:  # let them begin: no model may overtake the task that it belongs to
                    await asyncio.sleep(0)
                await link.publish(action)

    def _save(self, saved: ServerState) -> None:
        """Write the state; a disk that refuses is a problem to show, not a reason to stop."""
        if self.path is None:
            return
        try:
            saved.write(self.path)
        except CheckpointError as error:
            if "checkpoint" not in self.monitor.problems:
                log.error("server: %s; it goes on without", error)
            self.monitor.problem("checkpoint", str(error))
        else:
            if "checkpoint" in self.monitor.problems:
                log.info("server: checkpoints work again")
                self.monitor.problem("checkpoint", None)

    def _admit(self) -> None:
        """Take up whom the operator let back."""
        path = None if self.path is None else self.path.with_name(ADMIT_FILE)
        if path is None or not path.exists():
            return
        try:
            names = path.read_text(encoding="utf-8").split()
            path.unlink()
        except (OSError, ValueError) as error:
            log.error("server: cannot read %s: %s", path, error)
            return
        for name in names:
            known = self.coordinator.tally.admit(name)
            log.info("server: client %s is %s", name, "let back" if known else "not known here")

    def _save_model(self, *, now: bool = False) -> bool:
        """Write model.safetensors, once a minute and at the end; returns whether it was time to.

        A disk that refuses has said so already.
        """
        if not (now or self.coordinator.finished or self._model_due()):
            return False
        self._model_at = time.monotonic()
        if self.path is not None:
            with contextlib.suppress(OSError):
                one = self.coordinator
                save_model(self.path.parent / FILE, one.params, one.task.model, one.card())
        return True

    def _model_due(self) -> bool:
        return time.monotonic() - self._model_at >= MODEL_EVERY

    def _closed_round(self) -> None:
        last = self.monitor.last
        if last is not None:
            fields: dict[str, Any] = {"step": last.step, "senders": last.senders, "seconds": last.seconds}
            log.info("round closed", extra={"fields": fields})
        self._admit()
        if len(self.coordinator.members) >= MANY and not self._prepared:
            self._prepared = True
            library.prepare()
            keep_freed_memory()
        if self.on_round is not None:
            self.on_round()

    def _count(self, link: Link, before: tuple[int, int]) -> None:
        received, sent = link.traffic()
        self.monitor.socket = {"in": before[0] + received, "out": before[1] + sent}


async def _answer(link: Link, message: Publish) -> None:
    with contextlib.suppress(LinkDown):  # whoever listens to the link hears of it
        await link.publish(message)
