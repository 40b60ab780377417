"""`Rules`: how the rounds of a live federation run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ofediq.errors import require, require_choice, require_integer, require_positive
from ofediq.federation.names import require_name
from ofediq.federation.protocol.clipping import CLIP

Pace = Literal["asap", "interval"]


@dataclass(frozen=True)
class Rules:
    """How rounds run.

    Attributes:
        pace: `asap`: the next round opens as soon as one closes. `interval`: every `interval` seconds.
        interval: seconds between openings, for that pace.
        deadline: seconds after which a round closes without those who are missing.
        min_clients: no round opens with fewer clients connected.
        start_clients: the first round waits for so many, that of a continued server for `deadline` seconds at most;
            None: `min_clients`.
        rounds: end after so many; None for no end.
        roster: clients that may take part, numbered in this order.
        open: whether others may register as well.
        clip: limit for large updates in running medians; None for none.
    """

    pace: Pace = "asap"
    interval: float = 1.0
    deadline: float = 10.0
    min_clients: int = 1
    start_clients: int | None = None
    rounds: int | None = None
    roster: tuple[str, ...] = ()
    open: bool = True
    clip: float | None = CLIP

    def __post_init__(self) -> None:
        require_choice("pace", self.pace, ("asap", "interval"))
        require_positive("interval", self.interval)
        require_positive("deadline", self.deadline)
        require_integer("min_clients", self.min_clients, 1)
        if self.start_clients is not None:
            require_integer("start_clients", self.start_clients, 1)
        if self.rounds is not None:
            require_integer("rounds", self.rounds, 1)
        for name in self.roster:
            require_name("roster", name)
        require(len(set(self.roster)) == len(self.roster), "roster", "must not repeat a name", self.roster)
        require(self.open or len(self.roster) > 0, "roster", "must name the clients when `open` is false", ())

    def needed(self, first: bool) -> int:
        """Clients that must be connected before a round opens, which may be the `first` of a server.

        >>> Rules(min_clients=2, start_clients=5).needed(True), Rules(min_clients=2, start_clients=5).needed(False)
        (5, 2)
        """
        return max(self.min_clients, self.start_clients or 1) if first else self.min_clients
