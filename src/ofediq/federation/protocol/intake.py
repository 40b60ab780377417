"""`Intake`: what members say in a round. It is taken, ignored, or counted as rejected."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ofediq.errors import WireError
from ofediq.federation.protocol.allowance import Allowance
from ofediq.federation.protocol.belief import Belief
from ofediq.federation.protocol.keeper import Keeper
from ofediq.federation.protocol.members import Members
from ofediq.federation.protocol.messages import Publish, UpdateMessage, read_body
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.reports import Report
from ofediq.federation.protocol.tally import Tally
from ofediq.federation.protocol.updates import OpenRound, Update, read_updates
from ofediq.methods.budgets.purse import Purse
from ofediq.randomness import Address

ATTEMPTS = 8
"""So many frames of a member that cannot be read are tried in a round: reading costs time."""


class Intake:
    """Hears members, and knows whom the open round still waits for.

    Attributes:
        round: the open one; None between rounds.
        allowance: what one member may cost the others.
        reports: with the numbers of their senders, since the last round closed.
    """

    def __init__(self, keeper: Keeper, members: Members, tally: Tally, monitor: Monitor) -> None:
        self.round: OpenRound | None = None
        self.allowance = Allowance(Purse.of(keeper.method))
        self.reports: list[tuple[int, Report]] = []
        self._keeper, self._members, self._tally, self._monitor = keeper, members, tally, monitor
        self._strays: set[str] = (
            set()
        )  # clients whose report came outside of its round, since the last closed
        self._belief, self._odd = Belief(keeper.method.period), frozenset[int]()

    def expect(self, name: str) -> None:
        """Whether the open round waits for this client may have changed."""
        one, members = self.round, self._members
        if one is not None:
            due = self._keeper.task.passes if one.due is None else name in one.due
            awaited = due and name in members.present and members.awaited(name)
            (one.waiting.add if awaited and name not in one.heard else one.waiting.discard)(name)

    def take(self, name: str, payload: bytes, now: float) -> None:
        """An update or a report of somebody."""
        if name not in self._members or name in self._members.moving:
            self._monitor.reject(name, "late" if name in self._members else "unknown client")
            return
        self._monitor.client(name, self._members.numbers[name]).last_seen = now
        one = self.round
        if one is not None and name in one.unread:
            self.read_all()
        try:
            said = UpdateMessage.decode(payload, self._keeper.step if one is None else one.step)
            reason = self._objection(name, said)
        except WireError:
            self._malformed(name)
            return
        if reason is not None:
            self._monitor.reject(name, reason)
            if reason == "late":  # it is there, and may be in time when it is waited for
                self._members.greet(name)
                self.expect(name)
        elif said.body and not self._tally.trusts(name):
            self._monitor.reject(name, "quarantined")  # it is heard, but its update is not read
            self._accept(name, said)
        elif said.body and one is not None:
            one.unread[name] = said
            if len(one.unread) >= one.together:
                self.read_all()
        else:
            self._accept(name, said)

    def forget(self, name: str) -> None:
        """A member has lost its memory: what it said leaves the sum, and is left out if it is of the open round."""
        self.read_all()
        if self.round is not None and self.round.secured is None:
            self.round.updates.pop(name, None)
        self._tally.forget(name)

    def read_all(self) -> None:
        """Read the updates that wait for it, in the order in which they came, but those that no budget pays for."""
        one = self.round
        if one is None or not one.unread:
            return
        unread, one.unread = one.unread, {}
        for name in self._unpaid(unread):
            self._monitor.reject(name, "beyond its share")
            self._accept(name, unread.pop(name))
        for (name, said), found in zip(unread.items(), self._read(one, unread), strict=True):
            if isinstance(found, WireError):
                self._malformed(name)
            else:
                self._accept(name, said, found)

    def take_secure(self, name: str, payload: bytes) -> None:
        """Keys, sealed shares or the answer of a member, where updates are added up unread."""
        one = self.round
        if name not in self._members or one is None or one.secured is None or name not in (one.due or ()):
            self._monitor.reject(name, "not due")
            return
        try:
            one.secured.receive(self._members.numbers[name], payload)
        except WireError:
            self._monitor.reject(name, "malformed")

    def advance_secure(self, now: float) -> list[Publish]:
        """What secure aggregation has to say now."""
        one, members = self.round, self._members
        if one is None or one.secured is None:
            return []
        names = {members.numbers[name]: name for name in one.due or ()}
        there = {members.numbers[name] for name in members.present if members.awaited(name)}
        return one.secured.advance(names, there.__contains__, now)

    def closed(self) -> None:
        """The round is over."""
        one, members = self.round, self._members
        if one is not None:
            passing = members.present if self._keeper.task.passes else ()
            awaited = one.due if one.due is not None else frozenset(passing)
            members.missed(awaited - one.heard)
        self.round = None
        self.allowance.closed()
        self._strays.clear()

    def believed(self) -> list[tuple[int, Report]]:
        """What counts of the reports that came since the last round, by number; whose are out of line is marked."""
        numbers = [number for number, report in self.reports if report.samples]
        reports = list(zip(numbers, self._belief.fit(self.reports), strict=True))
        self.reports.clear()
        if self._belief.odd != self._odd:
            self._odd = self._belief.odd
            for row in self._monitor.rows():
                row.odd = row.number in self._odd
        return reports

    def _malformed(self, name: str) -> None:
        if self.round is not None:
            self.round.failed[name] += 1
        self._monitor.reject(name, "malformed")

    def _accept(self, name: str, said: UpdateMessage, decoded: Update | None = None) -> None:
        """What a member said is in order: count it."""
        row = self._monitor.client(name, self._members.numbers[name])
        self._members.heard(name)
        row.present = True
        row.samples += said.report.samples
        row.error += said.report.error
        row.naive += said.report.naive
        self.reports.append((self._members.numbers[name], said.report))
        one = self.round
        if one is None or said.step != one.step:  # a farewell
            self._strays.add(name)
            self.expect(name)
            return
        one.heard.add(name)
        one.waiting.discard(name)
        if decoded is not None:
            row.sent += 1
            one.updates[name] = decoded
            one.arrived += 1
            one.bits += decoded.bits

    def _unpaid(self, said: Mapping[str, UpdateMessage]) -> list[str]:
        """Whose messages cost more than they may, see `Purse`."""
        if self.allowance.purse.fair is None:
            return []
        numbers = [self._members.numbers[name] for name in said]
        bits, kept = [8 * len(one.body) for one in said.values()], self._tally.guard.kept(numbers)
        paid = self.allowance.purse.pays(numbers, bits, len(self._members), kept)
        return [name for name, pays in zip(said, paid.tolist(), strict=True) if not pays]

    def _read(self, one: OpenRound, said: Mapping[str, UpdateMessage]) -> list[Update | WireError]:
        """Updates, or, where they must not be read, the fact that they came; errors where they cannot be."""
        numbers = [self._members.numbers[name] for name in said]
        bodies = [each.body for each in said.values()]
        if one.secured is None:
            address = Address(self._keeper.seed, one.step, np.array(numbers))
            return read_updates(self._keeper.method, bodies, self._keeper.state.down, address)
        found: list[Update | WireError] = []
        for number, body in zip(numbers, bodies, strict=True):
            try:
                encoded = read_body(body, ("update",), one.step)["update"]
                one.secured.take(number, encoded.payload)
                found.append(Update({}, encoded.bits))
            except WireError as error:
                found.append(error)
        return found

    def _objection(self, name: str, said: UpdateMessage) -> str | None:
        """Why a well-formed message is not accepted, if so; its body is not looked at yet."""
        one = self.round
        most = said.report.samples if self._monitor.task == "classification" else math.inf
        if max(said.report.error, said.report.naive) > most:
            return "malformed"
        if not said.body:  # a report alone; that of a client which leaves may come in any round
            known = self._strays if one is None or said.step != one.step else one.heard
            return "duplicate" if name in known else None
        if one is None or said.step < one.step:
            return "late"
        if said.step > one.step:
            return "from the future"
        if name in one.heard:
            return "duplicate"
        if one.failed[name] >= ATTEMPTS:
            return "flood"
        if one.due is not None and name not in one.due:
            return "not due"
        return None
