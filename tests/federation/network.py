"""A network inside the test: it delivers, and on request delays, repeats, reorders and loses messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from ofediq.federation.protocol.coordinator import Action, Coordinator, Save
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import Publish, split_topic, write_json
from ofediq.federation.protocol.state import ServerState
from ofediq.streams import Stream

FEDERATION = "test"


class Network:
    """One server and its clients, who replay `stream`: client k is called c<k>."""

    def __init__(
        self, coordinator: Coordinator, stream: Stream, *, seed: int = 0, shuffle: bool = False
    ) -> None:
        self.coordinator = coordinator
        self.stream = stream
        self.learners = {f"c{k}": Learner(FEDERATION, f"c{k}") for k in range(stream.clients)}
        self.now = 0.0
        self.saved: ServerState | None = None
        self.queue: list[tuple[str, Publish]] = []  # to whom, what
        self.retained: dict[str, Publish] = {}
        self.random = random.Random(seed)
        self.shuffle = shuffle
        self.tamper: Callable[[str, Publish], Iterable[Publish]] = lambda name, one: [one]

    def start(self) -> None:
        """Everyone connects."""
        self.act(self.coordinator.connected(self.now))
        for name in self.learners:
            self.arrive(name)

    def arrive(self, name: str) -> None:
        """A client connects, and gets what is retained."""
        self.queue += [(name, kept) for kept in self.retained.values()]
        self.act(self.coordinator.receive(f"{FEDERATION}/here/{name}", write_json(online=True), self.now))

    def leave(self, name: str) -> None:
        """The broker publishes a client's last will."""
        self.act(self.coordinator.receive(f"{FEDERATION}/here/{name}", write_json(online=False), self.now))

    def act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Save):
                self.saved = action.saved
                continue
            if action.retain:
                self.retained[action.topic] = action
            kind, name = split_topic(action.topic, FEDERATION)
            for to in [name] if kind in ("welcome", "whole", "shares") else self.learners:
                if to in self.learners:
                    self.queue.append((to, action))

    def run(self, limit: int = 10**6) -> None:
        """Deliver until nothing moves; where only a deadline can help, let time pass."""
        for _ in range(limit):
            if self.queue:
                self._deliver(self.queue.pop(0))
            elif not self.coordinator.finished and self.coordinator.next_tick() < float("inf"):
                self.now = max(self.now, self.coordinator.next_tick())
                self.act(self.coordinator.tick(self.now))
            else:
                return

    def _deliver(self, item: tuple[str, Publish]) -> None:
        name, message = item
        if name not in self.learners:
            return
        learner = self.learners[name]
        said = learner.receive(split_topic(message.topic, FEDERATION)[0], message.payload)
        number = int(name[1:])
        while learner.hungry:
            t = learner.next_step - 1
            x, y, present = self.stream.step(t)
            said += learner.learn(x[number], y[number])[1] if present[number] else learner.skip()
        for one in said:
            for changed in self.tamper(name, one):
                self.act(self.coordinator.receive(changed.topic, changed.payload, self.now))
        if self.shuffle and self.queue and not message.retain:
            self.random.shuffle(self.queue)
