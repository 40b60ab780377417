"""Real processes that are killed, brokers that go away, disks that refuse: no round is lost or counted twice."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq import models
from ofediq.federation.choices import MethodChoice
from ofediq.federation.network.broker import Broker
from ofediq.federation.network.link import connect
from ofediq.federation.protocol.messages import Publish
from ofediq.federation.rollout import RUNNING_FILE
from ofediq.locks import LOCK_FILE
from ofediq.simulation.oracle import reference
from ofediq.simulation.result import Result
from ofediq.streams import Stream, load, partition
from tests.federation.live import Processes
from tests.federation.mosquitto import Mosquitto

CLIENTS, STEPS = 3, 40
METHOD = {"key": "ofediq", "budget": 0.2, "step_size": 0.1}
ROUNDS = {
    "count": STEPS,
    "min_clients": CLIENTS,
    "pace": "interval",
    "interval": 0.05,
    "deadline": 60.0,
    "clip": 0,
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path / "mosquitto") as running:
        yield running


@pytest.fixture(scope="module")
def stream() -> Stream:
    return partition(load("digits"), clients=CLIENTS, steps=STEPS, seed=3)


@pytest.fixture(scope="module")
def wanted(stream: Stream) -> Result:
    method = MethodChoice(**METHOD).build(models.softmax(64, 10), CLIENTS)  # type: ignore[arg-type]  # a table of mixed values
    return reference(method, stream, models.softmax(64, 10), seed=5)


def start(folder: Path, broker: Mosquitto, stream: Stream, keepalive: int = 15, **rounds: Any) -> Processes:
    place = Broker(broker.address, insecure=True, keepalive=keepalive)
    run = Processes(folder, place, stream, method=METHOD, rounds={**ROUNDS, **rounds})
    run.start("server", *run.names)
    return run


def check(run: Processes, wanted: Result) -> None:
    """The server finished with the model, the rounds and the updates of an undisturbed run."""
    totals = run.wait_for_end()["totals"]
    assert totals["rounds"] == STEPS
    assert totals["updates"] == wanted.senders.sum()
    assert totals["bits_wire"] == wanted.bits_wire.sum()
    np.testing.assert_allclose(run.params(), wanted.params, rtol=1e-4, atol=1e-5)


def test_a_killed_server_continues_after_its_last_round(
    tmp_path: Path, broker: Mosquitto, stream: Stream, wanted: Result
) -> None:
    with start(tmp_path, broker, stream) as run:
        for step in (8, 20):
            run.wait_for_step(step)
            run.kill("server")
            run.start("server")
        check(run, wanted)


def test_a_restarted_broker_is_found_again(
    tmp_path: Path, broker: Mosquitto, stream: Stream, wanted: Result
) -> None:
    with start(tmp_path, broker, stream) as run:
        run.wait_for_step(10)
        broker.kill()
        broker.start()
        check(run, wanted)


@pytest.mark.parametrize("keepalive", [1, 15])
def test_a_broker_that_stands_still_costs_time_and_nothing_else(
    keepalive: int, tmp_path: Path, broker: Mosquitto, stream: Stream, wanted: Result
) -> None:
    # With 1 all connections are given up meanwhile, and new ones are taken that nobody answers.
    with start(tmp_path, broker, stream, keepalive=keepalive) as run:
        run.wait_for_step(10)
        broker.stand_still(4.0)
        check(run, wanted)


def test_a_third_of_the_clients_killed_and_restarted(
    tmp_path: Path, broker: Mosquitto, stream: Stream, wanted: Result
) -> None:
    # `min_clients` asks for all of them: the server waits while one is away, and nothing at all is missed.
    with start(tmp_path, broker, stream) as run:
        run.wait_for_step(10)
        run.kill("c1")
        run.start("c1")
        check(run, wanted)


def test_a_client_that_stays_away_does_not_stop_the_others(
    tmp_path: Path, broker: Mosquitto, stream: Stream
) -> None:
    with start(tmp_path, broker, stream, min_clients=1) as run:
        run.wait_for_step(10)
        run.kill("c0")
        totals = run.wait_for_end()["totals"]
        assert totals["rounds"] == STEPS
        assert totals["missed"] > 0


def test_a_client_whose_clock_is_behind_catches_up(tmp_path: Path, broker: Mosquitto, stream: Stream) -> None:
    # It sleeps through many rounds, and wakes up to all that was published meanwhile.
    with start(tmp_path, broker, stream, min_clients=1, deadline=0.5) as run:
        run.wait_for_step(6)
        os.kill(run.running["c2"].pid, signal.SIGSTOP)
        run.wait_for_step(20)
        asleep = run.client("c2")
        os.kill(run.running["c2"].pid, signal.SIGCONT)
        totals = run.wait_for_end()["totals"]
        awake = run.client("c2")
    assert totals["rounds"] == STEPS
    assert totals["missed"] > 0
    assert set(totals["rejected"]) <= {"late"}
    assert awake["sent"] > asleep["sent"]


def test_a_folder_that_cannot_be_written_is_reported_and_the_server_goes_on(
    tmp_path: Path, broker: Mosquitto, stream: Stream, wanted: Result
) -> None:
    (tmp_path / "state").symlink_to("/proc")  # nobody may write there, not even root
    with start(tmp_path, broker, stream) as run:
        end = run.wait_for_end(expected=1)  # what it learnt is nowhere
        assert end["totals"]["updates"] == wanted.senders.sum()
        assert "cannot write checkpoint" in end["problems"][0]
        assert "it goes on without" in run.log("server")


def test_a_full_disk_is_reported_and_the_server_goes_on(
    tmp_path: Path, broker: Mosquitto, stream: Stream, wanted: Result
) -> None:
    with start(tmp_path, broker, stream) as run:
        server = run.running["server"].pid
        free = resource.prlimit(server, resource.RLIMIT_FSIZE)
        resource.prlimit(server, resource.RLIMIT_FSIZE, (2000, free[1]))  # more than its log so far has
        deadline = time.monotonic() + 60.0
        while "it goes on without" not in run.log("server") and time.monotonic() < deadline:
            time.sleep(0.01)
        left = [path for path in (tmp_path / "state").iterdir() if path.name not in (LOCK_FILE, RUNNING_FILE)]
        resource.prlimit(server, resource.RLIMIT_FSIZE, free)
        check(run, wanted)
        log = run.log("server")
    assert left == []
    assert "cannot write checkpoint" in log
    assert "File too large; it goes on without" in log
    assert "checkpoints work again" in log


def test_a_damaged_state_is_refused_with_one_sentence(
    tmp_path: Path, broker: Mosquitto, stream: Stream
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.npz").write_bytes(b"PK\x03\x04 not a state")
    run = Processes(tmp_path, Broker(broker.address, insecure=True), stream, method=METHOD, rounds=ROUNDS)
    with run:
        run.start("server")
        assert run.running["server"].wait(timeout=60) == 2
        assert run.log("server").startswith("ofediq: error: cannot read checkpoint")
        assert "Traceback" not in run.log("server")


class Echo:
    """Somebody on the network who repeats updates, late and in another order, and old models as well."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.repeated = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))

    def __enter__(self) -> Echo:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    async def _live(self) -> None:
        chance = random.Random(0)
        heard: dict[tuple[str, bytes], int] = {}
        async with connect(self.broker, "echo", ("test/u/+", "test/model")) as link:
            while not self._stop.is_set():
                item = await link.receive(0.05)
                if item is not None:
                    heard.setdefault(item, 0)
                old = [known for known, times in heard.items() if times < 2]
                if len(old) > 5:
                    chosen = chance.choice(old)
                    heard[chosen] += 1
                    self.repeated += 1
                    await link.publish(Publish(*chosen))


def test_messages_repeated_late_and_out_of_order_change_nothing(
    tmp_path: Path, broker: Mosquitto, stream: Stream, wanted: Result
) -> None:
    with Echo(Broker(broker.address, insecure=True)) as echo, start(tmp_path, broker, stream) as run:
        totals = run.wait_for_end()["totals"]
        np.testing.assert_allclose(run.params(), wanted.params, rtol=1e-4, atol=1e-5)
    assert totals["rounds"] == STEPS
    assert totals["updates"] == wanted.senders.sum()
    assert echo.repeated > 20
    assert totals["rejected"]["late"] + totals["rejected"].get("duplicate", 0) > 10
