"""Rounds whose updates are added up unread: the models of the simulator, and a server that sees no update."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq import methods, simulate
from ofediq.codec import Additive
from ofediq.errors import InputError, WireError
from ofediq.federation.local.fleet import client_names
from ofediq.federation.network.broker import Broker
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.messages import Publish, UpdateMessage, read_body, write_json
from ofediq.federation.protocol.monitor import Monitor, Round
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.task import ModelSpec
from ofediq.federation.secure import Aggregator
from ofediq.methods import Method, make
from ofediq.randomness import Address
from ofediq.streams import Stream, load, partition
from tests.federation.live import federate
from tests.federation.mosquitto import Mosquitto, needs_mosquitto
from tests.federation.network import FEDERATION, Network

CLIENTS, STEPS = 10, 6
SPEC = ModelSpec("softmax", (8, 8), "classification", classes=10)
SECURE = make("secure(keep=60, senders=10, least=7, step_size=0.5)")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return partition(load("digits"), clients=CLIENTS, steps=STEPS, seed=3)


class Recorder(Monitor):
    """Also keeps every round."""

    def record(self, one: Round) -> None:
        self.__dict__.setdefault("kept", []).append(one)
        super().record(one)


def senders(one: Coordinator) -> list[int]:
    """How many updates counted, round by round."""
    return [row.counted for row in one.monitor.__dict__.get("kept", [])]


def coordinator(method: Method = SECURE, names: Iterable[str] = (), **rules: Any) -> Coordinator:
    roster = tuple(names) or tuple(f"c{k}" for k in range(CLIENTS))
    chosen = {
        "roster": roster,
        "rounds": STEPS,
        "min_clients": CLIENTS,
        "clip": None,
        "secure": True,
        **rules,
    }
    monitor = Recorder(FEDERATION, "classification", {}, chosen["rounds"])
    return Coordinator(FEDERATION, method, SPEC, monitor, Rules(**chosen))


def test_the_sum_that_nobody_reads_is_the_simulators(stream: Stream) -> None:
    network = Network(coordinator(), stream)
    network.start()
    network.run()
    wanted = simulate(SECURE, stream, SPEC.build())
    np.testing.assert_allclose(network.coordinator.params, wanted.params, rtol=1e-5, atol=1e-6)
    assert senders(network.coordinator) == [10] * STEPS


def test_what_the_server_gets_is_no_ones_update(stream: Stream) -> None:
    """Every update on the wire, beside what the same client would have sent in the open."""
    piece = SECURE.compress
    assert isinstance(piece, Additive)
    seen: list[tuple[str, bytes]] = []
    network = Network(coordinator(rounds=1), stream)

    def spy(name: str, one: Publish) -> list[Publish]:
        if one.topic.startswith(f"{FEDERATION}/u/"):
            said = UpdateMessage.decode(one.payload, 1)
            assert said.report.samples == 0  # no losses of a member either
            seen.append((name, read_body(said.body, ("update",), said.step)["update"].payload))
        return [one]

    network.tamper = spy
    network.start()
    network.run()
    model = SPEC.build()
    x, y, _ = stream.step(0)
    updates = np.asarray(model.client_gradients(model.initial(0), x, y), np.float32)
    assert len(seen) == CLIENTS
    for name, payload in seen:
        number = int(name[1:])
        open_ = piece.residues(updates[number], Address(0, 1, number))
        assert (piece.read(payload) == open_).mean() < 0.2  # 7 bits, 60 symbols: 1 in 128 by chance
    assert not any(update.vectors for update in _updates(network))


def _updates(network: Network) -> list[Any]:
    one = network.coordinator._round
    return [] if one is None else list(one.updates.values())


@pytest.mark.parametrize("topic", ["s", "u"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_members_drop_out_at_every_point(stream: Stream, topic: str, which: int) -> None:
    """From the n-th message of a kind on, two members are silent; the model moves by the others' sum."""
    network = Network(coordinator(rounds=2), stream)
    count = {"c0": 0, "c1": 0}

    def silent(name: str, one: Publish) -> list[Publish]:
        if name in count and one.topic.startswith(f"{FEDERATION}/{topic}/"):
            count[name] += 1
            return [] if count[name] > which else [one]
        return [one]

    network.tamper = silent
    network.start()
    network.run()
    assert network.coordinator.finished
    assert set(senders(network.coordinator)) <= {8, 10}
    assert np.linalg.norm(network.coordinator.params) > 0


def test_a_round_that_loses_too_many_ends_empty(stream: Stream) -> None:
    network = Network(coordinator(rounds=1), stream)
    network.tamper = lambda name, one: [] if name < "c4" and "/u/" in one.topic else [one]
    before = network.coordinator.params.copy()
    network.start()
    network.run()
    assert network.coordinator.finished
    assert (network.coordinator.params == before).all()
    assert senders(network.coordinator) == [0]


