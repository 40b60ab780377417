"""`Ledger`: what each member has said in all, where a server goes on adding it, and what of that counts.

A message of such a member is a small change of something large: with s_k what it has said so far, m its message, b
what the server must add (`ClientRule.beside`), its latest gradient is g = s_k + m + b. The guard judges g as it
judges the updates of other methods, and leaves the share f of it. Both sides go on with s_k <- s_k + a m (a is
`ClientRule.kept`), so they agree whatever the guard thinks. What is in the server's sum is another number, c_k, and
the message that counts is the one that puts f g there:

    f (s_k + m + b) - b - c_k,   of which c_k keeps the share a

With f = 1 that is m. So what a member had said before it was seen through leaves the sum, and comes back when it is
trusted again; what a member said whose memory is lost leaves it for good. Silence counts as m = 0: where members
speak on demand it says that nothing has changed, and g is judged in every round; where they are told when to send,
whoever is silent for much longer than usual leaves the sum until it speaks. The price is two vectors of D numbers
for each member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ofediq.arrays import Numbers, Vector
from ofediq.methods.client import ClientRule, Down

MOST_SAVED = 2**25
"""Bytes of a ledger that a server writes with its state in every round; a larger one is lost with the server."""


class Ledger:
    """Of one server.

    >>> from ofediq.methods import make
    >>> ledger, down = Ledger(make("laq").client, 1), Down(np.zeros(1), {}, {})
    >>> for factor in (1.0, 0.0, 1.0):
    ...     counts = ledger.counted({0: np.float32([2.0])}, {0: factor}, down)
    ...     ledger.close()
    ...     print(counts[0], end=" ")
    [2.] [-2.] [6.]
    """

    def __init__(self, rule: ClientRule, dim: int) -> None:
        self.rule, self.dim = rule, dim
        self.restart()

    @classmethod
    def of(cls, rule: ClientRule, dim: int) -> Ledger | None:
        """The one that a server needs for clients with this rule; None where it forgets what they said."""
        return cls(rule, rule.sends(dim)["update"]) if rule.kept else None

    def restart(self) -> None:
        """Nobody has said anything."""
        self._said = np.zeros((0, self.dim), np.float32)
        self._held = np.zeros((0, self.dim), np.float32)
        self._known = np.zeros(0, bool)  # who has said anything, and remembers it
        self._counts = np.zeros(0, bool)  # of whom something may count
        self._silent = np.zeros(0, np.int64)  # rounds since it was heard; -1 while nothing of it counts
        self._next: dict[int, tuple[Any, ...]] = {}  # rows by number, if the round counts

    def grow(self, members: int) -> None:
        """Make room for so many members."""
        for name, first in (("said", 0), ("held", 0), ("known", False), ("counts", False), ("silent", -1)):
            table = getattr(self, f"_{name}")
            if len(table) < members:
                more = np.full((members - len(table), *table.shape[1:]), first, table.dtype)
                setattr(self, f"_{name}", np.concatenate([table, more]))

    def silent(self, rounds: float = 0) -> list[int]:
        """Of whom something counts, and who was not heard in more than so many rounds before this one."""
        found: list[int] = np.flatnonzero((self._silent >= 0) & (self._silent >= rounds)).tolist()
        return found

    def forget(self, number: int) -> None:
        """This member remembers nothing of what it said."""
        if number < len(self._known):
            self._known[number] = False

    def forgotten(self) -> list[int]:
        """Whose words are still in the sum, though they remember none of them."""
        found: list[int] = np.flatnonzero(self._counts & ~self._known).tolist()
        return found

    def latest(self, updates: Mapping[int, Vector], others: Iterable[int], down: Down) -> dict[int, Vector]:
        """The latest gradients g, by number: of those who sent these updates, and of some others."""
        beside = self._beside(down)
        found = {number: self._before(number, beside)[0] + beside for number in (*updates, *others)}
        for number, update in updates.items():
            found[number] = found[number] + self._says(update, down)
        return found

    def takes(self, number: int, update: Vector, down: Down) -> bool:
        """Whether everything stays finite with this update."""
        beside = self._beside(down)
        with np.errstate(over="ignore", invalid="ignore"):
            latest = self._before(number, beside)[0] + self._says(update, down) + beside
        return bool(np.isfinite(latest).all())

    def counted(
        self,
        updates: Mapping[int, Vector],
        factors: Mapping[int, float],
        down: Down,
        gone: Iterable[int] = (),
    ) -> dict[int, Vector]:
        """The updates that count, by number, if these shares of gradients do, and nothing of those who are gone.

        Some are of members who sent none.
        """
        beside, share, found = self._beside(down), np.float32(self.rule.kept), {}
        self._next = {}
        for number, factor in {**factors, **dict.fromkeys(gone, 0.0)}.items():
            said, held = self._before(number, beside)
            message = self._says(updates[number], down) if number in updates else np.zeros_like(said)
            whole = factor == 1 and np.array_equal(said, held)
            counts = message if whole else np.float32(factor) * (said + message + beside) - beside - held
            silent = 0 if number in updates else int(self._silent[number])
            left = number not in factors and share == 1  # with less something is left to be taken away
            knows = number in updates or (number < len(self._known) and bool(self._known[number]))
            sums = said + share * message, held + share * counts
            self._next[number] = *sums, -1 if left else silent, knows, knows or not left
            if number in updates or counts.any():
                words = updates[number] if whole else self.rule.worded(counts, down)
                found[number] = np.asarray(words, np.float32)
        return found

    def close(self, *, counted: bool = True) -> None:
        """The round is over; if nothing of it counted, everything is as it was."""
        for number, row in self._next.items() if counted else ():
            self.grow(number + 1)
            self._said[number], self._held[number], self._silent[number] = row[:3]
            self._known[number], self._counts[number] = row[3:]
        self._silent[self._silent >= 0] += 1
        self._next = {}

    def export(self) -> dict[str, Any]:
        """Everything that a server which takes over needs, as arrays; nothing if that is too much for every round.

        A server without it judges messages by themselves, as if nothing had been said before.
        """
        if self._said.nbytes + self._held.nbytes > MOST_SAVED:
            return {}
        return {
            "said": self._said,
            "held": self._held,
            "known": self._known,
            "counts": self._counts,
            "silent": self._silent,
        }

    def restore(self, arrays: Mapping[str, Numbers]) -> None:
        """Continue from an earlier `export`."""
        for name, array in {"counts": arrays.get("known", self._known), **arrays}.items():
            setattr(self, f"_{name}", np.array(array, getattr(self, f"_{name}").dtype))

    def _says(self, update: Vector, down: Down) -> Vector:
        return np.asarray(self.rule.says(update, down), np.float32)

    def _beside(self, down: Down) -> Vector:
        beside = self.rule.beside(down)
        return np.zeros(self.dim, np.float32) if beside is None else np.asarray(beside, np.float32)

    def _before(self, number: int, beside: Vector) -> tuple[Vector, Vector]:
        """What a member has said so far, and what of it counts; of one who has said nothing it makes no gradient."""
        if number >= len(self._known):
            return -beside, -beside
        said = self._said[number] if self._known[number] else -beside
        return said, self._held[number] if self._counts[number] else -beside
