"""A live federation on loopback: rounds per second, and what the sockets carried, beside bare MQTT.

Clients are asyncio tasks in two processes, each with its own connection; the server is a third. The bare run sends
messages of the same sizes between as many connections of the same library, with no learning and no decoding: the
ratio to it is what ofediq itself costs. It uses mosquitto where it is installed, else the embedded broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import table
from ofediq import methods
from ofediq.codec import FRAME_BYTES
from ofediq.federation import Broker, Learner, ModelSpec, Rules, Server, Session, coordinate, embedded
from ofediq.federation.network.embedded import free_port
from ofediq.federation.network.link import connect
from ofediq.federation.network.sources import Feeder, SourceSample
from ofediq.federation.protocol.messages import Publish
from ofediq.federation.protocol.reports import REPORT_BYTES

SPEC = ModelSpec("softmax", (784,), "classification", classes=10)
ROUNDS = 60
CLIENTS = (10, 50, 200)
WORKERS = 2
KEEPALIVE = 600  # seconds: thousands in one process may keep the broker waiting
AT_ONCE = 20  # clients of a process that connect at the same time
METHODS = {"FedOGD": 1.0, "OFedIQ, p = 0.1": 0.1}


class Noise:
    """Random images: speed does not depend on what they show."""

    exhausted, position = False, 0

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.x, self.y = rng.random((50, 784), np.float32), rng.integers(0, 10, 50)

    def at(self, step: int) -> SourceSample:
        """The sample of a step."""
        return SourceSample(self.x[step % 50], self.y[step % 50])


@contextlib.asynccontextmanager
async def broker() -> AsyncIterator[tuple[str, Broker]]:
    """Mosquitto with Nagle's delay off, or the embedded broker."""
    binary = shutil.which(
        "mosquitto", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/opt/homebrew/sbin"
    )
    if binary is None:
        async with embedded() as own:
            yield "embedded", own
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mosquitto.conf"
        config.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nmax_inflight_messages 1000\n"
            "max_queued_messages 100000\n"
        )
        process = subprocess.Popen([binary, "-c", str(config)], stderr=subprocess.DEVNULL)
        try:
            await asyncio.sleep(0.5)
            yield "mosquitto", Broker(f"mqtt://127.0.0.1:{port}", insecure=True, keepalive=KEEPALIVE)
        finally:
            process.terminate()
            process.wait()


def names(clients: int) -> list[str]:
    """Short ones: they are part of every topic."""
    return [f"c{k}" for k in range(clients)]


def start_workers(mode: str, address: str, clients: int, size: int = 0, senders: int = 0) -> list[Any]:
    """Two processes with half of the clients each."""
    everyone = names(clients)
    jobs = [
        {
            "mode": mode,
            "address": address,
            "clients": clients,
            "names": everyone[w::WORKERS] if mode != "crowd" else everyone[w : w + 1],
            "size": size,
            "senders": senders,
        }
        for w in range(WORKERS)
    ]
    command = [sys.executable, "-m", "benchmarks.federation"]
    return [subprocess.Popen([*command, json.dumps(job)], stdout=subprocess.PIPE) for job in jobs]


def finish(workers: list[Any]) -> tuple[int, int]:
    """Bytes that the clients' sockets received and sent."""
    said = [json.loads(worker.communicate(timeout=60)[0]) for worker in workers]
    return sum(one["received"] for one in said), sum(one["sent"] for one in said)


async def federate(rate: float, clients: int, where: Broker) -> dict[str, float]:
    """One run of ofediq."""
    method = methods.fedogd(0.01) if rate == 1.0 else methods.ofediq(rate, 3, 174, 1, 0.01)
    rules = Rules(roster=tuple(names(clients)), open=False, min_clients=clients, rounds=ROUNDS, deadline=30.0)
    coordinator = coordinate("f", method, SPEC, rules)
    times: list[float] = []
    server = Server(coordinator, where, patience=10.0, on_round=lambda: times.append(time.perf_counter()))
    workers = start_workers("learn", where.address, clients)
    await server.run()
    received, sent = await asyncio.to_thread(finish, workers)
    totals = coordinator.monitor.totals()
    return {
        "seconds": (times[-1] - times[9]) / (len(times) - 10),
        "updates": totals["updates"],
        "payload": totals["bits_wire"] / 8,
        "received": received,
        "sent": sent,
        "error": totals["missed"],
    }


