"""The time of day by a clock that never jumps."""

from __future__ import annotations

import time

_OFFSET = time.time() - time.monotonic()


def now() -> float:
    """Seconds since 1970 as they were known when the process started, and steady since.

    Deadlines and pauses are differences of such times: setting the system's clock changes none of them.

    >>> first = now()
    >>> now() >= first
    True
    """
    return _OFFSET + time.monotonic()
