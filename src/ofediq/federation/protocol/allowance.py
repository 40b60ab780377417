"""What one member may cost the others: messages to look at, and bits of a common budget."""

from __future__ import annotations

from dataclasses import dataclass, field

from ofediq.methods import Method

SHARE, CARRIED = 3.0, 64
"""A member may use three times an even share of the bits, and save up those of so many rounds."""

MESSAGES, PER_SECOND, PER_ROUND = 64.0, 16.0, 8.0
"""Messages that a member may have saved up, and what it gains with time and with rounds."""


@dataclass
class Allowance:
    """Two purses per member, by name; what exceeds them is dropped unread.

    Args:
        fair: bits per round of all members together; None where members send when they are told to.

    >>> purse = Allowance(fair=1000.0)
    >>> purse.pays("c0", bits=100_000, members=10), purse.pays("c0", bits=10_000, members=10)
    (False, True)
    """

    fair: float | None = None
    rounds: int = 0
    _bits: dict[str, tuple[float, int]] = field(
        default_factory=dict
    )  # spent beyond what was gained, in which round
    _messages: dict[str, tuple[float, float, int]] = field(default_factory=dict)  # left, when, in which round

    @classmethod
    def of(cls, method: Method) -> Allowance:
        """The allowances of a method: bits where members decide themselves and the server keeps a budget."""
        budget: float | None = getattr(getattr(method.server, "budget", None), "bits_per_step", None)
        if budget is None or method.participation.foreseeable:
            return cls()
        return cls(budget * method.mean_window)

    def hears(self, name: str, now: float) -> bool:
        """Whether one more message of this member is looked at."""
        left, when, rounds = self._messages.get(name, (MESSAGES, now, self.rounds))
        gained = PER_SECOND * max(0.0, now - when) + PER_ROUND * (self.rounds - rounds)
        left = min(MESSAGES, left + gained)
        self._messages[name] = (max(0.0, left - 1), now, self.rounds)
        return left >= 1

    def pays(self, name: str, bits: int, members: int) -> bool:
        """Whether this member may still send so many bits; if so they are spent."""
        if self.fair is None:
            return True
        each = SHARE * self.fair / max(1, members)
        spent, rounds = self._bits.get(name, (0.0, self.rounds))
        spent = max(0.0, spent - each * (self.rounds - rounds))
        fits = spent + bits <= CARRIED * each or (spent == 0 and bits <= 2 * CARRIED * each)
        self._bits[name] = (spent + bits if fits else spent, self.rounds)
        return fits

    def closed(self) -> None:
        """A round is over; strangers are forgotten, so that names cost no memory."""
        self.rounds += 1
        if len(self._messages) > 10**5:
            self._messages.clear()
