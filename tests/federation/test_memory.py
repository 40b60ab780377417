"""Clients that remember: receipts, lost updates, restarts, lost files."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq import methods, models
from ofediq.errors import WireError
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.memory import MemoryFile
from ofediq.federation.protocol.messages import (
    ModelMessage,
    Publish,
    UpdateMessage,
    read_body,
    read_receipts,
    write_json,
    write_receipts,
)
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.methods.client import Down
from ofediq.randomness import Address
from ofediq.storage import leaves
from ofediq.streams import Stream
from ofediq.streams.features import pipeline_for
from tests.federation.network import FEDERATION, Network
from tests.federation.test_core import CLIENTS, STEPS, coordinator, expected, stream

__all__ = ["stream"]  # a fixture

DIM = 650
SCAFFOLD = methods.make("scaffold(period=4, rate=0.7)", step_size=0.05)
TOPK = methods.make("topk_ef(keep=40, rate=0.5)", step_size=0.1)


@given(st.integers(1, 70_000), st.data())
def test_receipts_come_back_and_are_short(clients: int, data: st.DataObject) -> None:
    counted = sorted(data.draw(st.sets(st.integers(0, clients - 1), max_size=200)))
    written = write_receipts(counted, clients)
    assert read_receipts(written, clients) == tuple(counted)
    assert len(written) <= 1 + min((clients + 7) // 8, 4 * len(counted))


@given(st.binary(max_size=12), st.integers(1, 40))
def test_receipts_that_are_none_are_refused(data: bytes, clients: int) -> None:
    try:
        numbers = read_receipts(data, clients)
    except WireError:
        return
    assert list(numbers) == sorted(set(numbers))
    assert all(0 <= number < clients for number in numbers)


def test_a_method_that_needs_no_receipt_pays_for_none(stream: Stream) -> None:
    network = Network(coordinator(methods.ofedavg(0.5, 0.1)), stream)
    network.start()
    network.run()
    assert len(network.retained[f"{FEDERATION}/model"].payload) == 24 + 4 * DIM


def test_the_control_variate_stays_the_mean_when_updates_are_lost(stream: Stream) -> None:
    server = coordinator(SCAFFOLD, deadline=1.0)
    network = Network(server, stream)
    lost = []

    def lose(name: str, one: Publish) -> list[Publish]:
        if name in ("c3", "c7") and network.random.random() < 0.5:
            lost.append(name)
            return []
        return [one]

    network.tamper = lose
    network.start()
    network.run()
    assert server.finished
    assert lost
    own = np.array([learner.memory["control"][0] for learner in network.learners.values()])
    assert np.abs(own).max() > 0
    np.testing.assert_allclose(_control(network), own.mean(axis=0), rtol=1e-4, atol=1e-6)


def _control(network: Network) -> Any:
    assert network.saved is not None
    return leaves(network.saved.state)["state/server/control"]


def test_an_update_that_is_lost_stays_in_the_memory(stream: Stream) -> None:
    method = methods.make(f"topk_ef(keep={DIM})", step_size=0.1)  # all is sent: memory is what was lost
    server = coordinator(method, deadline=1.0)
    network = Network(server, stream)
    said: list[Any] = []  # c3's first two updates, and where the second one starts

    def lose(name: str, one: Publish) -> list[Publish]:
        if name != "c3" or len(said) == 2:
            return [one]
        message = UpdateMessage.decode(one.payload, 1)
        body = read_body(message.body, ["update"], message.step)["update"]
        update = method.compress.decode(body, DIM, Address(5, len(said) + 1, 3), None)
        said.append((update, network.learners["c3"].params))
        return [one] if len(said) == 2 else []

    network.tamper = lose
    network.start()
    network.run()
    assert server.finished
    x, y, _ = stream.step(1)
    (first, _), (second, params) = said
    gradient = models.softmax(64, 10).client_gradients(params, x[3:4], y[3:4])[0]
    np.testing.assert_allclose(second, first + gradient, rtol=1e-5, atol=1e-6)
    assert not network.learners["c3"].memory["error"].any()  # nothing was lost after that


@pytest.mark.parametrize("method", [TOPK, SCAFFOLD], ids=lambda method: method.name)
def test_a_client_that_is_restarted_goes_on_as_if_nothing_had_happened(
    method: methods.Method, stream: Stream, tmp_path: Path
) -> None:
    server = coordinator(method)
    network = Network(server, stream)

    def process(name: str) -> Learner:
        return Learner(FEDERATION, name, file=MemoryFile(tmp_path / f"{name}.npz"))

    network.learners = {name: process(name) for name in network.learners}
    network.start()
    for _ in range(200):
        network.run(limit=7)
        if server.finished:
            break
        name = f"c{network.random.randrange(CLIENTS)}"
        network.learners[name] = process(name)
        network.queue = [(to, one) for to, one in network.queue if to != name]
        network.arrive(name)
    assert server.finished
    assert server.monitor.totals()["updates"] == expected(method, stream).senders.sum()
    np.testing.assert_allclose(server.params, expected(method, stream).params, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("damage", [b"", b"no memory", None])
def test_a_client_whose_memory_is_lost_says_so_and_starts_clean(
    damage: bytes | None, stream: Stream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = coordinator(TOPK)
    network = Network(server, stream)
    path = tmp_path / "c3.npz"
    network.learners["c3"] = Learner(FEDERATION, "c3", file=MemoryFile(path))
    network.start()
    network.run(limit=CLIENTS * STEPS // 2)
    assert 0 < server.step < STEPS
    if damage is None:  # of another client
        path = tmp_path / "c4.npz"
        path.write_bytes((tmp_path / "c3.npz").read_bytes())
        network.leave("c3")
        name = "c4"
    else:
        path.write_bytes(damage)
        name = "c3"
    network.learners[name] = Learner(FEDERATION, name, file=MemoryFile(path))
    with caplog.at_level(logging.WARNING):
        network.arrive("c3")
        network.arrive(name)
        network.run()
    assert "its memory is lost, it starts clean" in caplog.text
    assert server.finished
    moved = np.linalg.norm(server.params - expected(TOPK, stream).params)
    assert moved < 0.2 * np.linalg.norm(server.params)  # one memory of twelve is missing, no more


@pytest.mark.parametrize("when", ["lost", "lost after it sent", "not told"])
def test_the_control_variate_stays_the_mean_when_a_memory_is_gone(when: str, stream: Stream) -> None:
    server = coordinator(
        methods.make("scaffold(period=1, rate=0.7)", step_size=0.05), deadline=1.0, clip=100.0
    )
    network = Network(server, stream)
    network.start()
    while True:  # until its update of a round that is over may have counted
        network.run(limit=1)
        memory = network.learners["c3"]._recall.memory
        coming = any(to == "c3" and one.topic.endswith("/model") for to, one in network.queue)
        if memory is not None and memory.undecided and coming:
            break
    assert 0 < server.step < STEPS // 2
    if when == "lost after it sent":
        while (one := server._intake.round) is None or "c3" not in one.heard:
            network.run(limit=1)
    network.queue = [(to, one) for to, one in network.queue if to != "c3"]
    if when != "not told":
        network.leave("c3")
        network.learners["c3"] = Learner(FEDERATION, "c3")
        network.arrive("c3")
        network.queue.sort(key=lambda item: item[0] != "c3")  # it is back before the round is over
    network.run()
    assert server.finished
    own = np.array([learner.memory["control"][0] for learner in network.learners.values()])
    assert np.abs(own[3]).max() > 0  # it has sent since
    np.testing.assert_allclose(_control(network), own.mean(axis=0), rtol=1e-4, atol=1e-6)


def test_a_file_is_written_as_often_as_asked(stream: Stream, tmp_path: Path) -> None:
    network = Network(coordinator(TOPK), stream)
    path = tmp_path / "c3.npz"
    network.learners["c3"] = Learner(FEDERATION, "c3", file=MemoryFile(path, every=STEPS))
    network.start()
    network.run(limit=CLIENTS * (STEPS - 2))
    assert not path.exists()
    network.run()
    assert path.exists()


def test_a_disk_that_refuses_does_not_stop_a_client(
    stream: Stream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    server = coordinator(TOPK)
    network = Network(server, stream)
    network.learners["c3"] = Learner(FEDERATION, "c3", file=MemoryFile(tmp_path / "file" / "c3.npz"))
    network.start()
    network.run()
    assert server.finished
    assert caplog.text.count("it goes on without") == 1
    np.testing.assert_allclose(server.params, expected(TOPK, stream).params, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_client_learnt_for_itself_outlives_another_budget(restarted: bool, tmp_path: Path) -> None:
    spec = ModelSpec("auto", (2,), "regression", pipeline=pipeline_for(("a", "b")))
    dim = spec.build().dim

    def task(levels: int, version: int, **more: Any) -> bytes:
        method = methods.mixed(methods.untuned(methods.ofediq(0.9, levels, 1)), dim, clients=2, outputs=1)
        return replace(Task.of(replace(method, **more), spec, seed=0), version=version).encode()

    def opened(learner: Learner, step: int) -> None:
        zeros = np.zeros(dim, np.float32)
        learner.receive("model", ModelMessage(7, step, 2, Down(zeros, {}, {})).encode())

    def begun(*tasks: bytes) -> Learner:
        learner = Learner("f", "c", file=MemoryFile(tmp_path / "memory.npz"))
        learner.receive("welcome", write_json(number=0))
        for one in tasks:
            learner.receive("task", one)
        return learner

    learner, rng = begun(task(3, 0)), np.random.default_rng(0)
    for step in range(1, 30):
        opened(learner, step)
        x = rng.normal(size=2)
        learner.learn(x, float(x[0] + 0.1 * rng.normal()))
    own = learner.memory["weights"].copy()
    assert np.abs(own).max() > 0.1
    if restarted:
        learner = begun(task(7, 1))
    else:
        learner.receive("task", task(7, 1))
    opened(learner, 30)
    np.testing.assert_array_equal(learner.memory["weights"], own)
    took_part, said = learner.learn(np.zeros(2), 0.0)
    assert took_part
    assert said
    learner.receive("task", task(7, 2, client=methods.mixed(methods.ofedavg(0.5, 0.1), dim, 2).client))
    opened(learner, 31)
    assert "weights" not in learner.memory  # another rule: it begins anew


@pytest.mark.parametrize("key", ["ef21_sgdm(keep=5)", "laq"])
def test_another_version_forgets_on_both_sides_what_the_server_had_added_up(key: str, stream: Stream) -> None:
    network = Network(coordinator(methods.make(key, step_size=0.1)), stream)
    network.start()
    network.run(limit=CLIENTS * 8)
    assert any(np.any(learner.memory[KNOWN[key]]) for learner in network.learners.values())
    slower = coordinator(methods.make(key, step_size=0.05), saved=network.saved)
    network.coordinator = slower
    network.queue.clear()
    network.start()
    network.run()
    assert slower.finished
    own = np.array([learner.memory[KNOWN[key]][0] for learner in network.learners.values()])
    kept = leaves(slower.saved().state)
    total = kept["state/server/total"] if key == "laq" else CLIENTS * kept["state/server/shift"]
    np.testing.assert_allclose(total, own.sum(axis=0), rtol=1e-3, atol=1e-5)


KNOWN = {"laq": "heard", "ef21_sgdm(keep=5)": "known"}
