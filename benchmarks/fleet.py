"""The server of a large fleet: rounds per second of its own work, and live on loopback.

`python -m benchmarks fleet` measures the server's work alone, on one core: the coordinator gets the real messages of
all clients that are due, without a network, and makes of them the next broadcast and the state that is saved.
Seconds are the processor's: others on the machine do not count. The clients' work is not timed.

`python -m benchmarks.fleet live` has everyone live, with mosquitto on loopback: clients are tasks in two
processes, the server is a third; its processor time and memory are its own. More than a thousand clients learn
nothing and send real updates of made-up gradients (`benchmarks.crowd`): two cores have no time for all of them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import sys
import time
from typing import Any

import numpy as np

from benchmarks import one_core, table
from benchmarks.federation import broker, finish, names, start_workers
from ofediq.federation import ModelSpec, Rules, Server, coordinate
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.messages import UpdateMessage, write_body, write_json
from ofediq.federation.protocol.reports import Report
from ofediq.machine import keep_freed_memory
from ofediq.methods import at_budget
from ofediq.randomness import Address

MODELS = {
    "softmax": ModelSpec("softmax", (784,), "classification", classes=10),
    "cnn": ModelSpec("cnn", (28, 28), "classification", classes=10),
}
METHODS = ("ofediq", "ofedgrid", "fedogd")
ALONE = {"softmax": (200, 500, 1000, 2000, 5000), "cnn": (200, 500, 1000)}
LIVE = (200, 1000, 5000)
MOST_LEARNERS = 1000
BUDGET = 0.1


def server(method: str, model: str, clients: int, rounds: int | None = None) -> Coordinator:
    """A coordinator that waits for all of its clients."""
    spec = MODELS[model]
    chosen = at_budget(method, BUDGET, spec.build().dim, clients)
    everyone = tuple(names(clients))
    rules = Rules(roster=everyone, open=False, min_clients=clients, rounds=rounds, deadline=600.0)
    return coordinate("f", chosen, spec, rules)


def alone(method: str, model: str, clients: int, rounds: int = 10) -> tuple[float, float]:
    """Seconds of the server's own work in a round, and updates in it; the best of the last four rounds."""
    keep_freed_memory()  # as `Server` does
    one = server(method, model, clients)
    everyone, rng = names(clients), np.random.default_rng(0)
    one.connected(0.0)
    for name in everyone:
        one.receive(f"f/here/{name}", write_json(online=True), 0.0)
    vectors = rng.standard_normal((16, one.keeper.task.dim)).astype(np.float32) / 100
    seconds, updates = [], 0
    for number in range(rounds):
        messages = said(one, vectors)
        updates = sum(len(payload) > 8 for _, payload in messages)
        start = time.process_time()
        for topic, payload in messages:
            one.receive(topic, payload, 1.0 + number)
        seconds.append(time.process_time() - start)
        if one.step != number + 1:
            raise SystemExit(f"round {number + 1} is still open: {one.monitor.rejected}")
    return min(seconds[-4:]), updates


def said(one: Coordinator, vectors: Any) -> list[tuple[str, bytes]]:
    """What the clients of the open round say: no two of them the same, and none louder than the others."""
    method, down, step, clients = one.method, one.keeper.state.down, one.step + 1, len(one.members)
    due, found = one._round.due if one._round else None, []
    signal = None if method.compress.signal is None else float(down.scalars[method.compress.signal])
    for number, name in enumerate(one.members.numbers):
        if due is not None and name not in due:
            continue
        update, address = (
            np.roll(vectors[number % 16], number),
            Address(one.task.seed, step, np.array([number])),
        )
        sends, rate = [True], np.ones(1, np.float32)
        if due is None:
            loud = np.linalg.norm(update[None], axis=1)
            sends, rate = method.participation.draw(address, clients, loud, np.float32(signal))
        encoded = method.compress.encode(update / rate, address._replace(client=number), signal)
        body = write_body({"update": encoded}, step) if sends[0] else b""
        found.append((f"f/u/{name}", UpdateMessage(Report(1, 0.0, 1.0), step, body).encode()))
    return found


async def live(method: str, clients: int, rounds: int, where: Any) -> dict[str, float]:
    """One federation on loopback."""
    one = server(method, "softmax", clients, rounds)
    times: list[float] = []
    processor: list[float] = []

    def note() -> None:
        times.append(time.perf_counter())
        processor.append(time.process_time())

    running = Server(one, where, patience=10.0, on_round=note)
    start = time.perf_counter()
    workers = start_workers("learn" if clients <= MOST_LEARNERS else "crowd", where.address, clients)
    await running.run()
    await asyncio.to_thread(finish, workers)
    took = times[-1] - times[2]
    return {
        "first": times[0] - start,
        "rounds": (len(times) - 3) / took,
        "seconds": (processor[-1] - processor[2]) / (len(times) - 3),
        "processor": (processor[-1] - processor[2]) / took,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "updates": one.monitor.totals()["updates"] / rounds,
    }


def main() -> None:
    """The server alone."""
    rows = [["model, method, clients", "rounds/s", "updates", "us/update"]]
    with one_core():
        for model, sizes in ALONE.items():
            for method, clients in itertools.product(METHODS, sizes):
                seconds, updates = alone(method, model, clients)
                name = f"{model}, {method}, {clients:,}"
                rows.append([name, f"{1 / seconds:.1f}", f"{updates}", f"{1e6 * seconds / updates:.0f}"])
    print(f"the server's own work, in rounds per second of processor time, budget {BUDGET:.0%}\n")
    print(table(rows))


def main_live() -> None:
    """Everyone, each size in a process of its own so that memory is its own."""
    if len(sys.argv) > 2:
        clients = int(sys.argv[2])

        async def measure() -> dict[str, float]:
            async with broker() as (_, where):
                return await live("ofediq", clients, 8 if clients > 1000 else 30, where)

        print(json.dumps(asyncio.run(measure())))
        return
    import subprocess

    rows = [
        [
            "clients",
            "first round after s",
            "rounds/s",
            "server's processor",
            "s/round",
            "server's MiB",
            "updates/round",
        ]
    ]
    for clients in LIVE:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.fleet", "live", str(clients)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=dict(os.environ),
        )
        found = json.loads(done.stdout.splitlines()[-1])
        rows.append(
            [
                f"{clients:,}",
                f"{found['first']:.0f}",
                f"{found['rounds']:.2f}",
                f"{found['processor']:.0%}",
                f"{found['seconds']:.3f}",
                f"{found['memory']:.0f}",
                f"{found['updates']:.0f}",
            ]
        )
    print(table(rows))


if __name__ == "__main__":
    main_live()
