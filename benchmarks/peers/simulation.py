"""Time per step of ofediq and of every peer on the same tasks."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import limits
from benchmarks.peers import workloads
from benchmarks.peers.environments import InstallError, environment, reason
from benchmarks.peers.processes import bounded, wait_for_quiet
from benchmarks.peers.workloads import Prepared, Workload
from ofediq.simulation import simulate

ROOT = Path(__file__).parents[2]
SCRIPTS = "benchmarks.peers.scripts"
GRACE = 240.0  # seconds that a process may take beyond its time: to start, and for its last window
DISTURBED = 0.15  # share of the cores that others may have before a measurement is tried again
Row = dict[str, Any]


@dataclass(frozen=True)
class Bounds:
    """How long things may take.

    Attributes:
        seconds: of each peer on each workload; None for what each peer has by default.
        patience: seconds to wait, and to try again, for a machine that others do not use.
    """

    seconds: float | None = None
    patience: float = 0.0


@dataclass(frozen=True)
class Peer:
    """What is compared with ofediq.

    Attributes:
        name: in the tables and on the command line.
        environment: where it is installed.
        script: what runs there.
        seconds: how long it may run on one workload.
        only: the workloads that it runs; empty for all.
    """

    name: str
    environment: str
    script: str
    seconds: float = 15.0
    only: tuple[str, ...] = ()

    def runs(self, workload: Workload) -> bool:
        """Whether it takes part in `workload`."""
        return not self.only or workload.name in self.only


_WINDOWS_OF_ONE = tuple(work.name for work in workloads.catalogue() if work.period == 1)
PEERS = (
    Peer("torch-loop", "torch", "torch_loop", seconds=20.0),
    Peer("torch-vmap", "torch", "torch_vmap"),
    Peer("torch-tuned", "torch", "torch_tuned"),
    Peer("fedjax", "fedjax", "fedjax_run"),
    Peer("pfl", "pfl", "pfl_run", only=_WINDOWS_OF_ONE),
    Peer(
        "flower",
        "flower",
        "flower",
        seconds=100.0,
        only=("Model I, FedOGD", "Model I, OFedIQ 99 %", "Room MLP, OFedIQ 99 %"),
    ),
)


def compare(peers: Sequence[Peer], work: Workload, bounds: Bounds) -> list[Row]:
    """One row per program; ofediq runs before and after the peers, and its two runs count as one."""
    prepared = workloads.prepare(work)
    chosen = [replace(peer, seconds=bounds.seconds or peer.seconds) for peer in peers if peer.runs(work)]
    with tempfile.TemporaryDirectory() as folder:
        task = workloads.export(prepared, Path(folder))
        speed = limits.speeds()
        before = _ours(task, work, bounds)
        answers = [_peer(peer, task, work, bounds) for peer in chosen]
        after = _ours(task, work, bounds)
        speed = tuple(map(max, speed, limits.speeds()))
    ours = before | {
        "times": before["times"] + after["times"],
        "work": before["work"] + after["work"],
        "others": max(before["others"], after["others"]),
    }
    rows = [_row(one, ours, prepared, speed) for one in (ours, *answers)]
    for row in rows:
        print(f"{row['workload']}: {row['program']}: {_short(row)}", flush=True)
    return rows


def grow(work: Workload, bounds: Bounds) -> Row:
    """ofediq alone."""
    prepared = workloads.prepare(work)
    speed = limits.speeds()
    with tempfile.TemporaryDirectory() as folder:
        ours = _ours(workloads.export(prepared, Path(folder)), work, bounds)
    row = _row(ours, ours, prepared, tuple(map(max, speed, limits.speeds())))
    print(f"{work.name}: {_short(row)}", flush=True)
    return row


def _ours(task: Path, work: Workload, bounds: Bounds) -> Row:
    found = _measure("ofediq", [sys.executable, "-m", "benchmarks.peers.ours"], task, work, 120.0, bounds)
    if "problem" in found:
        raise RuntimeError(f"ofediq {found['problem']}")
    return found


def _peer(peer: Peer, task: Path, work: Workload, bounds: Bounds) -> Row:
    try:
        python = str(environment(peer.environment).python)
    except InstallError as error:
        return {"program": peer.name, "problem": f"does not install here: {error}"}
    return _measure(peer.name, [python, "-m", f"{SCRIPTS}.{peer.script}"], task, work, peer.seconds, bounds)


def _measure(
    name: str, command: list[str], task: Path, work: Workload, seconds: float, bounds: Bounds
) -> Row:
    """The run that others disturbed least; the first one that is quiet enough, or the last in time."""
    begun, best = time.time(), None
    while best is None or (best["others"] > DISTURBED and time.time() - begun < bounds.patience):
        wait_for_quiet(bounds.patience - (time.time() - begun))
        found = _once(name, command, task, work, seconds)
        if "problem" in found:
            return found
        best = found if best is None or found["others"] < best["others"] else best
    return best


def _once(name: str, command: list[str], task: Path, work: Workload, seconds: float) -> Row:
    """Run a script on the task; what it noted until the limit counts."""
    out = task.with_name("figures.json")
    for old in (out, out.with_suffix(".npy")):
        old.unlink(missing_ok=True)
    quiet = {"PYTHONPATH": str(ROOT), "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    call = [*command, str(task), str(out), "--seconds", str(seconds)]
    done = bounded(call, seconds + GRACE, task.with_name("log"), quiet)
    if not out.exists():
        problem = "over the time limit" if done.code is None else reason(done.log)
        return {"program": name, "problem": f"does not run here: {problem}"}
    figures = json.loads(out.read_text())
    skip = figures.get("block", 1)  # the first window or block also compiles
    times = [spent / work.period for spent in figures["times"][skip:]]
    return {
        "program": name,
        "times": times,
        "work": [spent / work.period for spent in figures["work"][skip:]],
        "errors": figures["errors"],
        "params": np.load(out.with_suffix(".npy")),
        "memory": done.memory,
        "start": figures["first"] - done.started - (skip - 1) * work.period * float(np.median(times)),
        "others": done.others,
    }


def _row(found: Row, ours: Row, prepared: Prepared, speed: tuple[float, ...]) -> Row:
    """What is kept of a measurement."""
    work = prepared.workload
    base: Row = {"workload": work.name, "program": found["program"], "dim": prepared.model.dim}
    if "problem" in found:
        return base | {"problem": found["problem"]}
    seconds, reference = float(np.median(found["times"])), float(np.median(ours["times"]))
    steps = len(found["errors"])
    return base | {
        "clients": work.clients,
        "steps": steps,
        "ms": 1e3 * seconds,
        "fastest_ms": 1e3 * float(np.min(found["times"])),
        "cpu_ms": 1e3 * float(np.median(found["work"])),
        "ofediq_cpu_ms": 1e3 * float(np.median(ours["work"])),
        "ratio": seconds / reference,
        "ofediq_ms": 1e3 * reference,
        "mflop": limits.work(prepared.model).per_step(prepared.load) / 1e6,
        "mbyte": limits.bytes_per_step(prepared.load, prepared.features, prepared.model.dim) / 1e6,
        "gflops": speed[0] / 1e9,
        "gbytes": speed[1] / 1e9,
        "error": float(np.mean(found["errors"])) / work.clients,
        "ofediq_error": float(np.mean(ours["errors"][:steps])) / work.clients,
        "task": prepared.task.task,
        "distance": _distance(found["params"], steps, prepared),
        "memory_mib": found["memory"] / 2**20,
        "start_s": found["start"],
        "others": found["others"],
    }


def _distance(params: Any, steps: int, prepared: Prepared) -> float:
    """Between the models after `steps` steps, over how far ofediq's has moved."""
    stream = prepared.stream.head(steps)
    mine = simulate(prepared.method, stream, prepared.model, workloads.SEED).params
    return float(np.linalg.norm(params - mine) / np.linalg.norm(mine - prepared.task.initial))


def _short(row: Row) -> str:
    if "problem" in row:
        return str(row["problem"])
    return f"{row['ms']:.3g} ms per step, {row['ratio']:.3g} x ofediq, {row['steps']} steps"
