"""Faults, attacks and floods against a live server on loopback: survived of tried, and rounds per second meanwhile.

A server, an embedded broker and eight clients run as tasks; a stranger with a connection of its own does what each
row says. A row survives if the rounds go on to their end and the model is finite. The soak runs the protocol without
a network and prints how memory grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import table
from benchmarks.federation import Noise
from benchmarks.wires import SPEC, Wires
from ofediq import methods
from ofediq.codec import Raw, pack_frame
from ofediq.federation import Broker, Learner, Rules, Server, Session, coordinate, embedded
from ofediq.federation.network.embedded import free_port
from ofediq.federation.network.link import Link, LinkDown, connect
from ofediq.federation.network.sources import Feeder
from ofediq.federation.protocol import monitor as monitor_module
from ofediq.federation.protocol.messages import Publish, UpdateMessage, write_json
from ofediq.federation.protocol.reports import Report
from ofediq.randomness import Address
from ofediq.streams import load, partition

CLIENTS, ROUNDS, SECONDS = 8, 60, 40.0
Harm = Callable[[Link, int], Awaitable[None]]


async def nothing(link: Link, number: int) -> None:
    """Nobody does anything."""


async def frames(link: Link, number: int) -> None:
    """A member's name, frames that cannot be read."""
    await link.publish(
        Publish("f/u/c0", UpdateMessage(Report(), 1 + number % ROUNDS, b"\x80" * 165).encode())
    )


async def greetings(link: Link, number: int) -> None:
    """A member's name, greetings."""
    await link.publish(Publish("f/here/c0", write_json(online=True)))


async def farewells(link: Link, number: int) -> None:
    """Everyone's last wills, by a stranger."""
    await link.publish(Publish(f"f/here/c{number % CLIENTS}", write_json(online=False)))


async def strangers(link: Link, number: int) -> None:
    """New names, one after the other."""
    await link.publish(Publish(f"f/here/x{number}", write_json(online=True)))


async def huge(link: Link, number: int) -> None:
    """A member's name, updates of the largest numbers, for all steps."""
    step = 1 + number % ROUNDS
    body = pack_frame(Raw().encode(np.full(7850, 3e38, np.float32), Address(0, step, 0)), step)
    await link.publish(Publish("f/u/c0", UpdateMessage(Report(), step, body).encode()))


async def models(link: Link, number: int) -> None:
    """The server's name: nonsense, infinite tasks, far epochs with too many clients."""
    bad = (
        b"nonsense",
        json.dumps({"protocol": 3, "seed": float("inf")}).encode(),
        b"OM\x03\x00" + b"\xff" * 20,
    )
    await link.publish(Publish(f"f/{('model', 'task', 'model')[number % 3]}", bad[number % 3]))


async def numbers(link: Link, number: int) -> None:
    """The server's name: wrong numbers for a member, corrected by its next greeting."""
    await link.publish(Publish("f/welcome/c0", write_json(number=2**31)))


async def lies(link: Link, number: int) -> None:
    """A member's name: reports of very many and very bad predictions, in all rounds."""
    report = Report(65_535, 1e18, 0.0)
    await link.publish(Publish("f/u/c0", UpdateMessage(report, 1 + number % ROUNDS, b"").encode()))


async def retained(link: Link, number: int) -> None:
    """Garbage that the broker keeps, on every topic of the federation but `leader`."""
    kinds = ("task", "model", *(f"{kind}/c{number % CLIENTS}" for kind in ("welcome", "whole", "here", "u")))
    await link.publish(Publish(f"f/{kinds[number % len(kinds)]}", b"{" * 50 + b"\xff" * 50, retain=True))


async def replays(link: Link, number: int) -> None:
    """A member's name: updates in order, of every step and sent again and again."""
    step = 1 + number % ROUNDS
    vector = np.random.default_rng(step).standard_normal(7850).astype(np.float32)
    body = pack_frame(Raw().encode(vector, Address(0, step, 1)), step)
    await link.publish(Publish("f/u/c1", UpdateMessage(Report(), step, body).encode()))


_open: list[Any] = []


async def silence(link: Link, number: int) -> None:
    """Connections to the broker that say nothing, at most 300 of them, ten a second."""
    if len(_open) < 300:
        _, writer = await asyncio.open_connection("127.0.0.1", _port[0])
        writer.write(b"\x10")  # a packet begins
        _open.append(writer)
    await asyncio.sleep(0.1)


_port: list[int] = []

TRIED: dict[str, Harm] = {
    "nothing": nothing,
    "frames that cannot be read": frames,
    "greetings": greetings,
    "last wills of everyone": farewells,
    "strangers": strangers,
    "updates of 3e38 in a member's name": huge,
    "nonsense in the server's name": models,
    "wrong numbers in the server's name": numbers,
    "false reports in a member's name": lies,
    "updates of all steps in a member's name": replays,
    "garbage that the broker keeps, on all topics": retained,
    "connections that say nothing": silence,
}


