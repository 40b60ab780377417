"""The protocol without a network: the same models as the simulator, whatever happens to the messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.messages import Publish, write_json
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.task import ModelSpec
from ofediq.methods import Method
from ofediq.simulation.oracle import reference
from ofediq.streams import Dataset, Stream, load, partition
from tests.federation.network import FEDERATION, Network

CLIENTS, STEPS = 12, 24
SPEC = ModelSpec("softmax", (8, 8), "classification", classes=10)
METHODS = {
    "raw": methods.fedogd(0.1),
    "sampled": methods.ofedavg(0.3, 0.1),
    "packed": methods.ofediq(0.3, 3, 14, 1, 0.1),
    "entropy": methods.ofediq(0.3, 3, 14, 1, 0.1, preset="paper", coding="entropy"),
    "rotated": methods.method(
        methods.local_ogd(0.1),
        methods.descend(0.1),
        participation=methods.bernoulli(0.5),
        compress=methods.rotate(2),
    ),
    "windows": methods.fedomd(4, 0.1),
    "quantised windows": methods.ofediq(0.5, 7, 3, 4, 0.1),
    "authors": methods.ofediq(0.3, 3, 14, 1, 0.01, preset="authors"),
    "steered": methods.ofedgrid(0.05 * 32 * 650 * CLIENTS, STEPS, 0.1),
    "memory": methods.make("topk_ef(keep=40, rate=0.5)", step_size=0.1),
    "memory on both sides": methods.make("scaffold(period=4, rate=0.7)", step_size=0.05),
    "differences": methods.with_broadcast(methods.ofedavg(0.3, 0.1), methods.delta(31, 1)),
    "differences and memory": methods.with_broadcast(
        methods.make("scaffold(period=2, rate=0.7)", step_size=0.05), methods.delta(31, 1, refresh=4)
    ),
    "mean of senders": methods.make("fedavg(period=4, rate=0.6)", step_size=0.05),
    "pulled back": methods.make("fedprox(period=4, rate=0.6)", step_size=0.05),
    "normalised windows": methods.make("fednova(period=4, rate=0.6)", step_size=0.05),
    "a fixed number of senders": methods.make("fedpaq(period=2, rate=0.6)", step_size=0.05),
    "corrections": methods.make("vrlsgd(period=4)", step_size=0.05),
    "lazy at any sample": methods.make("laq(bits=6)", step_size=0.05),
    "from the last mean": methods.make("cafe(keep=40, rate=0.5)", step_size=0.1),
    "differences from a memory": methods.make("diana(rate=0.5, levels=7)", step_size=0.1),
    "momentum": methods.make("ef21_sgdm(keep=40, rate=0.5)", step_size=0.1),
    "votes": methods.make("majority_vote(rate=0.5)", step_size=0.01),
    "buckets": methods.make("qsgd(rate=0.5)", step_size=0.1),
    "lattice": methods.make("uveqfed(period=2)", step_size=0.1),
    "measurements": methods.make("fedvqcs(rate=0.5)", step_size=0.1),
    "lazy": methods.make("lasg(period=2)", step_size=0.05),
    "own models": methods.make("fedomd_local(period=4)", step_size=0.1),
    "drawn coordinates": methods.make("eden(bits=0.2, rate=0.5)", step_size=0.1),
    "sampled by norms": methods.make(f"ocs(bits_per_step=20000, steps={STEPS}, codec=eden)", step_size=0.1),
    "whole numbers": methods.make("intsgd()", step_size=0.1),
    "the largest both ways": methods.make("ftrl_ef(keep=40, rate=0.5)", step_size=0.1),
    "scalars both ways": methods.make("seeds_scalars(keep=60, rate=0.5)", step_size=0.1),
    "coin": methods.with_server(methods.ofedavg(0.3), methods.coin()),
}


@pytest.fixture(scope="module")
def stream() -> Stream:
    return partition(load("digits"), clients=CLIENTS, steps=STEPS, seed=3)


def coordinator(method: Method, period_steps: int = STEPS, saved: Any = None, **rules: Any) -> Coordinator:
    chosen: dict[str, Any] = {
        "roster": tuple(f"c{k}" for k in range(CLIENTS)),
        "rounds": period_steps // method.period,
        "min_clients": CLIENTS,
        "clip": None,
        **rules,
    }
    monitor = Monitor(FEDERATION, "classification", {})
    return Coordinator(FEDERATION, method, SPEC, monitor, Rules(**chosen), seed=5, saved=saved)


def expected(method: Method, stream: Stream) -> Any:
    return reference(method, stream, models.softmax(64, 10), seed=5)


@pytest.mark.parametrize("key", METHODS)
def test_it_gives_the_simulators_model_and_bits(key: str, stream: Stream) -> None:
    server = coordinator(METHODS[key])
    network = Network(server, stream)
    network.start()
    network.run()
    wanted = expected(METHODS[key], stream)
    np.testing.assert_allclose(server.params, wanted.params, rtol=1e-5, atol=1e-6)
    totals = server.monitor.totals()
    assert totals["bits_wire"] == wanted.bits_wire.sum()
    assert totals["updates"] == wanted.senders.sum()
    assert server.finished
    assert totals["rejected"] == {}


@pytest.mark.parametrize(
    "key", ["normalised windows", "mean of senders", "memory on both sides", "corrections", "own models"]
)
def test_windows_that_hold_different_numbers_of_samples(key: str, stream: Stream) -> None:
    order = np.array(stream.order)
    order[: STEPS // 2, 0] = -1  # comes late
    order[4:7, 1::2] = -1  # pause inside and across windows
    order[-3:, 2] = -1  # leaves early
    patchy = Stream(stream.dataset, order)
    server = coordinator(METHODS[key])
    network = Network(server, patchy)
    network.start()
    network.run()
    wanted = expected(METHODS[key], patchy)
    np.testing.assert_allclose(server.params, wanted.params, rtol=1e-5, atol=1e-6)
    assert server.monitor.totals()["bits_wire"] == wanted.bits_wire.sum()


@pytest.mark.parametrize("key", ["packed", "own models"])
def test_predictions_are_counted_once_each(key: str, stream: Stream) -> None:
    server = coordinator(METHODS[key])
    network = Network(server, stream)
    network.start()
    network.run()
    for name, learner in network.learners.items():
        for one in learner.farewell():
            server.receive(one.topic, one.payload, network.now)
        assert server.monitor.client(name, 0).samples == STEPS
    error = sum(row.error for row in server.monitor.rows())
    assert error == pytest.approx(expected(METHODS[key], stream).error.sum())


@pytest.mark.parametrize("key", ["packed", "windows", "steered"])
def test_repeated_messages_change_nothing(key: str, stream: Stream) -> None:
    server = coordinator(METHODS[key])
    network = Network(server, stream)
    earlier: list[Publish] = []

    def twice(name: str, one: Publish) -> list[Publish]:
        earlier.append(one)
        stale = [earlier[network.random.randrange(len(earlier))]]
        return [one, one, *stale]

    network.tamper = twice
    network.start()
    network.run()
    np.testing.assert_allclose(server.params, expected(METHODS[key], stream).params, rtol=1e-5, atol=1e-6)
    assert server.monitor.rejected["duplicate"] + server.monitor.rejected["late"] > 0


def test_the_order_of_arrival_changes_nothing(stream: Stream) -> None:
    models_seen = []
    for seed in range(3):
        server = coordinator(METHODS["packed"])
        network = Network(server, stream, seed=seed, shuffle=seed > 0)
        held: list[Publish] = []

        def shuffled(
            name: str, one: Publish, held: list[Publish] = held, network: Network = network
        ) -> list[Publish]:
            held.append(one)
            if network.random.random() < 0.5:
                return []  # delayed until another client speaks
            network.random.shuffle(held)
            out = held[:]
            held.clear()
            return out

        network.tamper = shuffled if seed else network.tamper
        network.start()
        for _ in range(200):
            network.run()
            if server.finished:
                break
        models_seen.append((server.params, server.monitor.totals()["updates"]))
    # A delayed update may miss its deadline; if none did, the models agree bit for bit.
    full = [params for params, updates in models_seen if updates == models_seen[0][1]]
    for params in full:
        assert np.array_equal(params, full[0])


def test_a_restarted_server_loses_and_repeats_no_round(stream: Stream) -> None:
    method = METHODS["quantised windows"]
    first = coordinator(method)
    network = Network(first, stream)
    network.start()
    network.run(limit=CLIENTS * 6 + 7)  # stop in the middle of a round
    assert network.saved is not None
    assert not first.finished
    second = coordinator(method, saved=network.saved)
    network.coordinator = second
    network.queue.clear()  # what was under way is gone
    network.act(second.connected(network.now))
    for name in network.learners:
        network.arrive(name)
    network.run()
    assert second.finished
    np.testing.assert_allclose(second.params, expected(method, stream).params, rtol=1e-5, atol=1e-6)
    assert second.monitor.totals()["rounds"] == STEPS // method.period
    assert second.monitor.totals()["updates"] == expected(method, stream).senders.sum()


def test_a_continued_server_waits_for_its_clients_but_not_for_ever(stream: Stream) -> None:
    rules: dict[str, Any] = {"min_clients": 1, "start_clients": CLIENTS, "deadline": 10.0}
    network = Network(coordinator(METHODS["raw"], **rules), stream)
    network.start()
    network.run(limit=CLIENTS * 6)
    assert network.saved is not None
    server = coordinator(METHODS["raw"], saved=network.saved, **rules)
    assert server.step > 0
    server.connected(now=100.0)
    for k in range(CLIENTS - 1):
        server.receive(f"{FEDERATION}/here/c{k}", write_json(online=True), 101.0)
    assert (server.monitor.state, server.next_tick()) == ("waiting", 110.0)
    opened = server.tick(110.0)
    assert any(one.topic == f"{FEDERATION}/model" for one in opened if isinstance(one, Publish))
    assert server.monitor.state == "running"


def test_a_client_that_is_gone_is_not_waited_for(stream: Stream) -> None:
    server = coordinator(METHODS["raw"], min_clients=1)
    network = Network(server, stream)
    network.start()
    network.leave("c3")
    del network.learners["c3"]
    network.run()
    assert server.finished
    assert network.now == 0.0  # no deadline was needed
    assert server.monitor.totals()["updates"] <= STEPS * CLIENTS - STEPS + 1


def test_a_silent_client_costs_only_a_few_deadlines(stream: Stream) -> None:
    server = coordinator(METHODS["raw"], deadline=10.0)
    network = Network(server, stream)
    network.tamper = lambda name, one: [] if name == "c3" else [one]
    network.start()
    network.run()
    assert server.finished
    assert network.now == pytest.approx(30.0)


def test_a_silent_client_that_greets_in_every_round_costs_no_more(stream: Stream) -> None:
    server = coordinator(METHODS["raw"], deadline=10.0)
    network = Network(server, stream)
    here = Publish(f"{FEDERATION}/here/c3", write_json(online=True))
    network.tamper = lambda name, one: [here] if name == "c3" else [one]
    network.start()
    network.run()
    assert server.finished
    assert network.now == pytest.approx(40.0)  # three, and one more chance


def test_a_silent_client_is_not_waited_for_where_everyone_answers(stream: Stream) -> None:
    server = coordinator(METHODS["steered"], deadline=10.0)
    network = Network(server, stream)
    network.tamper = lambda name, one: [] if name == "c3" else [one]
    network.start()
    network.run()
    assert server.finished
    assert network.now == pytest.approx(30.0)


@pytest.mark.parametrize("moment", range(3))
def test_a_stray_offline_does_not_stop_the_rounds(moment: int, stream: Stream) -> None:
    server = coordinator(METHODS["raw"])  # with min_clients = K
    network = Network(server, stream)
    network.start()
    network.run(limit=4 * CLIENTS + moment * 5)
    network.leave("c3")
    network.run()
    assert server.finished
    assert network.now == 0.0
    np.testing.assert_allclose(server.params, expected(METHODS["raw"], stream).params, rtol=1e-5, atol=1e-6)


def test_late_joiners_start_from_the_retained_model_and_count_from_the_next_round(stream: Stream) -> None:
    server = coordinator(METHODS["raw"], roster=(), min_clients=2)
    network = Network(server, stream)
    everyone = dict(network.learners)
    network.learners = {name: everyone[name] for name in ("c0", "c1")}
    network.start()
    network.run(limit=20)
    assert 0 < server.step < STEPS
    for name in sorted(everyone, key=lambda name: int(name[1:])):
        if name not in network.learners:
            network.learners[name] = everyone[name]
            network.arrive(name)
    network.run()
    assert server.finished
    assert all(row.sent > 0 for row in server.monitor.rows())
    assert len(server.monitor.rows()) == CLIENTS


def test_rounds_keep_an_interval(stream: Stream) -> None:
    server = coordinator(METHODS["packed"], pace="interval", interval=2.0, deadline=2.0)
    network = Network(server, stream)
    network.start()
    network.run()
    assert network.now == pytest.approx(2.0 * (STEPS - 1))
    np.testing.assert_allclose(
        server.params, expected(METHODS["packed"], stream).params, rtol=1e-5, atol=1e-6
    )


def test_what_an_earlier_federation_left_behind_is_not_taken_for_this_one(stream: Stream) -> None:
    first = coordinator(METHODS["packed"])
    network = Network(first, stream)
    network.start()
    network.run()
    left = dict(network.retained)  # task and final model
    again = coordinator(METHODS["packed"])
    network = Network(again, stream)
    network.retained = left
    for name in network.learners:  # the clients are there before the new server
        network.queue += [(name, kept) for kept in left.values()]
        network.run()
        assert not network.learners[name].finished
    again.keeper.epoch = 2
    network.start()
    network.run()
    assert again.finished
    np.testing.assert_array_equal(again.params, first.params)


def test_nobody_waits_for_a_client_without_a_sample() -> None:
    x, y = np.ones((8, 64)), np.zeros(8, np.int64)
    data = Dataset("rare", x=x, y=y, task="classification", classes=10)
    order = np.arange(8).reshape(4, 2)
    order[1:, 1] = -1  # the second client has one sample only
    rules = Rules(rounds=4, roster=("c0", "c1"), min_clients=2)
    monitor = Monitor(FEDERATION, "classification", {})
    server = Coordinator(FEDERATION, methods.fedogd(0.1), SPEC, monitor, rules)
    network = Network(server, Stream(data, order))
    network.start()
    network.run()
    assert server.finished
    assert network.now == 0.0  # no deadline had to pass
    assert server.monitor.totals()["updates"] == 5
