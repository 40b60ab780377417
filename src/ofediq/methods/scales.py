"""`Scales`: the guard of a live server in a simulation, which is as safe as a federation then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Array
from ofediq.methods.client import Down
from ofediq.methods.combine import Guarded
from ofediq.methods.composition import Method
from ofediq.methods.guard import CLIP, Guard
from ofediq.methods.loudness import UNKNOWN, length, unpack
from ofediq.methods.measures import added
from ofediq.methods.purse import Purse
from ofediq.methods.server import Totals


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
        return Yardstick(1.0, step * float(getattr(rule, "spread", 1.0)))
    norms = sorted(float(length(one)) for one in updates)
    middle = norms[(len(norms) - 1) // 2] if norms else 1.0  # nobody knows a scale yet
    return Yardstick(1.0, min(middle, 1000.0))


def weighed(
    guard: Guard,
    method: Method,
    down: Down,
    updates: Mapping[int, Mapping[str, npt.NDArray[np.float32]]],
    clients: int,
) -> dict[int, float]:
    """What the guard leaves of each update of a round, by number, from vectors by name; live and simulated alike."""
    by, rule = yardstick(method, down, [one["update"] for one in updates.values()], clients), method.client
    if rule.kept:
        updates = {
            number: {**one, "update": np.asarray(rule.says(one["update"], down))}
            for number, one in updates.items()
        }
    beside = rule.beside(down)
    return guard.weigh(updates, unit=by.unit, least=by.least, kept=rule.kept, beside=beside)


class Scales:
    """What a simulated server knows of its members, and makes of their messages; a live one does so in its tally.

    Args:
        method: what runs, combined by `Guarded`.
        clients: K.
        parts: names of what clients send.
    """

    def __init__(self, method: Method, clients: int, parts: Sequence[str]) -> None:
        self.method, self.clients = method, clients
        clip = method.combine.clip if isinstance(method.combine, Guarded) else CLIP
        self.guard = Guard(clip, regular=method.participation.foreseeable)
        self.guard.grow(clients, parts)
        if method.client.kept:
            self.guard.keep()
        self.purse = Purse.of(method)
        self.purse.grow(clients)

    def totals(
        self,
        down: Down,
        messages: Mapping[str, npt.NDArray[np.float32]],
        sent: npt.NDArray[np.bool_],
        bits: npt.NDArray[np.float32],
        *,
        step: int,
    ) -> tuple[Totals, npt.NDArray[np.bool_]]:
        """What the server gets of a round, and whose messages counted, [n].

        Of `messages` [n, ...] those in `sent` [n] came, with so many bits [n].
        """
        read = sent.copy()
        read[list(self.guard.quarantined)] = False
        who = np.flatnonzero(read)
        who = who[self.purse.pays(who, bits[who], self.clients)]
        self.purse.closed()
        rows = {int(number): {part: one[number] for part, one in messages.items()} for number in who}
        factors = weighed(self.guard, self.method, down, rows, self.clients)
        self.guard.closed(len(rows), self.clients)
        weights = np.zeros(len(sent), np.float64)
        weights[who] = list(factors.values())
        who = who[weights[who] > 0]
        vectors = {
            part: added([one[number] for number in who], weights[who].tolist(), one.shape[1])
            for part, one in messages.items()
        }
        counted, cost = np.int32(len(who)), np.float32(bits[who].sum())
        return Totals(vectors, counted, cost, self.clients, np.int32(step)), weights > 0

    def export(self) -> dict[str, Any]:
        """Everything that continues it, as arrays."""
        return {"guard": self.guard.export(), "purse": self.purse.export()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from an earlier `export`."""
        guard = dict(saved["guard"])
        parts = {
            f"{table}/{part}": rows for table in ("room", "usual") for part, rows in guard.pop(table).items()
        }
        self.guard.restore({**guard, **parts})
        self.purse.restore(saved["purse"])
