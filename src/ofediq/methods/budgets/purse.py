"""`Purse`: what one member may take of a budget of bits that all members have together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Flags, Numbers
from ofediq.methods.budgets.steered import budget_of
from ofediq.methods.composition import Method

SHARE, CARRIED = 3.0, 64
"""A member may use three times an even share of the bits, and save up those of so many rounds. Who loses most of what
it sends to the guard has one share: three in ten could spend nine tenths of a budget on noise."""

MESSAGES, LEAST = 8, 2048
"""Where that is more, it may save up so many messages of the usual length, and so many bits before one is known: a
tiny budget pays for a message in hundreds of rounds."""

_MEMORY = 16  # messages over which the length of a member's is averaged


class Purse:
    """Bits by member's number; what exceeds them is dropped unread.

    Args:
        fair: bits per round of all members together; None where members send when they are told to.
        each: whether they are those of one member.

    >>> purse = Purse(fair=1000.0)
    >>> purse.pays([0], [100_000], members=10), purse.pays([0, 1], [10_000, 100], members=10)
    (array([False]), array([ True,  True]))
    """

    def __init__(self, fair: float | None = None, *, each: bool = False) -> None:
        self.fair, self.each, self.rounds = fair, each, 0
        self._spent = np.zeros(0)  # beyond what was gained
        self._when = np.zeros(0, np.int64)  # in which round
        self._mean = np.zeros(0)  # length of its messages, also of those that were dropped
        self._typical: float | None = None  # `_usual` of the round: it looks at all members

    @classmethod
    def of(cls, method: Method) -> Purse:
        """That of a method: bits are shared where members decide themselves and the server keeps a budget."""
        budget = budget_of(method)
        if budget is None or method.participation.foreseeable:
            return cls()
        return cls(budget.bits_per_step * method.mean_window, each=budget.each)

    def pays(
        self, numbers: npt.ArrayLike, bits: npt.ArrayLike, members: int, kept: npt.ArrayLike = 1.0
    ) -> Flags:
        """Which of these members, each named once, may still send so many bits; theirs are spent.

        Of their last updates the guard has left `kept`.
        """
        who, costs = np.asarray(numbers, np.int64), np.asarray(bits, np.float64)
        if self.fair is None or not who.size:
            return np.ones(who.size, bool)
        self.grow(int(who.max()) + 1)
        fair = self.fair if self.each else self.fair / max(1, members)
        each = np.maximum(1.0, SHARE * np.asarray(kept)) * fair
        most = np.maximum(CARRIED * each, max(MESSAGES * self._usual(members), LEAST))
        spent = np.maximum(0.0, self._spent[who] - each * (self.rounds - self._when[who]))
        fits = (spent + costs <= most) | ((spent == 0) & (costs <= 2 * most))
        self._spent[who], self._when[who] = np.where(fits, spent + costs, spent), self.rounds
        first = self._mean[who] == 0
        self._mean[who] += (costs - self._mean[who]) / np.where(first, 1, _MEMORY)
        return np.asarray(fits)

    def _usual(self, members: int) -> float:
        """The lower median over members of the length of their messages before this round; who sent none has 0.

        So a minority cannot say what is usual, however early and often it sends.
        """
        if self._typical is None:
            silent = max(0, members - self._mean.size)
            lengths = np.sort(self._mean)
            place = (lengths.size + silent - 1) // 2 - silent
            self._typical = float(lengths[place]) if place >= 0 else 0.0
        return self._typical

    def closed(self) -> None:
        """A round is over."""
        self.rounds, self._typical = self.rounds + 1, None

    def grow(self, members: int) -> None:
        """Make room for so many."""
        missing = members - len(self._spent)
        if missing > 0:
            self._spent = np.concatenate([self._spent, np.zeros(missing)])
            self._when = np.concatenate([self._when, np.full(missing, self.rounds)])
            self._mean = np.concatenate([self._mean, np.zeros(missing)])

    def export(self) -> dict[str, Any]:
        """Everything that continues it, as arrays."""
        return {
            "rounds": np.array(self.rounds),
            "spent": self._spent,
            "when": self._when,
            "mean": self._mean,
        }

    def restore(self, arrays: Mapping[str, Numbers]) -> None:
        """Continue from an earlier `export`."""
        self.rounds = int(arrays["rounds"])
        self._spent, self._when = np.array(arrays["spent"]), np.array(arrays["when"])
        self._mean, self._typical = np.array(arrays.get("mean", np.zeros_like(self._spent))), None