async def flood(harm: Harm, where: Broker, done: asyncio.Event) -> int:
    """Harm as fast as the broker takes it, until the end."""
    sent = 0
    try:
        async with connect(where, "stranger", ()) as link:
            while not done.is_set() and harm is not nothing:
                await harm(link, sent)
                sent += 1
    except LinkDown:
        pass
    return sent


async def one(harm: Harm) -> list[Any]:
    """One row: rounds, rounds per second, messages of the stranger, what was refused."""
    names = tuple(f"c{k}" for k in range(CLIENTS))
    rules = Rules(roster=names, open=False, min_clients=CLIENTS - 2, rounds=ROUNDS, deadline=2.0)
    coordinator = coordinate("f", methods.fedogd(0.01), _spec(), rules)
    noise, done = Noise(), asyncio.Event()
    async with embedded() as where:
        _port[:] = [where.port]
        _open.clear()
        learners = [Learner("f", name) for name in names]
        sessions = [Session(each, where, Feeder(each, noise), patience=10.0) for each in learners]
        server = Server(coordinator, where, patience=10.0)
        flooding = asyncio.create_task(flood(harm, where, done))
        lives = [asyncio.create_task(session.run()) for session in sessions]
        start = time.perf_counter()
        try:
            async with asyncio.timeout(SECONDS):
                await server.run()
        except TimeoutError:
            pass
        seconds = time.perf_counter() - start
        done.set()
        for session in sessions:
            session.stop()
        sent = await flooding
        for life in lives:
            life.cancel()
        for writer in _open:
            writer.close()
        await asyncio.gather(*lives, return_exceptions=True)
    totals = coordinator.monitor.totals()
    survived = totals["rounds"] == ROUNDS and bool(np.isfinite(coordinator.params).all())
    refused = ", ".join(f"{count:,} {reason}" for reason, count in totals["rejected"].items())
    return [
        survived,
        totals["rounds"],
        f"{totals['rounds'] / seconds:.1f}",
        f"{sent:,}",
        totals["missed"],
        refused,
    ]


def _spec() -> Any:
    from benchmarks.federation import SPEC as IMAGES

    return IMAGES


# Faults ----------------------------------------------------------------------------------------------------------


@dataclass
class Scene:
    """A federation whose server and broker can be taken away and given back."""

    where: Broker
    folder: Path
    names: tuple[str, ...]
    lives: list[asyncio.Task[None]]  # of servers, the newest last
    stack: contextlib.AsyncExitStack  # of the broker
    servers: list[Server]

    def serve(self, *, folder: Path | None = None) -> None:
        """Start a server that continues from its folder."""
        rules = Rules(roster=self.names, open=False, min_clients=CLIENTS - 2, rounds=ROUNDS, deadline=2.0)
        coordinator = coordinate("f", methods.fedogd(0.01), _spec(), rules, folder=folder or self.folder)
        self.servers.append(Server(coordinator, self.where, folder or self.folder, patience=20.0))
        self.lives.append(asyncio.create_task(self.servers[-1].run()))


_BROKER = """
import asyncio, sys
from ofediq.federation import embedded

async def main():
    async with embedded(int(sys.argv[1])):
        await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def broker_process(port: int) -> AsyncIterator[Broker]:
    """The embedded broker in a process of its own, which is killed in the end."""
    one = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BROKER, str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.1)
        yield Broker(f"mqtt://127.0.0.1:{port}", insecure=True)
    finally:
        one.kill()
        await one.wait()


async def killed(scene: Scene) -> None:
    """The server is killed and started again."""
    scene.lives[-1].cancel()
    await asyncio.gather(scene.lives[-1], return_exceptions=True)
    scene.serve()


async def restarted(scene: Scene) -> None:
    """The broker is restarted, and has forgotten everything."""
    await scene.stack.aclose()
    await asyncio.sleep(0.5)
    await scene.stack.enter_async_context(broker_process(scene.where.port))


async def full(scene: Scene) -> None:
    """Nothing can be written for a while."""
    scene.folder.rename(scene.folder.with_name("away"))
    scene.folder.write_bytes(b"")  # a file is where the folder was
    await asyncio.sleep(1.0)
    scene.folder.unlink()
    scene.folder.with_name("away").rename(scene.folder)


async def jumps(scene: Scene) -> None:
    """The system's clock goes back by seventy minutes, and forward by a day."""
    real = time.time
    for by in (-4200.0, 86400.0):
        time.time = lambda by=by: real() + by  # type: ignore[misc]  # what setting the clock does
        await asyncio.sleep(0.5)
    time.time = real


