"""`Rules`: how the rounds of a live federation run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from ofediq.errors import require
from ofediq.federation.names import Name
from ofediq.settings import NonNegative, Seconds, Settings, limited, setting

# That of `ofediq.methods.robust.guard`, which a command's help page must not load.
_CLIP = 20.0

Pace = Literal["asap", "interval"]
_Some = Annotated[int, limited(1, 10**6)]


@dataclass(frozen=True)
class Rules(Settings):
    """How rounds run: `[rounds]` and `[clients]` of federation.toml."""

    pace: Pace = setting(
        "asap", "asap: the next round opens as soon as one closes; interval: every so often.", table="rounds"
    )
    interval: Seconds = setting(1.0, "Seconds from round to round, for that pace.", table="rounds")
    deadline: Seconds = setting(
        10.0, "Seconds after which a round closes without those who are missing.", table="rounds"
    )
    min_clients: _Some = setting(1, "No round opens with fewer clients connected.", table="rounds")
    start_clients: _Some | None = setting(
        None,
        "The first round waits for so many, that of a continued server for `deadline` seconds at most.",
        shown="min_clients",
        table="rounds",
    )
    rounds: Annotated[int, limited(0, 10**15)] | None = setting(
        None, "End after so many; 0 for no end.", shown="no end", key="count", table="rounds"
    )
    roster: Annotated[tuple[Name, ...], Meta(max_length=10**6)] = setting(
        (), "Clients that may take part, numbered in this order.", table="clients"
    )
    open: bool = setting(
        True, "Whether others may register as well.", shown="only where no roster is given", table="clients"
    )
    report_every: Annotated[int, limited(0, 10**6)] = setting(
        1, "Clients report on their predictions every so many rounds; 0: never.", table="rounds"
    )
    secure: bool = setting(
        False,
        "Whether updates are added up unread; needs a method such as secure or private, and 8 clients a round.",
        table="rounds",
    )
    clip: NonNegative | None = setting(
        _CLIP,
        "An update of so many usual lengths, above 1, does not count; 0: everything counts as it is.",
        table="rounds",
    )

    canary: Annotated[float, Meta(ge=0, lt=1)] = setting(
        0.0,
        "Share of clients that a new model or method is tried on first; 0: all get it at once.",
        table="rollout",
    )
    samples: Annotated[int, limited(10, 10**9)] = setting(
        1000, "Predictions on either side after which it is promoted or withdrawn.", table="rollout"
    )
    margin: Annotated[float, Meta(ge=0, le=10)] = setting(
        0.05, "By how much its error may be above what the others' promises.", table="rollout"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rounds", "clip"):
            object.__setattr__(self, name, getattr(self, name) or None)
        require(self.clip is None or self.clip > 1, "clip", "must be above 1, or 0 for none", self.clip)
        require(len(set(self.roster)) == len(self.roster), "roster", "must not repeat a name", self.roster)
        if not self.open:
            require(len(self.roster) > 0, "roster", "must name the clients when `open` is false", ())
            for name in ("min_clients", "start_clients"):
                limit = f"must be at most {len(self.roster)}, the roster's length, when `open` is false"
                require((getattr(self, name) or 1) <= len(self.roster), name, limit, getattr(self, name))

    @property
    def hurries(self) -> bool:
        """Whether a round that waits for its deadline would hold up the next one."""
        return self.pace == "asap" or self.interval < self.deadline

    def needed(self, first: bool) -> int:
        """Clients that must be connected before a round opens, which may be the `first` of a server.

        >>> Rules(min_clients=2, start_clients=5).needed(True), Rules(min_clients=2, start_clients=5).needed(False)
        (5, 2)
        """
        return max(self.min_clients, self.start_clients or 1) if first else self.min_clients
