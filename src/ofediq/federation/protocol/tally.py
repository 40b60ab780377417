"""`Tally`: the updates of a round, weighed by what the guard knows of their senders, and added up."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from ofediq.federation.protocol.keeper import Keeper
from ofediq.federation.protocol.members import Members
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.secured import SecureRound
from ofediq.federation.protocol.state import ServerState
from ofediq.federation.protocol.updates import OpenRound, Update, add_up
from ofediq.methods import Method
from ofediq.methods.privacy import promise_of
from ofediq.methods.robust.ledger import Ledger
from ofediq.methods.robust.scales import guard_of, weighed
from ofediq.methods.server.rule import Totals
from ofediq.randomness import Address

log = logging.getLogger("ofediq.federation")

SILENT = 3
"""Rounds in a row without a sum after which the page says that nothing is learnt."""


class Tally:
    """Adds up rounds.

    Attributes:
        guard: what is known of the senders.
        ledger: what they have said in all, where the server goes on adding it.
    """

    def __init__(
        self, method: Method, dim: int, clip: float | None, members: Members, monitor: Monitor
    ) -> None:
        self.members, self.monitor = members, monitor
        self._empty = 0  # rounds in a row without a sum, where updates are added up unread
        if promise_of(method) is not None:
            clip = (
                None  # a promise is one of sums: what is left of a message has less noise than was promised
            )
        self.guard = guard_of(method, clip)
        self.ledger = None if clip is None else Ledger.of(method.client, dim)

    def restore(self, saved: ServerState, *, goes_on: bool) -> None:
        """Continue from a saved state; `goes_on` if the server has kept what members said."""
        self.guard.restore(saved.below("guard"))
        if self.ledger is not None and goes_on:
            self.ledger.restore(saved.below("ledger"))

    def trusts(self, name: str) -> bool:
        """Whether updates of this member are read."""
        return self.guard.reads(self.members.numbers[name])

    def admit(self, name: str) -> bool:
        """Let a client out of quarantine; whether there is one of this name."""
        if name not in self.members:
            return False
        self.guard.admit(self.members.numbers[name])
        self.monitor.client(name, self.members.numbers[name]).quarantined = False
        self.monitor.touch()
        return True

    def forget(self, name: str) -> None:
        """A member has lost its memory: what it said before leaves the sum."""
        if self.ledger is not None:
            self.ledger.forget(self.members.numbers[name])

    def totals(self, one: OpenRound, keeper: Keeper) -> Totals:
        """What arrived, weighed and combined in the order of numbers; what does not count is left out."""
        if one.secured is not None:
            return self._secure_totals(one, one.secured, keeper)
        numbers, task = self.members.numbers, keeper.task
        names = sorted(one.updates, key=numbers.__getitem__)
        updates = {numbers[name]: one.updates[name] for name in names}
        vectors = {number: update.vectors for number, update in updates.items()}
        found = weighed(self.guard, self.ledger, keeper.method, keeper.state.down, vectors, one.clients)
        counts = [
            Update(dict(found.vectors[number]), updates[number].bits if number in updates else 0)
            for number in found.weights
        ]
        weights = list(found.weights.values())
        totals = add_up(keeper.method, task.dim, counts, weights, one.clients, one.step)
        self._judged(one, {name: found.factors[numbers[name]] for name in names})
        for name in names:
            if numbers[name] not in found.taken:
                del one.updates[name]
        return totals

    def close(self, *, counted: bool) -> None:
        """The round that was added up is over, whether it `counted` or nothing of it did."""
        if self.ledger is not None:
            self.ledger.close(counted=counted)

    def restart(self) -> None:
        """The server and its members start anew, and know nothing of what was said."""
        if self.ledger is not None:
            self.ledger.restart()

    def export(self) -> dict[str, Any]:
        """Everything that a server which takes over needs, as arrays."""
        kept = {} if self.ledger is None else {"ledger": self.ledger.export()}
        return {"guard": self.guard.export(), **kept}

    def _judged(self, one: OpenRound, factors: Mapping[str, float]) -> None:
        """Write down whose updates were cut, and who is in quarantine now."""
        for name, factor in factors.items():
            row = self.monitor.client(name, self.members.numbers[name])
            row.clipped += factor < 1
            if not self.trusts(name) and not row.quarantined:
                row.quarantined = True
                log.warning("client %s is quarantined: `ofediq admit %s` lets it back", name, name)

    def _secure_totals(self, one: OpenRound, secured: SecureRound, keeper: Keeper) -> Totals:
        """The sum that secure aggregation came to; nothing counts if too few stayed, and soon the page says so."""
        total = secured.total(keeper.dim, Address(keeper.seed, one.step, 0))
        bits = sum(update.bits for update in one.updates.values())
        self._empty = self._empty + 1 if total is None else 0
        if self._empty in (0, SILENT):
            sentence = (
                f"no sum came out of the last {SILENT} rounds: {secured.shortage}" if self._empty else None
            )
            if sentence is not None:
                log.warning("server: %s", sentence)
            self.monitor.problem("secure", sentence)
        if total is None:
            one.updates.clear()
            total = np.zeros(keeper.dim, np.float32)
        count = np.int32(len(one.updates))
        return Totals({"update": total}, count, np.float32(bits), one.clients, np.int32(one.step))
