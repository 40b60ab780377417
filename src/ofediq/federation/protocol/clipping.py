"""What the server does about updates that are valid but too large."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median_low

from ofediq.errors import require

CLIP = 1000.0
"""Default limit, in running medians. Honest updates differ by large factors once a model is good: most clients have
little left to say, a few have much. So the limit is wide; it stops what would wreck the model at once."""

REMEMBERED = 512
START = 1.0
"""The norm that is assumed before updates have shown theirs."""

ASSUMED = 8
"""The median starts from so many assumed updates of norm `START`; each real one replaces one of them."""


@dataclass
class Clipping:
    """Scale an update down to `multiple` times the median norm of the last 512 accepted ones of earlier rounds.

    A round's own norms do not count for its limit, and an update counts with the norm that it was cut to: who sends
    alone can raise the limit by one `multiple` at a time at most, and not before `ASSUMED` / 2 updates.

    Args:
        multiple: above 1; None for no limit.

    >>> guard = Clipping(multiple=10.0)
    >>> guard.factors([1.0, 1.0, 2.0, 1e6])
    [1.0, 1.0, 1.0, 1e-05]
    """

    multiple: float | None = CLIP
    norms: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def __post_init__(self) -> None:
        if self.multiple is not None:
            require(self.multiple > 1, "clip", "must be above 1, or left out", self.multiple)

    @property
    def limit(self) -> float:
        """The largest norm that is left as it is; infinite without a limit."""
        if self.multiple is None:
            return float("inf")
        return self.multiple * median_low([START] * (ASSUMED - len(self.norms)) + list(self.norms))

    def factors(self, norms: Iterable[float]) -> list[float]:
        """What each update of a round is multiplied by."""
        norms, limit = list(norms), self.limit
        self.norms.extend(min(norm, limit) for norm in norms if norm > 0)
        return [1.0 if norm <= limit else limit / norm for norm in norms]
