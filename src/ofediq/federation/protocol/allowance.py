"""What one member may cost the others: messages to look at, and bits of a common budget."""

from __future__ import annotations

from dataclasses import dataclass, field

from ofediq.methods.budgets.purse import Purse

MESSAGES, PER_SECOND, PER_ROUND = 64.0, 16.0, 8.0
"""Messages that a member may have saved up, and what it gains with time and with rounds."""


@dataclass
class Allowance:
    """Messages by name, bits by number; what exceeds them is dropped unread.

    >>> allowance = Allowance(Purse())
    >>> [allowance.hears("u/pi-03", now=0.0) for _ in range(66)][-3:]
    [True, False, False]
    """

    purse: Purse
    rounds: int = 0
    _messages: dict[str, tuple[float, float, int]] = field(default_factory=dict)  # left, when, in which round

    def hears(self, name: str, now: float) -> bool:
        """Whether one more message under this name, such as that of a member and a kind, is looked at."""
        left, when, rounds = self._messages.get(name, (MESSAGES, now, self.rounds))
        gained = PER_SECOND * max(0.0, now - when) + PER_ROUND * (self.rounds - rounds)
        left = min(MESSAGES, left + gained)
        self._messages[name] = (max(0.0, left - 1), now, self.rounds)
        return left >= 1

    def closed(self) -> None:
        """A round is over; strangers are forgotten, so that names cost no memory."""
        self.rounds += 1
        self.purse.closed()
        if len(self._messages) > 10**5:
            self._messages.clear()
