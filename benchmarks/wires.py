"""A server and its clients without a network, for benchmarks of the protocol alone."""

from __future__ import annotations

from typing import Any

from ofediq.federation import Learner, ModelSpec
from ofediq.federation.protocol.coordinator import Coordinator, Save
from ofediq.federation.protocol.messages import Publish, split_topic, write_json
from ofediq.streams import Stream

SPEC = ModelSpec("softmax", (8, 8), "classification", classes=10)


class Wires:
    """A server and its clients without a network."""

    def __init__(self, server: Coordinator, learners: dict[str, Learner], stream: Stream) -> None:
        self.server, self.learners, self.stream = server, learners, stream
        self.queue: list[tuple[str, Publish]] = []
        self.now = 0.0

    def run(self) -> None:
        """Until all rounds are done."""
        self.act(self.server.connected(self.now))
        for name in self.learners:
            topic = f"{self.server.federation}/here/{name}"
            self.act(self.server.receive(topic, write_json(online=True), self.now))
        while not self.server.finished:
            if not self.queue:
                self.now = max(self.now, self.server.next_tick())
                self.act(self.server.tick(self.now))
            while self.queue:
                self.deliver(*self.queue.pop(0))

    def act(self, actions: Any) -> None:
        """What the server says goes to whom it concerns."""
        for action in actions:
            if isinstance(action, Save):
                continue
            _, name = split_topic(action.topic, self.server.federation)
            self.queue += [(to, action) for to in ([name] if name else self.learners)]

    def deliver(self, name: str, message: Publish) -> None:
        """A client hears something, learns, and answers."""
        learner, number = self.learners[name], int(name[1:])
        said = learner.receive(split_topic(message.topic, self.server.federation)[0], message.payload)
        while learner.hungry:
            x, y, _ = self.stream.step(learner.next_step - 1)
            said += learner.learn(x[number], y[number])[1]
        for one in said:
            self.act(self.server.receive(one.topic, one.payload, self.now))
