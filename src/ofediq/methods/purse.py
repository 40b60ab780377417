"""`Purse`: what one member may take of a budget of bits that all members have together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.methods.composition import Method

SHARE, CARRIED = 3.0, 64
"""A member may use three times an even share of the bits, and save up those of so many rounds."""


class Purse:
    """Bits by member's number; what exceeds them is dropped unread.

    Args:
        fair: bits per round of all members together; None where members send when they are told to.

    >>> purse = Purse(fair=1000.0)
    >>> purse.pays([0], [100_000], members=10), purse.pays([0, 1], [10_000, 100], members=10)
    (array([False]), array([ True,  True]))
    """

    def __init__(self, fair: float | None = None) -> None:
        self.fair, self.rounds = fair, 0
        self._spent = np.zeros(0)  # beyond what was gained
        self._when = np.zeros(0, np.int64)  # in which round

    @classmethod
    def of(cls, method: Method) -> Purse:
        """That of a method: bits are shared where members decide themselves and the server keeps a budget."""
        budget: float | None = getattr(getattr(method.server, "budget", None), "bits_per_step", None)
        if budget is None or method.participation.foreseeable:
            return cls()
        return cls(budget * method.mean_window)

    def pays(self, numbers: npt.ArrayLike, bits: npt.ArrayLike, members: int) -> npt.NDArray[np.bool_]:
        """Which of these members, each named once, may still send so many bits; theirs are spent."""
        who, costs = np.asarray(numbers, np.int64), np.asarray(bits, np.float64)
        if self.fair is None or not who.size:
            return np.ones(who.size, bool)
        self.grow(int(who.max()) + 1)
        each = SHARE * self.fair / max(1, members)
        spent = np.maximum(0.0, self._spent[who] - each * (self.rounds - self._when[who]))
        fits = (spent + costs <= CARRIED * each) | ((spent == 0) & (costs <= 2 * CARRIED * each))
        self._spent[who], self._when[who] = np.where(fits, spent + costs, spent), self.rounds
        return np.asarray(fits)

    def closed(self) -> None:
        """A round is over."""
        self.rounds += 1

    def grow(self, members: int) -> None:
        """Make room for so many."""
        missing = members - len(self._spent)
        if missing > 0:
            self._spent = np.concatenate([self._spent, np.zeros(missing)])
            self._when = np.concatenate([self._when, np.full(missing, self.rounds)])

    def export(self) -> dict[str, Any]:
        """Everything that continues it, as arrays."""
        return {"rounds": np.array(self.rounds), "spent": self._spent, "when": self._when}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from an earlier `export`."""
        self.rounds = int(arrays["rounds"])
        self._spent, self._when = np.array(arrays["spent"]), np.array(arrays["when"])
