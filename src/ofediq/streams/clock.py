"""The clock of a file with clients: at which step each row is seen, so that no prediction has seen a later row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Flags, Numbers

# Clients with clocks of their own hardly ever share a moment: below this share of filled places moments are joined.
_FILLED = 0.1


def steps_of(clients: Numbers, time: Numbers | None = None) -> NDArray[np.int64]:
    """The step of each row, from 0: rows of a later step are never earlier, and a client has one row per step.

    - With `time`, a step is one moment of the source. A client with several rows of one moment gets several steps.
      Where the clients keep their own clocks (less than a tenth of all clients have a row at a mean moment), moments
      are joined until a client comes again.
    - Without, the order of the file is the order in time, and a step ends where a client comes again.
    - Without, and with each client's rows in one piece, the file says nothing about the order between clients: each
      one starts at step 0.

    >>> steps_of(np.array([0, 1, 0, 0, 1])).tolist()
    [0, 0, 1, 2, 2]
    >>> steps_of(np.array([0, 0, 1, 0]), time=np.array([1.0, 2.0, 3.0, 3.0])).tolist()
    [0, 1, 2, 2]
    >>> steps_of(np.array([0, 0, 1, 1])).tolist()
    [0, 1, 0, 1]
    """
    rows = np.arange(len(clients)) if time is None else np.argsort(time, kind="stable")
    before = _own_row_before(clients[rows])
    opens = np.zeros(len(rows), np.bool_)
    if time is None:
        if np.count_nonzero(np.diff(clients)) == len(np.unique(clients)) - 1:
            return _counted(clients)
    else:
        moments = np.concatenate([[False], np.diff(time[rows]) > 0])
        places = (1 + np.count_nonzero(moments)) * len(np.unique(clients))
        if len(rows) >= _FILLED * places:
            opens = moments
    steps = np.empty(len(rows), np.int64)
    steps[rows] = _joined(opens, before)
    return steps


def _own_row_before(clients: Numbers) -> NDArray[np.int64]:
    """The place of the same client's row before each row; -1 for its first."""
    by_client = np.argsort(clients, kind="stable")
    same = np.concatenate([[False], np.diff(clients[by_client]) == 0])
    before = np.full(len(clients), -1, np.int64)
    before[by_client[1:]] = np.where(same[1:], by_client[:-1], -1)
    return before


def _joined(opens: Flags, before: NDArray[np.int64]) -> NDArray[np.int64]:
    """Steps of rows in time order: a new one where it must open, or where a client comes again."""
    steps, start, step = np.empty(len(opens), np.int64), 0, 0
    for row, (must, own) in enumerate(zip(opens.tolist(), before.tolist(), strict=True)):
        if must or own >= start:
            start, step = row, step + (row > 0)
        steps[row] = step
    return steps


def _counted(clients: Numbers) -> NDArray[np.int64]:
    """How many rows of its client came before each row."""
    by_client = np.argsort(clients, kind="stable")
    lengths = np.bincount(clients)
    counted = np.empty(len(clients), np.int64)
    counted[by_client] = np.arange(len(clients)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return counted
