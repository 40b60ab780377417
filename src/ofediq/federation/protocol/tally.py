"""`Tally`: the updates of a round, weighed by what the guard knows of their senders, and added up."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from ofediq.federation.protocol.keeper import Keeper
from ofediq.federation.protocol.members import Members
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.secured import SecureRound
from ofediq.federation.protocol.updates import OpenRound, add_up
from ofediq.methods.guard import Guard
from ofediq.methods.scales import weighed
from ofediq.methods.server import Totals
from ofediq.randomness import Address

log = logging.getLogger("ofediq.federation")


class Tally:
    """Adds up rounds.

    Args:
        guard: what is known of the senders.
        members: who they are.
        monitor: where the record goes.
    """

    def __init__(self, guard: Guard, members: Members, monitor: Monitor) -> None:
        self.guard, self.members, self.monitor = guard, members, monitor

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

    def totals(self, one: OpenRound, keeper: Keeper) -> Totals:
        """What arrived, weighed and combined in the order of numbers; what does not count is left out."""
        if one.secured is not None:
            return _secure_totals(one, one.secured, keeper)
        numbers, task = self.members.numbers, keeper.task
        names = sorted(one.updates, key=numbers.__getitem__)
        updates = {numbers[name]: one.updates[name] for name in names}
        vectors = {number: update.vectors for number, update in updates.items()}
        factors = weighed(self.guard, keeper.method, keeper.state.down, vectors, len(self.members))
        self.guard.closed(len(updates), one.clients)
        totals = add_up(
            keeper.method, task.dim, list(updates.values()), list(factors.values()), one.clients, one.step
        )
        self._judged(one, {name: factors[numbers[name]] for name in names})
        return totals

    def _judged(self, one: OpenRound, factors: Mapping[str, float]) -> None:
        """Write down whose updates were cut or left out, and who is in quarantine now."""
        for name, factor in factors.items():
            row = self.monitor.client(name, self.members.numbers[name])
            row.clipped += factor < 1
            if not self.trusts(name) and not row.quarantined:
                row.quarantined = True
                log.warning("client %s is quarantined: `ofediq admit %s` lets it back", name, name)
            if factor == 0:
                del one.updates[name]


def _secure_totals(one: OpenRound, secured: SecureRound, keeper: Keeper) -> Totals:
    """The sum that secure aggregation came to; nothing counts if too few stayed."""
    total = secured.total(keeper.dim, Address(keeper.seed, one.step, 0))
    bits = sum(update.bits for update in one.updates.values())
    if total is None:
        one.updates.clear()
        total = np.zeros(keeper.dim, np.float32)
    count = np.int32(len(one.updates))
    return Totals({"update": total}, count, np.float32(bits), one.clients, np.int32(one.step))
