"""Run one process with a time limit, and watch its memory, and how busy others keep the machine meanwhile."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PAUSE = 0.3  # seconds between two looks


@dataclass(frozen=True)
class Finished:
    """How a process ended.

    Attributes:
        code: its exit code; None if it was stopped at the limit.
        log: what it wrote to standard error.
        memory: bytes at the peak, with its children; 0 where the system does not tell.
        started: the clock when it was started.
        others: the share of all cores' time that other processes had meanwhile.
    """

    code: int | None
    log: str
    memory: int
    started: float
    others: float


def bounded(
    command: Sequence[str], limit: float, log: Path, extra: Mapping[str, str] | None = None
) -> Finished:
    """Run `command` for at most `limit` seconds; whatever it has started ends with it."""
    started, memory = time.time(), 0
    own: dict[int, float] = {}
    busy, ended = _busy(), _ended_children()
    family: dict[int, str] = {}
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, **(extra or {})},
            start_new_session=True,
        )
        try:
            while process.poll() is None and time.time() - started < limit:
                family |= (now := descendants(process.pid))
                memory = max(memory, peak(set(now)))
                own |= {pid: max(own.get(pid, 0.0), _seconds(pid)) for pid in now}
                time.sleep(PAUSE)
        finally:
            over = process.poll() is None
            _end(family | (descendants(process.pid) if over else {}))
            process.wait()
    used = max(sum(own.values()), _ended_children() - ended)
    spent = (os.cpu_count() or 1) * (time.time() - started)
    others = max(0.0, _busy() - busy - used) / spent
    code = None if over else process.returncode
    return Finished(code, log.read_text(errors="replace"), memory, started, others)


def wait_for_quiet(patience: float, share: float = 0.1) -> None:
    """Wait until others use less than `share` of the cores for two seconds, but not longer than `patience`."""
    begun = time.time()
    while time.time() - begun < patience:
        before, clock = _busy(), time.time()
        time.sleep(2.0)
        if _busy() - before < share * (os.cpu_count() or 1) * (time.time() - clock):
            return


def descendants(pid: int) -> dict[int, str]:
    """`pid`, its children, theirs, and so on, each with the time of its start."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            processes[int(folder.name)] = (int(fields[1]), fields[19])
    family, size = {pid}, 0
    while size < len(family):
        size = len(family)
        family |= {child for child, (parent, _) in processes.items() if parent in family}
    return {member: processes[member][1] for member in family if member in processes}


def _end(family: dict[int, str]) -> None:
    """Those that still run; a number that another process has got since is left alone."""
    for pid, start in family.items():
        with suppress(OSError):
            if descendants(pid).get(pid) == start:
                os.kill(pid, signal.SIGKILL)


def peak(family: set[int]) -> int:
    """Bytes: the peak that the system noted for a single process; what a family has now, shared pages once."""
    if len(family) == 1:
        return _kilobytes(f"/proc/{min(family)}/status", "VmHWM:")
    return sum(_kilobytes(f"/proc/{pid}/smaps_rollup", "Pss:") for pid in family)


def _kilobytes(path: str, field: str) -> int:
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    return 0


def _busy() -> float:
    """Seconds that all cores have worked since the system started, or were taken away by the machine's host."""
    with suppress(OSError):
        user, nice, system, _, _, irq, soft, stolen = Path("/proc/stat").read_text().split()[1:9]
        return sum(map(int, (user, nice, system, irq, soft, stolen))) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _seconds(pid: int) -> float:
    """Processor time of a process."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _ended_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
