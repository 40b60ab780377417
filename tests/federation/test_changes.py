"""A running federation that diverges, and one that is changed: the model stays."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from ofediq import methods
from ofediq.errors import CheckpointError
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.divergence import FAR, WINDOW, Watch
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.reports import Report
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.task import ModelSpec
from ofediq.methods import Method
from ofediq.methods.round import first_state
from ofediq.streams import Dataset, Stream
from tests.federation.network import FEDERATION, Network

CLIENTS, STEPS = 3, 120
SPEC = ModelSpec("linear", (2,), "regression")


def stream() -> Stream:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((CLIENTS * STEPS, 2)) * 3
    y = x @ [1.0, -2.0] + 5
    data = Dataset("plane", x=x, y=y, task="regression")
    return Stream(data, np.arange(CLIENTS * STEPS).reshape(STEPS, CLIENTS))


def server(
    method: Method, rounds: int = STEPS, clients: int = CLIENTS, spec: ModelSpec = SPEC, **more: Any
) -> Coordinator:
    rules = Rules(roster=tuple(f"c{k}" for k in range(clients)), rounds=rounds // method.period, clip=None)
    return Coordinator(FEDERATION, method, spec, Monitor(FEDERATION, "regression", {}), rules, seed=5, **more)


def test_a_federation_that_diverges_goes_back_and_learns_with_smaller_steps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = server(methods.fedogd(2.0))  # far above what the data allow
    problems: set[str] = set()
    network = Network(one, stream())

    def look(name: str, said: Any) -> list[Any]:
        problems.update(one.monitor.problems.values())
        return [said]

    network.tamper = look
    network.start()
    network.run()
    assert one.finished
    assert one.monitor.rollbacks >= 1
    assert any("predictions diverged at step" in sentence for sentence in problems)
    assert "predictions diverged" in caplog.text
    assert one.method.server.step_size < 1.0  # type: ignore[attr-defined]  # of Descend
    assert one.task.version == one.monitor.rollbacks
    assert one.monitor.parameters["steps_after_divergence"] == f"1/{4**one.monitor.rollbacks}"
    x, y = stream().x, stream().y
    prediction = x @ one.params[:2] + one.params[2]
    assert np.mean((prediction - y) ** 2) < np.mean(y**2)
    assert all(learner.task == one.task for learner in network.learners.values())


def test_steps_are_made_smaller_as_often_as_they_are_too_large() -> None:
    """What clients still had to say of predictions before a divergence made every second one of several."""

    def rollbacks(step_size: float) -> int:
        network = Network(server(methods.fedogd(step_size)), stream())
        network.start()
        network.run()
        return network.coordinator.monitor.rollbacks

    steps = [1e3 / 4**times for times in range(3, 8)]
    assert rollbacks(steps[-1]) == 0 < rollbacks(steps[-2])
    assert [rollbacks(step) for step in steps] == [4, 3, 2, 1, 0]


def test_smaller_steps_outlive_the_server_unless_it_is_told_others() -> None:
    network = Network(server(methods.fedogd(2.0)), stream())
    network.start()
    network.run()
    before = network.coordinator
    again = server(methods.fedogd(2.0), epoch=2, saved=network.saved)
    assert again.method == before.method != methods.fedogd(2.0)
    assert again.task == before.task
    assert again.monitor.parameters == before.monitor.parameters
    told = server(methods.fedogd(0.001), epoch=2, saved=network.saved)
    assert told.method == methods.fedogd(0.001)
    assert told.monitor.parameters["steps_after_divergence"] is None
    assert told.task.version == before.task.version + 1


def test_what_learns_is_left_alone() -> None:
    one = server(methods.fedogd(0.01))
    network = Network(one, stream())
    network.start()
    network.run()
    assert one.monitor.rollbacks == 0
    assert one.task.version == 0
    assert one.monitor.problems == {}


@pytest.mark.parametrize("error", [1e4, 1e30])
def test_whoever_says_that_its_errors_are_huge_does_not_stop_the_others(error: float) -> None:
    watch = Watch(first_state(methods.fedogd(0.1), np.zeros(2, np.float32), 10), 0, anchored=True)
    honest = [Report(4, 4.0, 4.0)] * 7
    state = first_state(methods.fedogd(0.1), np.ones(2, np.float32), 10)
    assert watch.judge(list(enumerate([*honest, *[Report(4, error, 4.0)] * 3])), state, 1) == "good"
    assert watch.judge(list(enumerate([Report(4, error, 4.0)] * 10)), state, 2) == "bad"


@pytest.mark.parametrize(("rounds", "found"), [(1, "good"), (3, "bad")])
def test_some_bad_rounds_for_everyone_are_a_divergence_and_one_is_none(rounds: int, found: str) -> None:
    """Three clients and ten rounds make a window: most of its reports may be well, and the model far off."""
    state = first_state(methods.fedogd(0.1), np.zeros(2, np.float32), 3)
    watch = Watch(state, 0, anchored=True)
    window = [*[1.0] * (10 - rounds), *[1e9] * rounds]
    judged = [
        watch.judge([(number, Report(1, error, 1.0)) for number in range(3)], state, step)
        for step, error in enumerate(window, 1)
    ]
    assert judged == ["open"] * 9 + [found]


def test_the_newest_good_model_is_not_trusted() -> None:
    states = [first_state(methods.fedogd(0.1), np.full(3, k, np.float32), 1) for k in range(5)]
    watch = Watch(states[0], 0, anchored=True)
    good, bad = Report(WINDOW, 1.0 * WINDOW, 1.0 * WINDOW), Report(WINDOW, 2 * FAR * WINDOW, 1.0 * WINDOW)
    assert [watch.judge([(0, good)], states[k], k) for k in (1, 2)] == ["good", "good"]
    assert watch.judge([(0, Report(1, 1.0, 1.0))], states[3], 3) == "open"
    assert watch.judge([(0, bad)], states[4], 4) == "bad"
    assert watch.back() == (states[1], 1)


def test_data_that_leave_the_model_are_no_divergence() -> None:
    """A good model whose targets jump is far off however small its steps are; steps that shrink never get there."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((CLIENTS * STEPS, 2))
    y = np.where(np.arange(len(x)) < 15 * CLIENTS, 0.0, 100.0) + rng.standard_normal(len(x))
    data = Dataset("jump", x=x, y=y, task="regression")
    one = server(methods.fedogd(0.02))
    network = Network(one, Stream(data, np.arange(len(x)).reshape(STEPS, CLIENTS)))
    network.start()
    network.run()
    assert one.monitor.rollbacks == 2
    assert one.method == methods.fedogd(0.02)
    assert all(learner.task == one.task for learner in network.learners.values())
    assert abs(one.params[2] - 100) < 20


