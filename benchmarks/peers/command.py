"""The command `python -m benchmarks peers`: which parts, how long, and where the results go."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.peers import codecs, simulation, tables, workloads
from benchmarks.peers.environments import REQUIREMENTS, InstallError, environment
from benchmarks.peers.processes import wait_for_quiet
from ofediq.errors import DataError
from ofediq.simulation import native_status

FOLDER = Path(__file__).parents[1]
RESULTS = FOLDER / "results" / "peers.json"
README = FOLDER / "README.md"
PARTS = (*(peer.name for peer in simulation.PEERS), "growth", "codecs")
QUICK = ("torch-loop", "torch-vmap")
QUICK_WORKS = ("Model I, FedOGD", "Model I, OFedIQ 99 %")


def run(arguments: Sequence[str]) -> int:
    """Measure the parts that are named, or all; print the tables, and keep the results unless it was quick."""
    given = _parse(arguments)
    if given.table:
        print(_publish(json.loads(RESULTS.read_text())))
        return 0
    parts = given.parts or (QUICK if given.quick else PARTS)
    results: dict[str, Any] = {} if given.quick or not RESULTS.exists() else json.loads(RESULTS.read_text())
    print(native_status(), flush=True)
    results |= _circumstances(parts, results)
    for part, found in _measure(parts, given):
        results[part] = found if part == "codecs" else merged(results.get(part), found)
        if not given.quick:
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(_rounded(results), indent=1) + "\n")
    print(render(results) if given.quick else _publish(results))
    return 0


def render(results: dict[str, Any]) -> str:
    """All tables as Markdown."""
    pieces = [tables.machine(results)]
    compared, counts = results.get("simulation", []), results.get("growth", [])
    everything = tables.with_limits([*compared, *counts])
    rows, grown = everything[: len(compared)], everything[len(compared) :]
    if rows:
        pieces += ["### Time per step, as a multiple of ofediq's", tables.ratios(rows)]
        pieces += ["### Every measurement", tables.details(rows)]
    if grown:
        pieces += ["### ofediq from 100 to 100,000 clients", tables.growth(grown)]
    if "codecs" in results:
        found = results["codecs"]
        pieces += ["### Codecs, D = 34,826", f"One core; load {found['load']:.1f} before the measurement."]
        pieces += [tables.codecs(found["codecs"])]
        pieces += [f"- {name}: {problem}" for name, problem in found["problems"].items()]
        pieces += ["### Codecs, Gaussian vectors of other sizes", tables.sizes(found["codecs"])]
    return "\n\n".join(pieces)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"all, or some of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a minute or so; results are printed, not kept")
    parser.add_argument("--table", action="store_true", help="only write the README's tables again")
    parser.add_argument("--seconds", type=float, help="for each peer on each workload")
    parser.add_argument("--patience", type=float, default=0.0, help="seconds to wait for a quiet machine")
    parser.add_argument("--work", action="append", help="only workloads whose name has this in it")
    given = parser.parse_args(list(arguments))
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return given


def _measure(parts: Sequence[str], given: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Results as they come: the name of their part, and rows of the simulation or of its growth, or all codecs."""
    bounds = simulation.Bounds(given.seconds or (4.0 if given.quick else None), given.patience)
    peers = [peer for peer in simulation.PEERS if peer.name in parts]
    works = workloads.catalogue()
    if given.work:
        works = [work for work in works if any(text in work.name for text in given.work)]
    elif given.quick:
        works = [replace(work, steps=32) for work in works if work.name in QUICK_WORKS]
    for work in works if peers else []:
        try:
            yield "simulation", simulation.compare(peers, work, bounds)
        except DataError as error:
            print(f"{work.name}: left out ({error})", flush=True)
    sizes = workloads.growth() if "growth" in parts else []
    for work in sizes[:2] if given.quick else sizes:
        yield "growth", [simulation.grow(work, bounds)]
    if "codecs" in parts:
        wait_for_quiet(bounds.patience)
        yield "codecs", codecs.compare(given.quick)


def merged(before: list[Any] | None, now: list[Any]) -> list[Any]:
    """Rows of this run in place of older ones of the same workload and program; in the tables' order."""
    rows = {(row["workload"], row["program"]): row for row in [*(before or []), *now]}
    works = [*workloads.catalogue(), *workloads.growth()]
    programs = ["ofediq", *(peer.name for peer in simulation.PEERS)]
    return [
        rows[work.name, program] for work in works for program in programs if (work.name, program) in rows
    ]


def _circumstances(parts: Sequence[str], before: dict[str, Any]) -> dict[str, Any]:
    """Machine, date, versions."""
    versions = before.get("versions", {}) | {
        "ofediq": {name: metadata.version(name) for name in ("ofediq", "jax", "numpy", "zstandard")}
    }
    wanted = {peer.environment for peer in simulation.PEERS if peer.name in parts}
    wanted |= set(codecs.SCRIPTS) if "codecs" in parts else set()
    for name in sorted(wanted & set(REQUIREMENTS)):
        try:
            versions[name] = environment(name).versions()
        except InstallError as error:
            print(f"{name}: {error}")
    where = f"{platform.system()}, Python {platform.python_version()}"
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores ({_processor()}), {where}",
        "versions": versions,
    }


def _processor() -> str:
    """Its name and vector units, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    facts = {key.strip(): value.strip() for key, value in fields.items()}
    units = (
        "AVX-512"
        if "avx512f" in facts.get("flags", "")
        else "AVX2"
        if "avx2" in facts.get("flags", "")
        else ""
    )
    return " ".join(filter(None, (facts.get("model name", platform.machine()), units)))


def _rounded(value: Any) -> Any:
    """Four significant digits: the file is small, and nothing is known better."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def _publish(results: dict[str, Any]) -> str:
    text = render(results)
    tables.write(README, text)
    return text


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
