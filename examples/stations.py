"""Twelve air quality stations, from one CSV file to a live federation with a page.

Each station gets a CSV file and a client.toml of its own, the server a federation.toml; then everything runs on this
machine over MQTT: the server and its page here, every station as a process of its own. What the stations read is raw:
Kelvin or hectopascal, gaps, no scaling. docs/stations.md explains each file.

    python examples/stations.py beijing_multisite.csv.gz
"""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ofediq.dashboard import page, serve_page
from ofediq.federation import Broker, FederationConfig, Server, assemble, embedded
from ofediq.federation.local.fleet import Fleet

READINGS = ["TEMP", "PRES", "DEWP", "RAIN", "WSPM"]


def split(source: Path, folder: Path, stations: int, hours: int) -> list[str]:
    """The first `hours` rows of the first `stations` stations, a file each; returns their names."""
    rows: dict[str, list[dict[str, str]]] = {}
    with gzip.open(source, "rt", newline="") as file:
        for row in csv.DictReader(file):
            name = row["station"]
            if name not in rows and len(rows) == stations:
                break
            if len(rows.setdefault(name, [])) < hours:
                rows[name].append(row)
    for name, own in rows.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(own[0]))
            writer.writeheader()
            writer.writerows(own)
    return list(rows)


def write_configs(folder: Path, names: list[str], broker: Broker, rounds: int) -> list[Path]:
    """federation.toml and one client.toml per station; returns the latter."""
    where = f'[broker]\naddress = "{broker.address}"\ninsecure = true\n'
    (folder / "federation.toml").write_text(
        f'name = "beijing"\n\n[model]\nnames = {json.dumps(READINGS)}\n\n'
        f"[features]\ngaps = {json.dumps(READINGS)}\ncalendar = true\n"
        f"\n[rounds]\ncount = {rounds}\nstart_clients = {len(names)}\n"
        f"\n[clients]\nroster = {json.dumps(names)}\n\n{where}"
    )
    configs = []
    for name in names:
        configs.append(folder / f"{name}.toml")
        configs[-1].write_text(
            f'name = "{name}"\nfederation = "beijing"\n\n{where}\n[source]\nkind = "csv"\npath = "{name}.csv"\n'
            'target = "PM2.5"\ntime = "year,month,day,hour"\n'
        )
    return configs


async def federate(folder: Path, source: Path, stations: int, hours: int) -> dict[str, Any]:
    """Server, page and stations until all rounds are done; returns what the page shows in the end."""
    names = split(source, folder, stations, hours)
    async with embedded() as broker:
        configs = write_configs(folder, names, broker, rounds=hours * 9 // 10)
        config = FederationConfig.read(folder / "federation.toml")
        coordinator = assemble(config)
        server = Server(coordinator, broker, config.folder, patience=30.0)
        async with serve_page(page(coordinator.monitor), "127.0.0.1", 0) as address:
            print(f"Page: {address}")
            with Fleet(configs, folder) as fleet:
                await server.run()
                await asyncio.to_thread(fleet.sockets)  # they say goodbye
    return coordinator.monitor.snapshot()


def main(source: Path, stations: int = 12, hours: int = 1500, folder: Path | None = None) -> dict[str, Any]:
    """Run it and print what came out."""
    with TemporaryDirectory() as temporary:
        snapshot = asyncio.run(federate(folder or Path(temporary), source, stations, hours))
    totals = snapshot["totals"]
    print(f"{stations} stations, {totals['samples']:,} hours predicted before they were known")
    print(
        f"mean squared error {totals['error']:.1f}, last value {totals['naive']:.1f}: skill {totals['skill']:+.1%}"
    )
    print(f"{totals['bits_wire'] / 8e3:.1f} kB of updates, {100 * totals['ccr']:.1f} % less than FedOGD")
    for row in sorted(snapshot["clients"], key=lambda row: row["error"] / max(row["naive"], 1e-9)):
        print(f"  {row['name']:<14} skill {1 - row['error'] / max(row['naive'], 1e-9):+.1%}")
    return snapshot


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python examples/stations.py beijing_multisite.csv.gz (a file that is there)")
    main(Path(sys.argv[1]))
