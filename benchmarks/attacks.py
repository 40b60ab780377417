"""Hostile members against the guard: what they cost, over three seeds.

Rounds, compressors, server rules, guard and purse are those of a federation, run in one process by `Swarm`; a test
holds its models against those of the live protocol. `python -m benchmarks.attacks FedOGD OFedIQ` tries some methods,
`python -m benchmarks.attacks memory` those with members who remember what they said, `python -m benchmarks.attacks
others` other federations. `ofediq run --attack "flip(share=0.1, size=990)"` runs the simplest ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import table
from ofediq import methods
from ofediq.methods import Compressor, Method, Terms, make
from ofediq.methods.combine import Guarded
from ofediq.methods.robust.guard import Guard
from ofediq.models import Model, linear, softmax
from ofediq.streams import Stream, load, partition, synthetic
from ofediq.swarm import Swarm

Floats = npt.NDArray[np.float64]
STEPS, SEEDS = 240, 3


# What hostile members do -----------------------------------------------------------------------------------------


@dataclass
class Coalition:
    """The hostile members of a federation: they read everything, and send at once."""

    numbers: npt.NDArray[np.int64]
    models: list[Floats] = field(default_factory=list)  # of all rounds
    first: dict[int, Floats] = field(default_factory=dict)  # updates by number
    rounds: int = 0
    guard: Callable[[], Guard | None] = lambda: None


@dataclass(frozen=True)
class Round:
    """What they know when they send."""

    coalition: Coalition
    own: Floats  # [n, dim], what honest members in their place would send
    others: Floats  # [m, dim], what honest members send; the own ones where there are none
    who: npt.NDArray[np.int64]  # [n]

    @property
    def usual(self) -> float:
        """The median length of the others' updates."""
        return float(np.median(np.linalg.norm(self.others, axis=1)))

    def all(self, vector: Floats) -> Floats:
        """Everyone sends the same."""
        return np.tile(vector, (len(self.own), 1))


Act = Callable[[Round], Floats]


def times(factor: float) -> Act:
    """Their updates times a number."""
    return lambda now: factor * now.own


def one_direction(size: float) -> Act:
    """Always the same direction, drawn once, of so many usual lengths."""

    def act(now: Round) -> Floats:
        drawn = np.random.default_rng(7).standard_normal(now.own.shape[1])
        return now.all(size * now.usual * _unit(drawn))

    return act


def drift(now: Round) -> Floats:
    """Honest updates, and more and more of a direction."""
    return now.own + min(1.5, now.coalition.rounds / 80) * one_direction(1.0)(now)


def noise(now: Round) -> Floats:
    """Random directions of fifteen usual lengths, all bits of which must be paid for."""
    drawn = np.random.default_rng(now.coalition.rounds).standard_normal(now.own.shape)
    sent: Floats = 15 * now.usual * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return sent


def against_the_moves(now: Round) -> Floats:
    """What takes back the moves of the last ten models."""
    models = now.coalition.models
    return now.all(now.usual * _unit(models[-1] - models[-min(len(models), 10)]))


def against_the_others(now: Round) -> Floats:
    """Against what the others say in this round, 1.4 times as long as usual."""
    return now.all(-1.4 * now.usual * _unit(now.others.mean(0)))


def little(now: Round) -> Floats:
    """The others' mean, one deviation towards zero and beyond in each coordinate."""
    mean = now.others.mean(0)
    return now.all(mean - np.sign(mean) * now.others.std(0))


def replay(now: Round) -> Floats:
    """The first of their updates, for ever."""
    first = now.coalition.first
    return np.array([first.setdefault(int(k), row) for k, row in zip(now.who, now.own, strict=True)])


def by_turns(now: Round) -> Floats:
    """Honest and hostile in turns."""
    return now.own if now.coalition.rounds // 8 % 2 else -4 * now.own


def home(now: Round) -> Floats:
    """Back to the first model, 1.4 times as long as usual."""
    models = now.coalition.models
    return now.all(1.4 * now.usual * _unit(models[-1] - models[0]))


def min_max(now: Round) -> Floats:
    """The others' mean, as far back as two of them are apart at most (V. Shejwalkar, A. Houmansadr, 2021)."""
    mean, size = now.others.mean(0), 0.0
    apart = np.linalg.norm(now.others[:, None] - now.others[None], axis=2).max()
    for step in 50 * now.usual * 0.5 ** np.arange(1, 31):
        sent = mean - (size + step) * _unit(mean)
        size += step * (np.linalg.norm(sent - now.others, axis=1).max() <= apart)
    return now.all(mean - size * _unit(mean))


def hidden(now: Round) -> Floats:
    """Against the others' sum, each behind noise of its own."""
    drawn = np.random.default_rng(now.coalition.rounds).standard_normal(now.own.shape)
    noises = now.usual * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    sent: Floats = noises - 0.7 * now.usual * _unit(now.others.mean(0))
    return sent