async def bare(clients: int, senders: int, size: int, where: Broker) -> float:
    """Seconds per round of plain messages of the same sizes: the model to everyone, an answer from `senders`."""
    model = b"\0" * (28 + 32 + 4 * 7850)
    times = []
    async with connect(where, "bare", ("bare/u/+", "bare/here/+")) as link:
        workers = start_workers("echo", where.address, clients, size, senders)
        for _ in range(clients):
            await link.receive(30)
        for _ in range(ROUNDS):
            start = time.perf_counter()
            await link.publish(Publish("bare/model", model))
            for _ in range(senders):
                await link.receive(30)
            times.append(time.perf_counter() - start)
        await link.publish(Publish("bare/model", b""))
        await asyncio.to_thread(finish, workers)
    return sum(times[10:]) / len(times[10:])


async def work(job: dict[str, Any]) -> None:
    """The clients of one worker process."""
    where = Broker(job["address"], insecure=True, keepalive=KEEPALIVE)
    if job["mode"] == "echo":
        await asyncio.gather(*(echo(name, job, where) for name in job["names"]))
        print(json.dumps({"received": 0, "sent": 0}))
        return
    if job["mode"] == "crowd":
        await follow(job, where)
        return
    noise, sessions = Noise(), []
    for name in job["names"]:
        learner = Learner("f", name)
        sessions.append(Session(learner, where, Feeder(learner, noise), patience=300.0))
    await run_all(sessions)
    traffic = [session.traffic() for session in sessions]
    print(json.dumps({"received": sum(one[0] for one in traffic), "sent": sum(one[1] for one in traffic)}))


async def follow(job: dict[str, Any], where: Broker) -> None:
    """Clients that learn nothing, in a federation of `benchmarks.fleet`."""
    from benchmarks.crowd import Voices, crowd
    from benchmarks.fleet import server

    one = server("ofediq", "softmax", job["clients"])
    voices = Voices(one.method, one.task.seed, one.task.dim, job["clients"])
    own = range(int(job["names"][0][1:]), job["clients"], WORKERS)
    await crowd(where, "f", own, voices)
    print(json.dumps({"received": 0, "sent": 0}))


async def run_all(sessions: list[Session]) -> None:
    """Run clients, of which only some connect at a time: thousands at once in one process would time out."""
    tasks = []
    for place, session in enumerate(sessions):
        while place >= AT_ONCE and not sessions[place - AT_ONCE].connected:
            await asyncio.sleep(0.01)
        tasks.append(asyncio.create_task(session.run()))
    await asyncio.gather(*tasks)


async def echo(name: str, job: dict[str, Any], where: Broker) -> None:
    """A client that answers every model with bytes of the right number, if it is one of the senders."""
    async with connect(where, name, ("bare/model",)) as link:
        await link.publish(Publish(f"bare/here/{name}", b"here"))
        while True:
            item = await link.receive(60)
            if item is None or not item[1]:
                return
            if int(name[1:]) < job["senders"]:
                await link.publish(Publish(f"bare/u/{name}", b"\0" * job["size"]))


async def measure() -> None:
    """All sizes."""
    rows, overheads = [], []
    async with broker() as (kind, where):
        for clients in CLIENTS:
            runs = {name: await federate(rate, clients, where) for name, rate in METHODS.items()}
            for name, run in runs.items():
                size = round(run["payload"] / run["updates"]) + REPORT_BYTES + FRAME_BYTES
                plain = await bare(clients, max(1, round(run["updates"] / ROUNDS)), size, where)
                rows.append(
                    [
                        f"{clients} {name}",
                        f"{1 / run['seconds']:.0f}",
                        f"{run['seconds'] / plain:.2f}",
                        f"{run['payload'] / run['updates']:,.0f}",
                        f"{run['sent'] / run['updates']:,.0f}",
                        f"{run['received'] / clients / ROUNDS:,.0f}",
                    ]
                )
            overheads.append(f"{clients} clients: {overhead(*runs.values()):.0f}")
    print(f"{kind}, D = 7,850, {ROUNDS} rounds, loopback\n")
    head = ["clients, method", "rounds/s", "time / bare MQTT", "payload B/update"]
    print(table([[*head, "socket B up/update", "socket B down/client/round"], *rows]))
    print(f"\nOverhead per update in bytes: {', '.join(overheads)}")


def overhead(many: dict[str, float], few: dict[str, float]) -> float:
    """Bytes that an update costs beyond its payload: connecting and acknowledging cost the same in both runs."""
    beyond = [run["sent"] - run["payload"] for run in (many, few)]
    return (beyond[0] - beyond[1]) / (many["updates"] - few["updates"])


def main() -> None:
    """Measure and print."""
    asyncio.run(measure())


if __name__ == "__main__":
    asyncio.run(work(json.loads(sys.argv[1])))
