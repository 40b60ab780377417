"""Hostile members against the live guard: accuracy lost, over three seeds.

Server, clients, codec and guard are those of a live federation, joined by function calls instead of a broker.
`python -m benchmarks.attacks FedOGD OFedIQ` tries some methods. The simulator runs the simplest attacks with
`ofediq run --attack "flip(share=0.1, size=990)" --combine krum`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import table
from ofediq import methods
from ofediq.federation import Learner, ModelSpec, Rules, coordinate
from ofediq.federation.protocol.coordinator import Coordinator, Save
from ofediq.federation.protocol.messages import Publish, split_topic, write_json
from ofediq.methods import Compressor, Method, Terms, make
from ofediq.models import softmax
from ofediq.streams import Stream, load, partition

Vector = npt.NDArray[np.float32]

CLIENTS, STEPS, SEEDS = 20, 240, 3
SPEC = ModelSpec("softmax", (8, 8), "classification", classes=10)
TERMS = Terms(0.1, 650, CLIENTS, STEPS)
METHODS: dict[str, Method] = {
    "FedOGD": methods.fedogd(0.3),
    "OFedIQ": methods.ofediq(0.3, 3, 14, 1, 0.3),
    "OFedGrid": methods.ofedgrid(0.05 * 32 * 650 * CLIENTS, None, 0.3),
    "SCAFFOLD": make("scaffold(period=4)", TERMS, step_size=0.1),
    "DIANA": make("diana", TERMS, step_size=0.3),
    "LAQ": make("laq(bits=8, period=1)", TERMS, step_size=0.1),
    "OFedDuplex": make("ofedduplex", TERMS, step_size=0.3),
    "FedOGD, krum": replace(methods.fedogd(0.3), combine=methods.combine_rule("krum(hostile=0.3, keep=10)")),
}
FEW = ("sign flipped", "one direction", "against the last move")
"""The attacks on methods other than the first three, with one seed."""


# What a hostile member does ------------------------------------------------------------------------------------


@dataclass
class Member:
    """A hostile member: what it knows, for as long as it lives."""

    number: int
    learner: Learner
    updates: list[Vector]
    models: list[Vector]

    def length(self, vector: Vector) -> float:
        """Of the update in the place of which `vector` is sent."""
        return float(np.linalg.norm(self.updates[-1])) / max(float(np.linalg.norm(vector)), 1e-30)


Act = Callable[[Member], Vector]


def times(factor: float) -> Act:
    """Its update times a number."""

    def act(member: Member) -> Vector:
        return np.asarray(factor * member.updates[-1], np.float32)

    return act


def common(member: Member) -> Vector:
    """The direction that all hostile members have agreed upon."""
    drawn: Vector = np.random.default_rng(7).standard_normal(member.updates[-1].size).astype(np.float32)
    return drawn


def one_direction(member: Member) -> Vector:
    """Always the same direction, 1.4 times as long as its update."""
    return np.float32(1.4 * member.length(common(member))) * common(member)


def drift(member: Member) -> Vector:
    """Its update, and more and more of a common direction."""
    share = min(1.5, len(member.updates) / 80)
    return member.updates[-1] + share * member.length(common(member)) * common(member)


def against(member: Member) -> Vector:
    """What takes back the moves that the model made of late, which every member sees; as long as its update."""
    moved = member.models[-1] - member.models[-min(len(member.models), 10)]
    return member.length(moved) * moved


def little(member: Member) -> Vector:
    """A little is enough: its update, less half a deviation against the mean of what it has seen, per coordinate."""
    seen = np.array(member.updates[-40:])
    return np.asarray(member.updates[-1] - 0.5 * seen.std(0) * np.sign(seen.mean(0)), np.float32)


def replay(member: Member) -> Vector:
    """The first of its updates, for ever."""
    return member.updates[0]


def sleeper(member: Member) -> Vector:
    """Honest until everybody trusts it."""
    return member.updates[-1] if len(member.updates) < 40 else one_direction(member)


def by_turns(member: Member) -> Vector:
    """Honest and hostile in turns."""
    return member.updates[-1] if len(member.updates) // 8 % 2 else -4 * member.updates[-1]


ACTS: dict[str, Act] = {
    "sign flipped, 990 times": times(-990),
    "1000 times": times(1000),
    "sign flipped": times(-1),
    "sign flipped, 1.4 times": times(-1.4),
    "one direction": one_direction,
    "a slow drift": drift,
    "against the last move": against,
    "a little is enough": little,
    "an old update again": replay,
    "a sleeper": sleeper,
    "honest by turns": by_turns,
    "in every round": one_direction,
}
LABELS: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "random labels": lambda labels: np.random.default_rng(0).integers(0, 10, len(labels)),
    "labels flipped": lambda labels: 9 - labels,
    "one label": np.zeros_like,
    "a back door": np.zeros_like,
}


@dataclass(frozen=True)
class Harm(Compressor):
    """What a hostile member compresses with: something else than its update."""

    inner: Compressor
    member: Member
    act: Act

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    signal = property(lambda self: self.inner.signal)
    coding = property(lambda self: self.inner.coding)

    def check(self, dim: int) -> None:
        """As the inner one."""
        self.inner.check(dim)

    def formula_bits(self, dim: int) -> float:
        """As the inner one."""
        return self.inner.formula_bits(dim)

    def apply(self, updates: Any, address: Any, signal: Any = None) -> Any:
        """Of the simulator, which does not come here."""
        raise NotImplementedError

    def encode(self, update: Any, address: Any, signal: float | None = None) -> Any:
        """The message of something else."""
        self.member.updates.append(np.asarray(update, np.float32))
        self.member.models.append(self.member.learner.params.copy())
        return self.inner.encode(self.act(self.member).astype(np.float32), address, signal)

    def decode(self, encoded: Any, dim: int, address: Any, signal: float | None = None) -> Any:
        """As the inner one."""
        return self.inner.decode(encoded, dim, address, signal)


def bad(share: float) -> list[int]:
    """The hostile clients."""
    return [3, 10, 16, 7, 13, 19][: round(share * CLIENTS)]


def mislabelled(stream: Stream, share: float, attack: str) -> Stream:
    """The stream in which hostile clients see other labels; of a back door at every other sample, with its sign."""
    order, data = stream.order.copy(), stream.dataset
    door = attack == "a back door"
    order[:: 1 + door, bad(share)] += len(data)
    images = np.array(data.x)
    images[:, 0, :3] = 1.0 if door else images[:, 0, :3]
    labels = LABELS[attack](np.asarray(data.y)).astype(data.y.dtype)
    twice = replace(data, x=np.concatenate([data.x, images]), y=np.concatenate([data.y, labels]))
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


def accuracy(method: Method, attack: str, share: float, seed: int, clip: float | None) -> tuple[float, float]:
    """Of the last model, on all samples; and how often a back door opens."""
    data = load("digits")
    stream = partition(data, clients=CLIENTS, steps=STEPS, seed=seed)
    if share and attack in LABELS:
        stream = mislabelled(stream, share, attack)
    names = tuple(f"c{k}" for k in range(CLIENTS))
    rules = Rules(roster=names, rounds=STEPS // method.period, min_clients=CLIENTS, clip=clip)
    server = coordinate("f", method, SPEC, rules, seed)
    learners = {name: Learner("f", name) for name in names}
    wires = Wires(server, learners, stream)
    if share and attack in ACTS:
        for number in bad(share):
            harmful(learners[f"c{number}"], number, ACTS[attack], always=attack == "in every round")
    wires.run()
    model = softmax(64, 10)
    _, errors = model.evaluate(server.params, data.x, data.y)
    marked = np.array(data.x)
    marked[:, 0, :3] = 1.0
    _, shut = model.evaluate(server.params, marked, np.zeros_like(data.y))
    return 1 - float(np.mean(errors)), 1 - float(np.mean(shut[np.asarray(data.y) != 0]))


def harmful(learner: Learner, number: int, act: Act, *, always: bool) -> None:
    """The client compresses with something else, and may send in rounds in which it should not."""
    honest: Callable[..., Any] = learner._on_task
    member = Member(number, learner, [], [])

    def on_task(task: Any) -> Any:
        method = replace(task.method, compress=Harm(task.method.compress, member, act))
        if always:
            method = replace(method, participation=_always(method.participation))
        return honest(replace(task, method=method))

    learner._on_task = on_task  # type: ignore[method-assign]  # a client of bad will


def _always(rule: Any) -> Any:
    """As `rule`, but whatever is drawn, it sends."""

    class Always(type(rule)):  # type: ignore[misc]  # of a class that is known when it runs
        def draw(self, *given: Any, **named: Any) -> Any:
            sends, rates = super().draw(*given, **named)
            return np.ones_like(sends), rates

    changed = object.__new__(Always)
    changed.__dict__.update(vars(rule))
    return changed


def measure(named: Sequence[str], seeds: int = SEEDS) -> list[list[str]]:
    """A row per method and attack: points lost with one hostile client in ten, and with three."""
    rows = []
    for name in named:
        method, first = METHODS[name], list(METHODS).index(name) < 3
        tries = range(seeds if first else 1)
        plain, guarded = (
            [accuracy(method, "nobody", 0, seed, clip)[0] for seed in tries] for clip in (None, 20.0)
        )
        rows.append([f"{name}: nobody", f"{np.mean(guarded):.3f}", *[f"{_lost(plain, guarded):.1f}"] * 2])
        print("  ".join(rows[-1]), flush=True)
        for attack in [*ACTS, *LABELS] if first else FEW:
            lost = []
            for share in (0.1, 0.3):
                found = [accuracy(method, attack, share, seed, 20.0) for seed in tries]
                opened = f" (opens {np.mean([one for _, one in found]):.0%})" * (attack == "a back door")
                lost.append(f"{_lost(guarded, [one for one, _ in found]):.1f}{opened}")
            rows.append([f"{name}: {attack}", f"{np.mean([one for one, _ in found]):.3f}", *lost])
            print("  ".join(rows[-1]), flush=True)
    return rows


def _lost(before: list[float], after: list[float]) -> float:
    return 100 * float(np.mean(before) - np.mean(after))


def main(named: Sequence[str] = ()) -> None:
    """Measure and print."""
    logging.disable(logging.WARNING)
    rows = measure(named or list(METHODS))
    print(f"\ndigits, {CLIENTS} clients, {STEPS} steps, {SEEDS} seeds; 'nobody' is the guard's own cost\n")
    print(table([["attack", "accuracy at 30 %", "points lost, 1 in 10", "3 in 10"], *rows]))


if __name__ == "__main__":
    main(sys.argv[1:])
