"""What the server does about updates that are valid but too large."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from ofediq.errors import require

CLIP = 1000.0
"""Default limit, in running medians. Honest updates differ by large factors once a model is good: most clients have
little left to say, a few have much. So the limit is wide; it stops what would wreck the model at once."""

REMEMBERED = 512


@dataclass
class Clipping:
    """Scale an update down to `multiple` times the median norm of the last 512 accepted ones.

    Args:
        multiple: above 1; None for no limit.

    >>> guard = Clipping(multiple=10.0)
    >>> guard.factors([1.0, 1.0, 2.0, 1e6])
    [1.0, 1.0, 1.0, 1.5e-05]
    """

    multiple: float | None = CLIP
    norms: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def __post_init__(self) -> None:
        if self.multiple is not None:
            require(self.multiple > 1, "clip", "must be above 1, or left out", self.multiple)

    def factors(self, norms: Iterable[float]) -> list[float]:
        """What each update of a round is multiplied by; the round's own norms count for the median."""
        norms = list(norms)
        self.norms.extend(norm for norm in norms if norm > 0)
        if self.multiple is None or not self.norms:
            return [1.0] * len(norms)
        limit = self.multiple * median(self.norms)
        return [1.0 if norm <= limit else limit / norm for norm in norms]
