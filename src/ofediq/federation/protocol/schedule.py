"""`Schedule`: when rounds of a live federation open, and when they end at the latest."""

from __future__ import annotations

import math

from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.updates import OpenRound
from ofediq.methods import Method


class Schedule:
    """Times of rounds.

    Attributes:
        last_opened: when the last round opened.
        patience: until when the first round waits for `start_clients`.
    """

    def __init__(self, rules: Rules, method: Method) -> None:
        self._rules, self._method = rules, method
        self.last_opened, self.patience = -math.inf, math.inf

    @property
    def started(self) -> bool:
        """Whether this process has opened a round."""
        return self.last_opened > -math.inf

    def too_few(self, present: int, now: float) -> bool:
        """Whether the next round has to wait for clients."""
        return present < self._rules.needed(not self.started and now < self.patience)

    def opens(self, step: int) -> float:
        """When the round after `step` may open."""
        if self._rules.pace == "asap":
            return -math.inf
        return self.last_opened + self._longer(step) * self._rules.interval

    def ends(self, one: OpenRound) -> float:
        """When a round closes, whoever is missing."""
        return one.since + self._longer(one.step) * self._rules.deadline

    def next_opening(self, step: int, present: int) -> float:
        """When a round may open if nobody comes or goes; infinite if never."""
        if present < self._rules.min_clients:
            return math.inf
        if self.too_few(present, -math.inf):
            return self.patience
        return math.inf if self._rules.pace == "asap" else self.opens(step)

    def _longer(self, end: int) -> int:
        """How many times as long as usual the round to the step `end` may take."""
        return 1 if self._method.windows is None or end < 1 else int(self._method.window_to(end))
