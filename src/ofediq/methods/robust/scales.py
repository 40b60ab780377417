"""`Scales`: the guard of a live server in a simulation, which is as safe as a federation then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Array, Flags, Vector
from ofediq.methods.budgets.loudness import UNKNOWN, length, unpack
from ofediq.methods.budgets.purse import Purse
from ofediq.methods.client import Down
from ofediq.methods.combine import Guarded
from ofediq.methods.composition import Method
from ofediq.methods.robust.guard import CLIP, Guard
from ofediq.methods.robust.ledger import Ledger
from ofediq.methods.robust.measures import added
from ofediq.methods.server.rule import Totals

PATIENCE = 4.0
"""Usual times between two updates of a member after which what it said before does not count any more."""


class Yardstick(NamedTuple):
    """What the guard measures lengths with: a unit, and the least that is usual in it."""

    unit: float
    least: float = 0.0


def yardstick(method: Method, down: Down, updates: Sequence[Array], clients: int) -> Yardstick:
    """What a rate does to updates, and the length of an update on the announced grid.

    Lengths are not measured in steps of that grid: before it fits the updates it is orders of magnitude too fine, and
    whatever is cut by it would make it finer still.
    """
    rule = method.participation
    if rule.signal is None:
        divides = rule.foreseeable and method.client.divides
        return Yardstick(1 / float(rule.rates(clients).mean()) if divides else 1.0)
    step = float(unpack(down.scalars[rule.signal])[0])
    if step > UNKNOWN:
        return Yardstick(1.0, step * (rule.proportional or (1.0,))[0])
    norms = sorted(float(length(one)) for one in updates)
    middle = norms[(len(norms) - 1) // 2] if norms else 1.0  # nobody knows a scale yet
    return Yardstick(1.0, min(middle, 1000.0))


def guard_of(method: Method, clip: float | None) -> Guard:
    """The guard of a server; where it goes on adding what members said, silence is judged as well."""
    return Guard(clip, regular=method.participation.foreseeable or bool(method.client.kept))


class Weighed(NamedTuple):
    """What the guard leaves of a round, by number."""

    factors: dict[int, float]  # of what each sender wants
    taken: frozenset[int]  # whose updates were taken
    vectors: Mapping[int, Mapping[str, Vector]]  # by name, that count in their place
    weights: dict[int, float]  # by which they are multiplied


def weighed(
    guard: Guard,
    ledger: Ledger | None,
    method: Method,
    down: Down,
    updates: Mapping[int, Mapping[str, Vector]],
    clients: int,
) -> Weighed:
    """What counts of a round's updates, vectors by name, by number; live and simulated alike.

    The `ledger` is that of a server which goes on adding what members said, see `Ledger.of`.
    """
    by = yardstick(method, down, [one["update"] for one in updates.values()], clients)
    if ledger is None:
        factors = guard.weigh(updates, unit=by.unit, least=by.least)
        guard.closed(len(updates), clients)
        weights = {number: factor for number, factor in factors.items() if factor > 0}
        return Weighed(factors, frozenset(weights), dict(updates), weights)
    said = {number: one["update"] for number, one in updates.items()}
    sound = {number: one for number, one in said.items() if ledger.takes(number, one, down)}
    regular = method.participation.foreseeable
    others = [number for number in ledger.silent() if number not in said and guard.reads(number)]
    latest = ledger.latest(sound, () if regular else others, down)
    factors = guard.weigh(
        {number: {"update": vector} for number, vector in latest.items()}, unit=by.unit, least=by.least
    )
    guard.closed(len(latest), clients)
    away = ledger.silent(PATIENCE / max(guard.frequency, 1e-9)) if regular else []
    gone = {number for number in (*ledger.silent(), *said) if not guard.reads(number)}
    gone |= ({*away, *ledger.forgotten()} | said.keys()) - sound.keys()
    found = ledger.counted(sound, factors, down, sorted(gone - factors.keys()))
    vectors = {number: {"update": vector} for number, vector in found.items()}
    judged = {number: factors.get(number, 0.0) for number in updates}
    return Weighed(judged, frozenset(sound), vectors, dict.fromkeys(found, 1.0))


class Scales:
    """What a simulated server knows of its members, and makes of their messages; a live one does so in its tally.

    Args:
        method: what runs, combined by `Guarded`.
        clients: K.
        dim: D.
    """

    def __init__(self, method: Method, clients: int, dim: int) -> None:
        self.method, self.clients, self.dim = method, clients, dim
        clip = method.combine.clip if isinstance(method.combine, Guarded) else CLIP
        self.guard = guard_of(method, clip)
        self.guard.grow(clients, method.client.sends(dim))
        self.ledger = Ledger.of(method.client, dim)
        if self.ledger is not None:
            self.ledger.grow(clients)
        self.purse = Purse.of(method)
        self.purse.grow(clients)

    def totals(
        self,
        down: Down,
        messages: Mapping[str, Vector],
        sent: Flags,
        bits: Vector,
        *,
        step: int,
    ) -> tuple[Totals, Flags]:
        """What the server gets of a round, and whose messages counted, [n].

        Of `messages` [n, ...] those in `sent` [n] came, with so many bits [n].
        """
        read = sent.copy()
        read[list(self.guard.quarantined)] = False
        who = np.flatnonzero(read)
        who = who[self.purse.pays(who, bits[who], self.clients, self.guard.kept(who))]
        self.purse.closed()
        rows = {int(number): {part: one[number] for part, one in messages.items()} for number in who}
        judged = weighed(self.guard, self.ledger, self.method, down, rows, self.clients)
        if self.ledger is not None:
            self.ledger.close()
        vectors = {
            part: added(
                [judged.vectors[number][part] for number in judged.weights], [*judged.weights.values()], size
            )
            for part, size in self.method.client.sends(self.dim).items()
        }
        taken = np.isin(np.arange(len(sent)), list(judged.taken))
        counted, cost = np.int32(len(judged.weights)), np.float32(bits[taken].sum())
        return Totals(vectors, counted, cost, self.clients, np.int32(step)), taken

    def export(self) -> dict[str, Any]:
        """Everything that continues it, as arrays."""
        kept = {} if self.ledger is None else {"ledger": self.ledger.export()}
        return {"guard": self.guard.export(), "purse": self.purse.export(), **kept}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from an earlier `export`."""
        guard = dict(saved["guard"])
        parts = {
            f"{table}/{part}": rows for table in ("room", "usual") for part, rows in guard.pop(table).items()
        }
        self.guard.restore({**guard, **parts})
        self.purse.restore(saved["purse"])
        if self.ledger is not None:
            self.ledger.restore(saved["ledger"])