def test_the_page_says_when_rounds_stay_empty(stream: Stream) -> None:
    """Nothing is learnt then, and each round by itself looks well."""
    network = Network(coordinator(rounds=4), stream)
    told: list[str] = []

    def few(name: str, one: Publish) -> list[Publish]:
        told.extend(network.coordinator.monitor.problems.values())
        gone = network.coordinator.step < 3 and name < "c4" and "/u/" in one.topic
        return [] if gone else [one]

    network.tamper = few
    network.start()
    network.run()
    assert senders(network.coordinator) == [0, 0, 0, 10]
    (sentence,) = set(told)
    assert "6 members stayed to the end, at least 8 are needed, and the answers of 7" in sentence
    assert not network.coordinator.monitor.problems


def test_no_round_opens_that_could_only_end_empty() -> None:
    """They took no time, and a federation came to its end without having learnt anything."""
    server = coordinator(min_clients=1)
    server.connected(0.0)
    for number in range(8):
        assert server.monitor.state == "waiting"
        said = server.receive(f"{FEDERATION}/here/c{number}", write_json(online=True), 0.0)
    assert server.monitor.state == "running"
    assert f"{FEDERATION}/model" in [getattr(one, "topic", "") for one in said]


def test_no_sum_comes_out_of_fewer_than_the_noise_was_made_for(stream: Stream) -> None:
    """Two thirds of a cohort of eight are six, whose noise would not be that of seven."""
    network = Network(coordinator(rounds=1), stream)
    network.tamper = lambda name, one: [] if name < "c2" or (name < "c4" and "/u/" in one.topic) else [one]
    network.start()
    network.run()
    assert senders(network.coordinator) == [0]


def test_nonsense_is_refused_and_harms_nobody(stream: Stream) -> None:
    network = Network(coordinator(rounds=1), stream)
    network.tamper = lambda name, one: [
        *([Publish(one.topic, one.payload[:-1])] if "/s/" in one.topic else []),
        Publish(f"{FEDERATION}/s/c3", b"\1"),
        Publish(f"{FEDERATION}/s/stranger", one.payload),
        one,
        one,
    ]
    network.start()
    network.run()
    wanted = simulate(SECURE, stream.head(1), SPEC.build())
    np.testing.assert_allclose(network.coordinator.params, wanted.params, rtol=1e-5, atol=1e-6)


def test_the_method_must_add_up() -> None:
    with pytest.raises(InputError, match="`secure` needs a method whose messages add up unread"):
        coordinator(methods.ofediq(0.3, 3, 14))
    with pytest.raises(InputError, match="`combine` must be the plain sum"):
        coordinator(methods.with_combine(SECURE, methods.combine_rule("coordinate_median")))
    with pytest.raises(InputError, match="`senders` must be at least 8, got 4"):
        coordinator(make("secure(keep=60, senders=4)"))


@needs_mosquitto
def test_over_a_real_broker(stream: Stream, tmp_path: Path) -> None:
    private = make("private(keep=60, senders=10, epsilon=8.0, step_size=0.1)")
    with Mosquitto(tmp_path) as broker:
        server = coordinator(private, client_names(CLIENTS), rounds=3)
        asyncio.run(federate(server, Broker(broker.address, insecure=True), stream))
        assert server.finished
        assert senders(server) == [10] * 3
        assert np.isfinite(server.params).all()
        assert np.linalg.norm(server.params) > 0


def test_a_promise_for_members_needs_an_end() -> None:
    member = make("private(keep=60, senders=10, unit=member, steps=4)")
    coordinator(member, rounds=4)
    with pytest.raises(InputError, match="`rounds` must end by step 4"):
        coordinator(member, rounds=5)


def test_one_member_moves_a_sum_by_no_more_than_its_cohort_could(stream: Stream) -> None:
    """Nobody sees one member's part, but everybody knows how long a sum can be."""
    piece = SECURE.compress
    assert isinstance(piece, Additive)
    network = Network(coordinator(rounds=1), stream)
    member, honest = network.learners["c3"], Additive.residues

    def residues(self: Additive, update: Any, address: Address) -> Any:
        made = honest(self, update, address)
        return np.full_like(made, 2 ** (piece.bits - 1) - 1) if int(address.client) == 3 else made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Additive, "residues", residues)
        network.start()
        network.run()
    assert member.step == 1
    moved = float(np.linalg.norm(network.coordinator.params)) / 0.5 * CLIENTS
    unit = piece.clip / piece.levels * np.sqrt(650 / piece.keep)
    assert moved <= piece.longest_sum(CLIENTS) * unit * 1.001


def test_a_flood_of_keys_is_dropped_unread(stream: Stream) -> None:
    server = coordinator()
    Network(server, stream).start()
    for _ in range(500):
        server.receive(f"{FEDERATION}/s/c0", b"x" * 100, 0.0)
    assert server.monitor.rejected["flood"] > 400


def test_a_member_answers_about_no_fewer_than_the_method_says(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that asks for the sum of fewer, whose noise would not be what was promised, gets no answer."""
    network = Network(coordinator(make("secure(keep=60, senders=10, least=9, step_size=0.5)")), stream)
    monkeypatch.setattr(Aggregator, "heard", property(lambda self: sorted(self.masked)[:8]))
    network.start()
    with pytest.raises(WireError, match="heard: 8 members, which is too few"):
        network.run()