async def twice(scene: Scene) -> None:
    """A second server with an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        scene.serve(folder=Path(folder))
        other = scene.lives.pop()
        scene.servers.pop()
        await asyncio.gather(other, return_exceptions=True)


FAULTS: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "the server is killed and started again, five times": killed,
    "the broker is restarted, three times": restarted,
    "the disk is full for a second, twice": full,
    "the clock jumps, twice": jumps,
    "a second server with an empty folder, twice": twice,
}
TIMES = {"five times": 5, "three times": 3, "twice": 2}


async def faulty(title: str) -> list[Any]:
    """One row: what happened, at even times, until all rounds are done."""
    fault, count = FAULTS[title], TIMES[title.rpartition(", ")[2]]
    names, noise = tuple(f"c{k}" for k in range(CLIENTS)), Noise()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        async with contextlib.AsyncExitStack() as stack:
            where = await stack.enter_async_context(broker_process(free_port()))
            scene = Scene(where, Path(folder) / "state", names, [], stack, [])
            scene.folder.mkdir()
            learners = [Learner("f", name) for name in names]
            sessions = [Session(each, where, Feeder(each, noise), patience=20.0) for each in learners]
            lives = [asyncio.create_task(session.run()) for session in sessions]
            scene.serve()
            for number in range(count):
                while scene.servers[-1].coordinator.step < (number + 1) * ROUNDS // (count + 1):
                    await asyncio.sleep(0.02)
                    if time.perf_counter() - start > SECONDS or scene.lives[-1].done():
                        break
                await fault(scene)
            await asyncio.wait([scene.lives[-1]], timeout=SECONDS)
            seconds = time.perf_counter() - start
            for life in [*lives, scene.lives[-1]]:
                life.cancel()
            await asyncio.gather(*lives, scene.lives[-1], return_exceptions=True)
    totals = scene.servers[-1].coordinator.monitor.totals()
    survived = totals["rounds"] == ROUNDS and bool(np.isfinite(scene.servers[-1].coordinator.params).all())
    return [survived, totals["rounds"], f"{totals['rounds'] / seconds:.1f}", count, totals["missed"], ""]


def soak(rounds: int = 3000) -> tuple[float, float]:
    """Bytes that the server grows by in 10^4 rounds, after the first half, and those of a point of the history.

    The history is thinned at 64 points here instead of 2,000, so that it has its final size before the measurement.
    """
    stream = partition(load("digits"), clients=4, steps=rounds, seed=0)
    names = tuple(f"c{k}" for k in range(4))
    server = coordinate(
        "f", methods.ofedavg(0.5, 0.1), SPEC, Rules(roster=names, rounds=rounds, min_clients=4)
    )
    wires = Wires(server, {name: Learner("f", name) for name in names}, stream)
    sizes: list[int] = []
    record, thinned = server.monitor.record, monitor_module.HISTORY
    monitor_module.HISTORY = 64

    def recorded(one: Any) -> None:
        record(one)
        if server.step in (rounds // 2, rounds - 2):
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])

    server.monitor.record = recorded  # type: ignore[method-assign]  # measured from outside
    tracemalloc.start()
    wires.run()
    tracemalloc.stop()
    monitor_module.HISTORY = thinned
    point = server.monitor.snapshot()["history"][0]
    size = sys.getsizeof(point) + sum(sys.getsizeof(value) for value in point.values())
    return (sizes[1] - sizes[0]) / (rounds / 2) * 1e4, size


def main() -> None:
    """Try everything and print."""
    logging.disable(logging.CRITICAL)
    rows = []
    tried = {title: partial(one, harm) for title, harm in TRIED.items()}
    tried |= {title: partial(faulty, title) for title in FAULTS}
    for title, scene in tried.items():
        try:
            survived, *rest = asyncio.run(asyncio.wait_for(scene(), 3 * SECONDS))
        except TimeoutError:
            survived, *rest = False, 0, "0.0", 0, 0, "it did not end"
        rows.append([title, "yes" if survived else "NO", *rest])
        print("  ".join(map(str, rows[-1])), flush=True)
    print(f"\n{CLIENTS} clients, {ROUNDS} rounds, D = 7,850, embedded broker, all in one process\n")
    head = ["what is done", "survived", "rounds", "rounds/s", "messages of it", "updates missed", "refused"]
    print(table([head, *rows]))
    print(f"\nsurvived {sum(row[1] == 'yes' for row in rows)} of {len(rows)}")
    slope, point = soak()
    print(
        f"soak: {slope / 1e3:.1f} kB per 10^4 rounds beside the history, of at most 2,000 points of {point} bytes"
    )


if __name__ == "__main__":
    main()