def mirror(now: Round) -> Floats:
    """Each the opposite of what one of the others sends."""
    return -1.2 * now.others[np.arange(len(now.own)) % len(now.others)]


def late(first: int, act: Act) -> Act:
    """Honest in so many rounds, then something else."""
    return lambda now: now.own if now.coalition.rounds < first else act(now)


ACTS: dict[str, Act] = {
    "sign flipped, 990 times": times(-990),
    "1000 times": times(1000),
    "sign flipped": times(-1),
    "sign flipped, 1.4 times": times(-1.4),
    "sign flipped, 19 times": times(-19),
    "nothing": times(0),
    "noise, 15 times": noise,
    "one direction": one_direction(1.4),
    "one direction, 10 times": one_direction(10.0),
    "a slow drift": drift,
    "against the last moves": against_the_moves,
    "against the others": against_the_others,
    "a little is enough": little,
    "an old update again": replay,
    "a sleeper": late(40, one_direction(1.4)),
    "honest by turns": by_turns,
    "back to the first model": home,
    "min-max": min_max,
    "hidden in noise": hidden,
    "mirrors": mirror,
    "sign flipped after 100": late(100, times(-1)),
    "against the others after 100": late(100, against_the_others),
}
LABELS: dict[str, Callable[[npt.NDArray[Any], int], npt.NDArray[Any]]] = {
    "random labels": lambda labels, step: np.random.default_rng(step).permutation(labels),
    "labels flipped": lambda labels, step: labels.max() - labels if labels.dtype.kind == "i" else -labels,
    "one label": lambda labels, step: np.zeros_like(labels),
}
SOME = (
    "sign flipped, 990 times",
    "sign flipped",
    "one direction",
    "against the last moves",
    "against the others",
    "noise, 15 times",
    "a little is enough",
    "a slow drift",
    "honest by turns",
    "labels flipped",
)
"""The attacks on methods other than FedOGD; on other federations the first five."""

DIFFERENT = (
    *(name for name in SOME if "990" not in name),
    "back to the first model",
    "min-max",
    "hidden in noise",
    "mirrors",
    "sign flipped after 100",
    "against the others after 100",
)
"""The attacks where members' data differ."""


@dataclass(frozen=True)
class Harm(Compressor):
    """Compresses what hostile members send in the place of their updates."""

    inner: Compressor
    coalition: Coalition
    act: Act
    model: Callable[[], Floats]

    signal = property(lambda self: self.inner.signal)
    coding = property(lambda self: self.inner.coding)

    def check(self, dim: int) -> None:
        """As the inner one."""
        self.inner.check(dim)

    def formula_bits(self, dim: int) -> float:
        """As the inner one."""
        return self.inner.formula_bits(dim)

    def apply(self, updates: Any, address: Any, signal: Any = None) -> Any:
        """What the server decodes."""
        group, who = self.coalition, np.asarray(address.client)
        bad = np.isin(who, group.numbers)
        group.rounds += 1
        group.models.append(self.model())
        sent = np.array(updates, np.float64)
        if bad.any():
            others = sent[~bad] if not bad.all() else sent[bad]
            sent[bad] = self.act(Round(group, sent[bad], others, who[bad]))
        return self.inner.apply(sent.astype(np.float32), address, signal)

    def encode(self, update: Any, address: Any, signal: float | None = None) -> Any:
        """Of the live protocol, which does not come here."""
        raise NotImplementedError

    def decode(self, encoded: Any, dim: int, address: Any, signal: float | None = None) -> Any:
        """Of the live protocol, too."""
        raise NotImplementedError


def _unit(vector: Any) -> Floats:
    found: Floats = vector / max(float(np.linalg.norm(vector)), 1e-30)
    return found


# Federations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Federation:
    """A stream for each seed, a model, and how large errors are without one."""

    deal: Callable[[int], Stream]
    model: Model
    clients: int
    scale: float = 1.0  # of errors: a point is a hundredth of it

    def method(self, name: str) -> Method:
        """By its name in the tables."""
        terms, size = Terms(0.1, self.model.dim, self.clients, STEPS), 0.3 if self.model.dim > 10 else 0.1
        if name == "FedOGD":
            return methods.fedogd(size)
        if name == "untuned OFedGrid":
            return methods.untuned(make("ofedgrid", terms), clients=self.clients)
        return make(name.lower(), terms, step_size=size)


def _digits(clients: int, **how: Any) -> Federation:
    def deal(seed: int) -> Stream:
        return partition(load("digits"), clients=clients, steps=STEPS, seed=seed, **how)

    return Federation(deal, softmax(64, 10), clients)


