"""Hostile members against the live guard: accuracy lost, over three seeds.

Server, clients, codec and guard are those of a live federation, joined by function calls instead of a broker. The
simulator runs the same attacks with `ofediq run --attack "flip(share=0.1, size=990)" --combine krum`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import table
from ofediq import methods
from ofediq.federation import Learner, ModelSpec, Rules, coordinate
from ofediq.federation.protocol.coordinator import Coordinator, Save
from ofediq.federation.protocol.messages import Publish, split_topic, write_json
from ofediq.methods import Method
from ofediq.methods.attacks import Hostile
from ofediq.models import softmax
from ofediq.streams import Stream, load, partition

CLIENTS, STEPS, SEEDS = 20, 240, 3
SPEC = ModelSpec("softmax", (8, 8), "classification", classes=10)
METHODS = {
    "FedOGD": methods.fedogd(0.3),
    "OFedIQ, p = 0.3": methods.ofediq(0.3, 3, 14, 1, 0.3),
    "OFedGrid, 5 %": methods.ofedgrid(0.05 * 32 * 650 * CLIENTS, None, 0.3),
}
ATTACKS: dict[str, str | None] = {
    "sign flipped, 990 times": "flip(size=990)",
    "1000 times": "scale(size=1000)",
    "sign flipped": "flip",
    "sign flipped, 1.4 times": "flip(size=1.4)",
    "one direction": "constant",
    "random labels": None,
}


def bad(share: float) -> list[int]:
    """The hostile clients."""
    return [k for k in range(CLIENTS) if (37 * k) % 100 < 100 * share]


def mislabelled(stream: Stream, share: float) -> Stream:
    """The stream in which hostile clients see random labels."""
    order, data = stream.order.copy(), stream.dataset
    order[:, bad(share)] += len(data)
    labels = np.random.default_rng(0).integers(0, 10, len(data)).astype(data.y.dtype)
    twice = replace(data, x=np.concatenate([data.x, data.x]), y=np.concatenate([data.y, labels]))
    return Stream(twice, order)


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


def accuracy(method: Method, attack: str | None, share: float, seed: int, clip: float | None) -> float:
    """Of the last model, on all samples."""
    data = load("digits")
    stream = partition(data, clients=CLIENTS, steps=STEPS, seed=seed)
    if share and attack is None:
        stream = mislabelled(stream, share)
    names = tuple(f"c{k}" for k in range(CLIENTS))
    rules = Rules(roster=names, rounds=STEPS, min_clients=CLIENTS, clip=clip)
    server = coordinate("f", method, SPEC, rules, seed)
    learners = {name: Learner("f", name) for name in names}
    wires = Wires(server, learners, stream)
    if share and attack is not None:
        harm = Hostile(method.compress, **{"share": share, **methods.attack(attack)})
        harmful(learners, harm)
    wires.run()
    _, errors = softmax(64, 10).evaluate(server.params, data.x, data.y)
    return 1 - float(np.mean(errors))


def harmful(learners: dict[str, Learner], harm: Hostile) -> None:
    """Every client compresses with `harm`, which changes the updates of the hostile ones."""
    for learner in learners.values():
        honest: Callable[..., Any] = learner._on_task

        def on_task(task: Any, honest: Callable[..., Any] = honest) -> Any:
            return honest(replace(task, method=replace(task.method, compress=harm)))

        learner._on_task = on_task  # type: ignore[method-assign]  # a client of bad will


def measure(seeds: int = SEEDS) -> list[list[str]]:
    """A row per method and attack: points lost with one hostile client in ten, and with three."""
    rows = []
    for name, method in METHODS.items():
        plain = [accuracy(method, None, 0, seed, None) for seed in range(seeds)]
        guarded = [accuracy(method, None, 0, seed, 20.0) for seed in range(seeds)]
        rows.append([f"{name}: nobody", f"{np.mean(guarded):.3f}", *[f"{_lost(plain, guarded):.1f}"] * 2])
        print("  ".join(rows[-1]), flush=True)
        for title, attack in ATTACKS.items():
            lost = []
            for share in (0.1, 0.3):
                found = [accuracy(method, attack, share, seed, 20.0) for seed in range(seeds)]
                lost.append(f"{_lost(guarded, found):.1f}")
            rows.append([f"{name}: {title}", f"{np.mean(found):.3f}", *lost])
            print("  ".join(rows[-1]), flush=True)
    return rows


def _lost(before: list[float], after: list[float]) -> float:
    return 100 * float(np.mean(before) - np.mean(after))


def main() -> None:
    """Measure and print."""
    logging.disable(logging.WARNING)
    rows = measure()
    print(f"\ndigits, {CLIENTS} clients, {STEPS} rounds, {SEEDS} seeds; 'nobody' is the guard's own cost\n")
    print(table([["attack", "accuracy at 30 %", "points lost, 1 in 10", "3 in 10"], *rows]))


if __name__ == "__main__":
    main()
