"""What this machine, or the container around this process, gives: cores and memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

_CONTAINER = Path("/sys/fs/cgroup")
_NOBODY_TELLS = 2**50
_TRIM, _MAP = -1, -3  # what glibc's mallopt calls these settings
_KEPT = 2**28


def cores() -> int:
    """How many cores this process may use: its affinity, or the container's share of time if that is less.

    >>> cores() >= 1
    True
    """
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    time, _, period = _limit("cpu.max").partition(" ")
    if time.isdecimal() and period.isdecimal() and int(period):
        here = min(here, -(-int(time) // int(period)))
    return max(1, here)


def memory() -> int:
    """Bytes of memory of this machine, or of the container if that is less; a petabyte where nobody tells.

    >>> memory() > 2**20
    True
    """
    try:
        here = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        here = _NOBODY_TELLS
    container = _limit("memory.max")
    return min(here, int(container)) if container.isdecimal() else here


def keep_freed_memory() -> None:
    """Ask the C library to keep up to 256 MiB that were freed, for whoever needs as much again and again.

    Given back to the system and asked for anew, every page is filled with zeros first. Other C libraries than glibc
    go on as before.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL("libc.so.6")
        for choice in (_TRIM, _MAP):
            library.mallopt(choice, _KEPT)


def _limit(name: str) -> str:
    try:
        return (_CONTAINER / name).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
