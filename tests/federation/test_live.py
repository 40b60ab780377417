"""A live federation over a real broker gives what the simulator gives."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.codec import Quantized, Raw, Scheme, pack_frame
from ofediq.federation.local.fleet import client_names
from ofediq.federation.network.broker import Broker, BrokerError
from ofediq.federation.network.embedded import embedded
from ofediq.federation.network.server import Server
from ofediq.federation.network.tracked import RoundTracker
from ofediq.federation.protocol.messages import UpdateMessage, write_json
from ofediq.federation.protocol.reports import Report
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.task import ModelSpec
from ofediq.federation.setup import coordinate
from ofediq.methods import Method
from ofediq.randomness import Address
from ofediq.simulation import simulate
from ofediq.simulation.oracle import reference
from ofediq.streams import Stream, load, partition
from ofediq.tracking import tracker
from ofediq.tracking.mlflow import Mlflow
from tests.federation.live import federate
from tests.federation.mosquitto import Mosquitto

CLIENTS, STEPS = 20, 50
SPEC = ModelSpec("softmax", (8, 8), "classification", classes=10)
METHODS = {
    "raw": methods.ofedavg(0.5, 0.1),
    "packed": methods.ofediq(0.3, 3, 14, 1, 0.1),
    "entropy": methods.ofediq(0.3, 3, 14, 1, 0.1, preset="paper", coding="entropy"),
    "windows": methods.ofediq(0.5, 7, 3, 5, 0.1),
    "rotated": methods.method(
        methods.local_ogd(0.1),
        methods.descend(0.1),
        participation=methods.bernoulli(0.3),
        compress=methods.rotate(2),
    ),
    "memory": methods.make("topk_ef(keep=40, rate=0.5)", step_size=0.1),
    "both-sides": methods.make("scaffold(period=5, rate=0.7)", step_size=0.05),
    "differences": methods.with_broadcast(methods.ofedavg(0.3, 0.1), methods.delta(31, 1, refresh=20)),
    "duplex": methods.at_budget("ofedduplex", 0.3, 650, CLIENTS, step_size=0.1, steps=STEPS),
    "walking": methods.at_budget(
        "ofedduplex(walks=True)", 0.03, 650, CLIENTS, step_size=0.01, preset="authors", steps=STEPS
    ),
    "grid": methods.ofedgrid(0.05 * 32 * 650 * CLIENTS, STEPS, 0.1),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as running:
        yield Broker(running.address, insecure=True)


@pytest.fixture(scope="module")
def stream() -> Stream:
    return partition(load("digits"), clients=CLIENTS, steps=STEPS, seed=3)


def coordinator(name: str, method: Method, clients: int = CLIENTS, steps: int = STEPS, **rules: Any) -> Any:
    chosen = Rules(
        roster=client_names(clients),
        open=False,
        min_clients=clients,
        rounds=len(method.ends(steps)),
        **{"clip": None, "deadline": 30.0, **rules},
    )
    return coordinate(name, method, SPEC, chosen, seed=5)


@pytest.mark.parametrize("key", METHODS)
def test_twenty_clients_and_fifty_rounds_over_mosquitto_give_the_simulators_model(
    key: str, stream: Stream, broker: Broker
) -> None:
    server = coordinator(f"same-{key}", METHODS[key])
    asyncio.run(federate(server, broker, stream))
    wanted = reference(METHODS[key], stream, models.softmax(64, 10), seed=5)
    np.testing.assert_allclose(server.params, wanted.params, rtol=1e-4, atol=1e-5)
    if key == "packed":  # the loop is held against the engine elsewhere; once here as well
        engine = simulate(METHODS[key], stream, models.softmax(64, 10), seed=5)
        np.testing.assert_allclose(server.params, engine.params, rtol=1e-4, atol=1e-5)
    totals = server.monitor.totals()
    assert totals["updates"] == wanted.senders.sum()
    assert totals["bits_wire"] == wanted.bits_wire.sum()
    last = METHODS[key].ends(STEPS)[-1]  # samples of a window that is not over are with the clients
    assert totals["samples"] == CLIENTS * last
    assert totals["error"] * CLIENTS * last == pytest.approx(wanted.error[:last].sum(), abs=0.01)


def test_the_embedded_broker_carries_it_too(stream: Stream) -> None:
    server = coordinator("embedded", METHODS["packed"], steps=10)

    async def run() -> None:
        async with embedded() as broker:
            await federate(server, broker, stream)

    asyncio.run(run())
    wanted = reference(METHODS["packed"], stream.head(10), models.softmax(64, 10), seed=5)
    np.testing.assert_allclose(server.params, wanted.params, rtol=1e-4, atol=1e-5)


def test_bytes_on_the_socket_are_those_of_the_messages_plus_a_little(stream: Stream, broker: Broker) -> None:
    server = coordinator("bytes", methods.fedogd(0.1))
    sessions = asyncio.run(federate(server, broker, stream))
    sent = sum(session.traffic()[1] for session in sessions)
    updates, payload = server.monitor.totals()["updates"], server.monitor.totals()["bits_wire"] / 8
    assert updates == CLIENTS * STEPS
    if sent:  # the kernel counts
        assert payload < sent
        start = 400 * CLIENTS  # connecting, subscribing, saying hello and goodbye, acknowledging broadcasts
        assert (sent - payload - start) / updates < 64


def update_of(scheme: Scheme, vector: Any, step: int, number: int, report: Report | None = None) -> bytes:
    """An update as a client of another mind would send it."""
    frame = pack_frame(scheme.encode(vector, Address(5, step, number)), step)
    return UpdateMessage(report or Report(), step, frame).encode()


def hostile_messages(name: str, number: int, step: int) -> dict[str, bytes]:
    """One message of each bad kind, by the reason that it is refused for."""
    report = Report(1, 0.0, 0.0)

    def update(**changes: Any) -> bytes:
        values = {"dim": 650, "step": step, "report": report, **changes}
        vector = np.ones(values["dim"], np.float32)
        return update_of(Raw(), vector, values["step"], number, values["report"])

    nan = bytearray(update())
    nan[-4:] = struct.pack("<f", float("nan"))
    return {
        "late: zeros": b"\x00" * 100,
        "malformed: empty": b"",
        "malformed: nan": bytes(nan),
        "malformed: cut": update()[:-3],
        "malformed: larger": update(dim=651),
        "malformed: report": update(report=Report(1, 2.0, 0.0)),
        "malformed: smaller": update(dim=649),
        "late": update(step=step - 1),
        "from the future": update(step=step + 5),
    }


def test_hostile_clients_are_counted_and_change_nothing(stream: Stream, broker: Broker) -> None:
    few = Stream(stream.dataset, stream.order[:10, :4])
    method = methods.fedogd(0.1)
    server = coordinator("hostile", method, clients=4, steps=10)
    original = server.receive
    done: set[int] = set()

    def with_attack(topic: str, payload: bytes, now: float) -> Any:
        """Before each honest update, the same client's evil twin speaks."""
        if topic == "hostile/u/c1" and server.step not in done:
            done.add(server.step)
            for bad in hostile_messages("c1", 1, server.step + 1).values():
                server._intake.take("c1", bad, now)
            server._intake.take("mallory", payload, now)
            server._on_presence("mallory", write_json(online=True), now)
            server._on_presence("c1", b"[]", now)
            result = original(topic, payload, now)
            server._intake.take("c1", payload, now)  # flooding: the round may be open still, or not
            return result
        return original(topic, payload, now)

    server.receive = with_attack
    asyncio.run(federate(server, broker, few))
    wanted = reference(method, few, models.softmax(64, 10), seed=5)
    np.testing.assert_allclose(server.params, wanted.params, rtol=1e-4, atol=1e-5)
    rejected = server.monitor.rejected
    assert rejected["malformed"] == 10 * 7
    assert rejected["from the future"] == 10
    assert rejected["unknown client"] == 20
    assert rejected["late"] + rejected["duplicate"] == 30
    assert server.monitor.totals()["updates"] == 40