def _line(clients: int) -> Federation:
    """Linear regression with five parameters."""

    def deal(seed: int) -> Stream:
        return synthetic(clients=clients, steps=STEPS, features=4, seed=seed)

    return Federation(deal, linear(4), clients, float(np.var(deal(0).y)))


METHODS = ("FedOGD", "OFedIQ", "OFedGrid", "OFedDuplex")
MEMORY = ("scaffold", "vrlsgd", "laq", "lasg", "diana", "ef21_sgdm", "topk_ef")
OTHERS: dict[str, Federation] = {
    "5 clients": _digits(5),
    "10 clients": _digits(10),
    "100 clients": _digits(100),
    "each Dirichlet(0.3) classes": _digits(20, kind="dirichlet", alpha=0.3),
    "each two classes": _digits(20, kind="label", labels=2),
    "five parameters, 10 clients": _line(10),
    "five parameters, 50 clients": _line(50),
}


def hostile(clients: int, share: float) -> npt.NDArray[np.int64]:
    """The numbers of the hostile ones, one at least."""
    count = max(1, round(share * clients)) if share else 0
    return np.sort(np.random.default_rng(clients).permutation(clients)[:count])


def error(
    where: Federation,
    method: Method,
    attack: str,
    share: float,
    seed: int,
    *,
    guard: bool = True,
    secret: int = 0,
) -> float:
    """Mean error of honest members' predictions over the second half, in the federation's scale.

    A live server's guard has a `secret`, here it is told.
    """
    stream, bad = where.deal(seed), hostile(where.clients, share)
    if guard:
        method = replace(method, combine=Guarded())
    if attack in ACTS:
        group = Coalition(bad, guard=lambda: swarm._scales.guard if swarm._scales else None)
        harm = Harm(method.compress, group, ACTS[attack], lambda: np.array(swarm.params, np.float64))
        method = replace(method, compress=harm)
    swarm = Swarm(method, where.model, where.clients, seed=seed)
    if swarm._scales is not None:
        swarm._scales.guard.secret = secret
    honest = np.setdiff1d(np.arange(where.clients), bad)
    total = count = 0.0
    for step in range(stream.steps):
        x, y, present = stream.step(step)
        told = np.array(y)
        if attack in LABELS and bad.size:
            told[bad] = LABELS[attack](np.asarray(y), step)[bad]
        errors = swarm.take(np.asarray(x), told, np.asarray(present))
        if step >= stream.steps // 2 and errors is not None:
            total += float(errors[honest].sum())
            count += float(np.asarray(present)[honest].sum())
    return min(total / max(count, 1.0) / where.scale, 1e3)


def row(
    title: str, where: Federation, method: Method, attack: str, base: Sequence[float], seeds: Iterable[int]
) -> list[str]:
    """Points lost with one hostile client in ten, and with three: the mean over seeds, and the worst."""
    cells = [f"{title}: {attack}"]
    for share in (0.1, 0.3):
        found = [error(where, method, attack, share, seed) for seed in seeds]
        lost = 100 * (np.array(found) - base)
        cells.append(f"{lost.mean():.1f} ({lost.max():.1f})")
    print("  ".join(cells), flush=True)
    return cells


def rows(title: str, where: Federation, name: str, attacks: Iterable[str], seeds: int) -> list[list[str]]:
    """The guard's own cost, and a row per attack."""
    method = where.method(name)
    plain, base = (
        [error(where, method, "nobody", 0.0, seed, guard=guard) for seed in range(seeds)]
        for guard in (False, True)
    )
    own = 100 * (np.array(base) - plain)
    first = [f"{title}: nobody ({1 - np.mean(base):.3f})", *[f"{own.mean():.1f} ({own.max():.1f})"] * 2]
    print("  ".join(first), flush=True)
    return [first, *(row(title, where, method, attack, base, range(seeds)) for attack in attacks)]


def main(named: Sequence[str] = ()) -> None:
    """Measure and print."""
    found = []
    home = _digits(20)
    for name in [name for name in METHODS if not named or name in named]:
        found += rows(name, home, name, [*ACTS, *LABELS] if name == "FedOGD" else SOME, SEEDS)
    for name in MEMORY if not named or "memory" in named else ():
        found += rows(name, home, name, SOME, SEEDS)
    if not named or "others" in named:
        for title, where in OTHERS.items():
            name = "FedOGD" if where.scale == 1.0 else "untuned OFedGrid"
            found += rows(f"{title}, {name}", where, name, DIFFERENT if "each" in title else SOME[:5], SEEDS)
    print(
        f"\n{STEPS} steps, {SEEDS} seeds; points of accuracy (or of the target's variance) that honest members lose,"
    )
    print("mean (worst seed); 'nobody' is what the guard itself costs, and what is reached with it\n")
    print(table([["attack", "1 in 10", "3 in 10"], *found]))


if __name__ == "__main__":
    main(sys.argv[1:])
