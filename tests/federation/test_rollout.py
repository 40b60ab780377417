"""A running federation gets another version: at once, on some clients first, and back."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq.errors import WireError
from ofediq.federation import Broker, FederationConfig, Server, embedded
from ofediq.federation.network.server import STATE_FILE
from ofediq.federation.network.session import Session
from ofediq.federation.network.sources import Feeder
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import write_json
from ofediq.federation.rollout import Rollout
from ofediq.streams import Dataset, Stream
from tests.federation.live import InMemory
from tests.federation.network import FEDERATION, Network

CLIENTS, STEPS = 4, 1500


def stream() -> Stream:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((CLIENTS * STEPS, 2))
    y = x @ [1.0, -2.0] + 5
    return Stream(
        Dataset("plane", x=x, y=y, task="regression"), np.arange(CLIENTS * STEPS).reshape(STEPS, CLIENTS)
    )


class Site:
    """A federation.toml, its server and its clients."""

    def __init__(self, folder: Path, rounds: int = 250, fewest: int = 1) -> None:
        self.path, self.rounds, self.fewest = folder / "federation.toml", rounds, fewest
        self.network: Any = None  # before it is started

    def write(
        self,
        method: str = "step_size = 0.05",
        model: str = "linear",
        rollout: str = "",
        key: str = "fedogd",
    ) -> None:
        self.path.write_text(
            f'name = "{FEDERATION}"\n[model]\nname = "{model}"\nhidden = [4]\nfeatures = 2\n'
            f'[method]\nkey = "{key}"\n{method}\n[rounds]\ncount = {self.rounds}\nmin_clients = {self.fewest}\n'
            f"[clients]\nroster = {[f'c{k}' for k in range(CLIENTS)]}\n[rollout]\n{rollout}\n"
        )

    def start(self) -> None:
        config = FederationConfig.read(self.path)
        if self.network is not None:
            self.network.coordinator.saved().write(config.folder / STATE_FILE)
        self.rollout = Rollout(self.path, config)
        coordinator = self.rollout.start()
        if self.network is None:
            self.network = Network(coordinator, stream())
        self.network.coordinator = coordinator
        self.network.start()

    def run(self, deliveries: int = 10**6) -> None:
        """Deliver so many messages, with a look at the file after each hundred."""
        while deliveries > 0:
            self.network.run(min(deliveries, 100))
            deliveries -= 100
            self.look()
            if self.network.coordinator.finished and not self.network.queue:
                return

    def look(self) -> None:
        self.network.now += 1.5
        found = self.rollout(self.network.coordinator, self.network.now)
        if found is not None:
            self.network.coordinator, actions = found
            self.network.act(actions)

    @property
    def versions(self) -> list[int]:
        """What each client follows."""
        return [learner.task.version if learner.task else -1 for learner in self.network.learners.values()]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    one = Site(tmp_path)
    one.write()
    one.start()
    one.run(200)
    return one


def test_a_change_of_method_is_taken_up_while_it_runs(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    before, step = site.network.coordinator.params, site.network.coordinator.step
    site.write(method="step_size = 0.02")
    site.look()
    after = site.network.coordinator
    np.testing.assert_array_equal(after.params, before)
    assert (after.task.version, after.step) == (1, step)
    site.run(200)
    assert site.versions == [1] * CLIENTS
    assert caplog.text.count("new task, ") == CLIENTS  # everyone is told once
    site.run()
    assert site.network.coordinator.finished
    assert all(learner.finished for learner in site.network.learners.values())
    assert site.network.coordinator.monitor.totals()["samples"] >= CLIENTS * (site.rounds - 2)


def test_another_model_begins_anew_and_one_command_goes_back(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    old = site.network.coordinator
    before = old.params
    site.write(model="mlp")
    site.look()
    assert site.network.coordinator.params.size != before.size
    assert "task version 1 has another model: model.name linear -> mlp" in caplog.text
    site.run(200)
    assert site.versions == [1] * CLIENTS
    site.rollout.versions.ask("rollback")
    site.look()
    np.testing.assert_array_equal(site.network.coordinator.params, before)
    site.run(200)
    assert site.versions == [2] * CLIENTS  # what the file says is not taken up again,
    site.start()  # not even by a server that is started again,
    site.run(200)
    assert site.versions == [2] * CLIENTS
    site.rollout.versions.ask("promote")  # but by command
    site.run()
    assert site.versions == [3] * CLIENTS
    assert site.network.coordinator.finished
    assert site.network.coordinator.monitor.step == site.rounds


@pytest.mark.parametrize(
    "fewest", [1, CLIENTS]
)  # min_clients counts those of the canary, or nothing would go on
def test_a_canary_that_predicts_well_is_promoted(tmp_path: Path, fewest: int) -> None:
    site = Site(tmp_path, rounds=300, fewest=fewest)
    site.write(method="step_size = 1e-6")
    site.start()
    site.run(200)
    site.write(method="step_size = 0.1", rollout="canary = 0.5\nsamples = 80")
    site.look()
    site.run(200)
    coordinator = site.network.coordinator
    assert coordinator.canary is not None
    names = coordinator.canary.names
    assert sorted(site.versions) == [0] * 2 + [1] * 2
    assert {name for name, one in site.network.learners.items() if one.task and one.task.version} == names
    assert "version 1 is tried on 2 clients" in (coordinator.monitor.trial or "")
    site.run(2000)
    assert site.network.coordinator.canary is None
    assert site.versions == [1] * CLIENTS
    site.run()
    assert all(learner.finished for learner in site.network.learners.values())
    x, y = stream().x, stream().y
    params = site.network.coordinator.params
    assert np.mean((x @ params[:2] + params[2] - y) ** 2) < 1e-3


@pytest.mark.parametrize("by", ["rule", "command", "file", "restart", "end"])
def test_a_canary_is_withdrawn(site: Site, by: str) -> None:
    site.run(500)
    method = "step_size = 50.0" if by == "rule" else "step_size = 0.02"
    site.write(method=method, rollout=f"canary = 0.5\nsamples = {200 if by == 'rule' else 10**6}")
    site.look()
    site.run(300)
    if by == "command":
        site.rollout.versions.ask("rollback")
    elif by == "file":
        site.write()
    elif by == "restart":
        site.network.queue.clear()
        site.write()
        site.start()
    site.run(1000 if by != "end" else 10**6)
    coordinator = site.network.coordinator
    assert coordinator.canary is None
    assert site.versions == [0] * CLIENTS
    site.run()
    assert coordinator.finished
    assert all(learner.finished for learner in site.network.learners.values())
    np.testing.assert_allclose(coordinator.params, [1.0, -2.0, 5.0], atol=0.3)


def test_live_a_canary_is_promoted_and_one_command_goes_back(tmp_path: Path) -> None:
    asyncio.run(promoted_and_back(tmp_path))


async def promoted_and_back(tmp_path: Path) -> None:
    site = Site(tmp_path, rounds=10**6)
    site.write(method="step_size = 1e-6")
    config = FederationConfig.read(site.path)
    rollout = Rollout(site.path, config)
    coordinator = rollout.start()
    async with embedded() as broker, asyncio.timeout(90):
        server = Server(coordinator, broker, config.folder, patience=10.0, operator=rollout)
        sessions = [live_client(name, broker) for name in config.rules.roster]
        tasks = [asyncio.create_task(server.run()), *(asyncio.create_task(one.run()) for one in sessions)]

        async def until(version: int) -> None:
            while any(one.learner.task is None or one.learner.task.version != version for one in sessions):
                await asyncio.sleep(0.05)

        await until(0)
        site.write(method="step_size = 0.1", rollout="canary = 0.5\nsamples = 40")
        await until(1)
        assert server.coordinator.canary is None
        before = rollout.versions.read(0)[1].restore(coordinator.keeper.state).params
        rollout.versions.ask("rollback")
        await until(2)
        assert server.coordinator.method == coordinator.method
        assert np.abs(server.coordinator.params - before).max() < 1e-2  # it goes on from there, in tiny steps
        for one in sessions:
            one.stop()
        server.stop()
        await asyncio.gather(*tasks)


def live_client(name: str, broker: Broker) -> Session:
    learner = Learner(FEDERATION, name)
    return Session(learner, broker, Feeder(learner, InMemory(stream(), int(name[1:]))), patience=10.0)


def test_live_the_task_comes_before_its_models(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def change() -> None:
        site = Site(tmp_path, rounds=10**6)
        site.write()
        config = FederationConfig.read(site.path)
        rollout = Rollout(site.path, config)
        coordinator = rollout.start()
        async with embedded() as broker, asyncio.timeout(90):
            server = Server(coordinator, broker, config.folder, patience=10.0, operator=rollout)
            sessions = [live_client(name, broker) for name in config.rules.roster]
            tasks = [asyncio.create_task(server.run()), *(asyncio.create_task(one.run()) for one in sessions)]
            while coordinator.step < 5:
                await asyncio.sleep(0.05)
            # Its models have one number more: who does not know the task yet must refuse them.
            site.write(key="ofedgrid", method="budget = 0.5", rollout="canary = 0.5\nsamples = 1000000")
            while server.coordinator.canary is None or server.coordinator.canary.coordinator.monitor.step < 3:
                await asyncio.sleep(0.05)
            for one in sessions:
                one.stop()
            server.stop()
            await asyncio.gather(*tasks)

    asyncio.run(change())
    assert "refused a message" not in caplog.text


def test_a_file_that_cannot_be_used_is_said_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.write(method="step_size = -1")
    site.run(1000)
    assert caplog.text.count("goes on as before") == 1
    site.rollout.versions.ask("rollback")
    site.run(300)
    assert "no earlier version" in caplog.text
    assert site.versions == [0] * CLIENTS


def test_a_client_that_cannot_follow_says_so_and_is_silent() -> None:
    learner = Learner(FEDERATION, "c0")
    learner.receive("welcome", write_json(number=0))
    with pytest.raises(WireError, match="client c0 takes no part until it can follow"):
        learner.receive("task", write_json(version=7))
    assert learner.receive("model", b"OM") == []
    assert not learner.ready