def test_updates_of_other_settings_or_out_of_turn_are_refused() -> None:
    server = coordinator("turn", METHODS["packed"], clients=8)
    for name in client_names(8):
        server.receive(f"turn/here/{name}", write_json(online=True), 0.0)
    active = METHODS["packed"].participation.active(5, 1, np.arange(8), 8)
    due, idle = int(np.flatnonzero(active)[0]), int(np.flatnonzero(~active)[0])

    def say(number: int, levels: int) -> None:
        payload = update_of(Quantized(levels, 14), np.ones(650, np.float32), 1, number)
        server.receive(f"turn/u/c{number}", payload, 0.0)

    say(idle, 3)
    say(due, 4)
    say(due, 3)
    assert server.monitor.rejected == {"not due": 1, "malformed": 1}


def test_a_broker_that_is_not_there_is_one_clear_sentence() -> None:
    server = coordinator("nobody", methods.fedogd(0.1), clients=1)
    gone = Broker("mqtt://127.0.0.1:1", insecure=True)
    with pytest.raises(BrokerError, match=r"cannot reach the broker at 127\.0\.0\.1:1"):
        asyncio.run(Server(server, gone, patience=0.2).run())


def test_a_tracker_follows_the_rounds(stream: Stream, broker: Broker, tmp_path: Path) -> None:
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    few = Stream(stream.dataset, stream.order[:6, :3])
    server = coordinator("tracked", methods.fedogd(0.1), clients=3, steps=6)
    follower = RoundTracker(server.monitor, tracker("tensorboard", tmp_path))
    asyncio.run(federate(server, broker, few, on_round=follower.round))
    follower.end()
    (file,) = tmp_path.rglob("events.out.*")
    read = event_accumulator.EventAccumulator(str(file.parent)).Reload()
    assert [point.step for point in read.Scalars("senders")] == [1, 2, 3, 4, 5, 6]
    assert [point.value for point in read.Scalars("senders")] == [3.0] * 6
    final = next(tag for tag in read.Tags()["scalars"] if tag.endswith("accuracy") and "final" in tag)
    assert read.Scalars(final)[0].value == pytest.approx(1 - server.monitor.totals()["error"])


@pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader strategy:DeprecationWarning"
)  # MLflow and SQLAlchemy
def test_mlflow_follows_the_rounds_too(stream: Stream, broker: Broker, tmp_path: Path) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    few = Stream(stream.dataset, stream.order[:6, :3])
    server = coordinator("tracked", methods.fedogd(0.1), clients=3, steps=6)
    said = list[str]()
    follower = RoundTracker(server.monitor, tracker("mlflow", tmp_path, experiment="live", warn=said.append))
    asyncio.run(federate(server, broker, few, on_round=follower.round))
    follower.end()
    client = tracking.MlflowClient(tracking_uri=Mlflow(tmp_path).address)
    (run,) = client.search_runs([client.get_experiment_by_name("live").experiment_id])
    history = client.get_metric_history(run.info.run_id, "senders")
    assert said == []
    assert run.info.status == "FINISHED"
    assert {point.step: point.value for point in history} == dict.fromkeys(range(1, 7), 3.0)
    assert run.data.metrics["final/accuracy"] == pytest.approx(1 - server.monitor.totals()["error"])
