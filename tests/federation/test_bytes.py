"""All bytes on the sockets of a live federation are those that the simulator counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.federation.local.fleet import client_names
from ofediq.federation.network.broker import Broker
from ofediq.federation.protocol.messages import ModelMessage
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.task import ModelSpec
from ofediq.federation.setup import coordinate
from ofediq.methods.budgets.connection import Connection
from ofediq.simulation.oracle import reference
from ofediq.streams import load, partition
from tests.federation.live import federate
from tests.federation.mosquitto import Mosquitto, needs_mosquitto

pytestmark = needs_mosquitto

CLIENTS, STEPS = 10, 30
SPEC = ModelSpec("softmax", (8, 8), "classification", classes=10)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as running:
        yield Broker(running.address, insecure=True)


def packet(rest: int) -> int:
    """Bytes of an MQTT packet: its kind, its length in groups of seven bits, what follows."""
    return 1 + max(1, -(-rest.bit_length() // 7)) + rest


def joining_bytes(federation: int, client: int, task: int, first: int) -> int:
    """What connecting, subscribing, greeting and leaving cost a client, by the lengths of names and messages."""

    def published(topic: str, payload: int) -> int:
        return packet(2 + federation + len(topic.format("x" * client)) + 2 + payload) + 4

    online, offline = len('{"protocol":5,"online":true}'), len('{"protocol":5,"online":false}')
    name, here = federation + 1 + client, federation + len("/here/") + client
    connect = packet(10 + 2 + name + 2 + here + 2 + offline) + 4
    topics = [len(kind) for kind in ("/task", "/model", "/d")]
    topics += [len(kind) + client for kind in ("/welcome/", "/whole/")]
    subscribe = sum(packet(2 + 2 + federation + topic + 1) + 5 for topic in topics)
    said = published("/here/{}", online) + published("/here/{}", offline)
    heard = published("/welcome/{}", len('{"protocol":5,"number":}') + client - 1)
    return connect + subscribe + said + heard + published("/task", task) + published("/model", first) + 2


@pytest.mark.parametrize(
    "text",
    [
        "fedogd",
        "ofediq(rate=0.3, levels=3, blocks=14)",
        "ofedgrid(bits_per_step=8000, steps=30)",
        "scaffold",
        "ofedduplex(bytes_per_step=6000, dim=650, clients=10, steps=30)",
    ],
)
def test_the_formula_agrees_with_the_kernels_count_within_two_percent(text: str, broker: Broker) -> None:
    method = methods.make(text, step_size=0.1)
    ends = method.ends(STEPS)
    stream = partition(load("digits"), clients=CLIENTS, steps=int(ends[-1]), seed=3)
    names = client_names(CLIENTS)
    rules = Rules(roster=names, open=False, min_clients=CLIENTS, rounds=len(ends), deadline=30.0)
    name = f"bytes-{text.partition('(')[0]}"
    server = coordinate(name, method, SPEC, rules, seed=5)
    first = len(ModelMessage(1, 1, CLIENTS, server.keeper.state.down).encode())
    sessions = asyncio.run(federate(server, broker, stream))
    counted = sum(sum(session.traffic()) for session in sessions)
    if not counted:
        pytest.skip("the kernel does not count")

    result = reference(method, stream, models.softmax(64, 10), seed=5)
    link = Connection(len(name), len(names[0]), passes=True)
    joining = CLIENTS * joining_bytes(len(name), len(names[0]), len(server.task.encode()), first)
    steady = link.total(
        method, 650, CLIENTS, senders=result.senders, wire=result.bits_wire, downlink=result.bits_downlink
    )
    if not method.broadcast.exact:  # the final model is sent whole, for those who come later
        joining += CLIENTS * (4 * 650 - result.bits_downlink[-1] / 8)
    assert steady.sum() + joining == pytest.approx(counted, rel=0.02)
    if method.participation.foreseeable:  # no passes: what the result says, with names of its own lengths
        assert result.bytes_total.sum() == pytest.approx(steady.sum(), rel=0.05)
    assert np.isfinite(result.summary()["bytes_total"])