def test_readings_that_explode_do_not_make_the_steps_smaller_for_ever() -> None:
    """Errors are then what they are with any step size: the server ends going back, and says that it is not well."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((CLIENTS * STEPS, 2))
    y = x @ [1.0, -2.0]
    x[40 * CLIENTS :] *= 1e20
    y[80 * CLIENTS : 85 * CLIENTS] *= 1e12  # the last value is as bad for a while
    data = Dataset("exploding", x=x, y=y, task="regression")
    one = server(methods.fedogd(0.05))
    network = Network(one, Stream(data, np.arange(len(x)).reshape(STEPS, CLIENTS)))
    network.start()
    network.run()
    assert 1 <= one.monitor.rollbacks <= 20
    assert one.method == methods.fedogd(0.05)
    assert "far off" in one.monitor.problems["divergence"]


CHANGES: dict[str, tuple[Method, int]] = {
    "step size": (methods.ofedavg(0.5, 0.02), CLIENTS),
    "budget": (methods.ofedavg(0.9, 0.01), CLIENTS),
    "method": (methods.ofediq(0.5, 7, 1, 1, 0.01), CLIENTS),
    "period": (methods.fedomd(4, 0.01), CLIENTS),
    "memory": (methods.make("topk_ef(keep=2, rate=0.7)", step_size=0.01), CLIENTS),
    "server rule": (methods.with_server(methods.ofedavg(0.5, 0.01), methods.adaptive()), CLIENTS),
    "one more client": (methods.ofedavg(0.5, 0.01), CLIENTS + 1),
    "nothing": (methods.ofedavg(0.5, 0.01), CLIENTS),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_federation_changes_and_keeps_its_model(what: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    network = Network(server(methods.ofedavg(0.5, 0.01), rounds=40), stream())
    network.start()
    network.run()
    saved, before = network.saved, network.coordinator.params
    method, clients = CHANGES[what]
    changed = server(method, rounds=80, clients=clients, epoch=2, saved=saved)
    np.testing.assert_array_equal(changed.params, before)
    assert changed.step == 40
    same = what in ("nothing", "one more client")
    assert changed.task.version == (0 if same else 1)
    assert ("task version 1 keeps the model: " in caplog.text) != same
    network.coordinator = changed
    network.queue.clear()
    network.start()
    network.run()
    assert changed.step == 80
    assert not np.array_equal(changed.params, before)
    assert all(learner.task == changed.task for learner in network.learners.values())


def test_another_model_is_another_federation() -> None:
    network = Network(server(methods.fedogd(0.01), rounds=5), stream())
    network.start()
    network.run()
    other = ModelSpec("mlp", (2,), "regression")
    with pytest.raises(CheckpointError) as found:
        server(methods.fedogd(0.01), saved=network.saved, spec=other)
    assert len(str(found.value)) < 200
