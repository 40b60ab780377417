"""Measurements. Every figure is a ratio against something measured in the same run, because machines differ.

`python -m benchmarks` runs all of them, `python -m benchmarks codec` one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


def fastest(work: Callable[[], object], seconds: float = 0.5) -> float:
    """Seconds of the fastest run of `work`, over as many runs as fit into `seconds`, at least three."""
    best, start, runs = float("inf"), time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - before)
        runs += 1
    return best


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process on one core, so that a library with threads is compared with code without.

    A library that counts the cores when it starts must start inside. Where the system cannot do this (it is
    Linux that can), nothing happens.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def table(rows: Iterable[Iterable[object]]) -> str:
    """Rows as text in aligned columns: the first one to the left, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = (
        [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        for row in cells
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)
