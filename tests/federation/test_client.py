"""The client that drops into an existing stream loop, and its process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.errors import InputError
from ofediq.federation import Broker, BrokerError, Client, ModelSpec, Rules, Server, coordinate
from ofediq.federation.network.sources import Rows
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import ModelMessage, Publish, UpdateMessage, write_json
from ofediq.federation.protocol.task import Task
from ofediq.methods.client import Down
from tests.federation.mosquitto import Mosquitto

SPEC = ModelSpec("linear", (3,), "regression", features=("a", "b", "c"))
WEIGHTS = np.array([0.5, -1.0, 2.0], np.float32)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as running:
        yield Broker(running.address, insecure=True)


@contextmanager
def running_server(name: str, broker: Broker, **rules: Any) -> Iterator[Server]:
    """A server in a thread of its own."""
    coordinator = coordinate(name, methods.fedogd(0.1), SPEC, Rules(**rules))
    holder: list[Any] = []
    ready = threading.Event()

    async def serve() -> None:
        server = Server(coordinator, broker, patience=10.0)
        holder.extend([server, asyncio.get_running_loop()])
        ready.set()
        await server.run()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(10)
    try:
        yield holder[0]
    finally:
        if thread.is_alive() and not holder[1].is_closed():
            holder[1].call_soon_threadsafe(holder[0].stop)
        thread.join(30)


def samples(count: int) -> Iterator[tuple[np.ndarray[Any, Any], float]]:
    rng = np.random.default_rng(0)
    for _ in range(count):
        x = rng.standard_normal(3).astype(np.float32)
        yield x, float(WEIGHTS @ x)


def test_a_stream_loop_learns(broker: Broker) -> None:
    with running_server("loop", broker, rounds=120, deadline=30.0) as server:
        with Client(broker, "loop", "sensor", wait=30.0) as client:
            errors = []
            for x, y in samples(120):
                guess = client.predict_one(x)
                errors.append((guess - y) ** 2)
                assert client.learn_one(x, y)
        assert np.mean(errors[-20:]) < 0.01 * np.mean(errors[:20])
        row = server.coordinator.monitor.client("sensor", 0)
        for _ in range(200):  # the broker has the last update before the server has
            if row.sent < 120:
                time.sleep(0.05)
        assert row.sent == 120


def test_features_may_come_as_a_dict_and_extra_samples_are_only_counted(broker: Broker) -> None:
    rules = {"pace": "interval", "interval": 30.0, "deadline": 30.0}
    with running_server("dict", broker, **rules), Client(broker, "dict", "sensor") as client:
        x = {"a": 1.0, "b": 2.0, "c": 3.0}
        assert client.predict_one(x) == 0.0
        assert client.learn_one(x, 1.0)
        assert not client.learn_one(x, 1.0)
        assert client.learner.answers.samples == 2


def test_a_client_without_a_server_says_so(broker: Broker) -> None:
    client = Client(broker, "nothing", "sensor", timeout=0.5)
    with pytest.raises(BrokerError, match=r"no model of federation 'nothing' came within 0\.5 seconds"):
        client.__enter__()


def test_a_client_without_a_broker_says_so() -> None:
    client = Client(Broker("mqtt://127.0.0.1:1", insecure=True), "nothing", "sensor", timeout=0.5)
    with pytest.raises(BrokerError, match=r"cannot reach the broker at 127\.0\.0\.1:1|no model"):
        client.__enter__()


def learner(step: int = 1) -> Learner:
    """A client with task, number and first model."""
    one = Learner("test", "sensor")
    one.receive("task", Task.of(methods.fedogd(0.1), SPEC, seed=0).encode())
    one.receive("welcome", write_json(number=0))
    one.receive("model", ModelMessage(1, step, 1, Down(np.zeros(4, np.float32), {}, {})).encode())
    return one


def error_of(learnt: tuple[bool, list[Publish]]) -> float:
    """The error in the report of what a learner said."""
    (said,) = learnt[1]
    return UpdateMessage.decode(said.payload, near=1).report.error


def test_a_dict_is_read_by_name() -> None:
    one = Learner("test", "sensor")
    one.receive("task", Task.of(methods.fedogd(0.1), SPEC, seed=0).encode())
    one.receive("welcome", write_json(number=0))
    weights = np.array([1.0, 10.0, 100.0, 0.0], np.float32)
    one.receive("model", ModelMessage(1, 1, 1, Down(weights, {}, {})).encode())
    assert one.predict({"c": 3.0, "a": 1.0, "b": 2.0}) == one.predict([1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="has no 'b'"):
        one.predict({"a": 1.0, "c": 3.0, "d": 2.0})
    with pytest.raises(InputError, match="has also 'd'"):
        one.predict({"a": 1.0, "b": 1.0, "c": 3.0, "d": 2.0})


def test_a_dict_without_names_in_the_task_is_refused() -> None:
    one = Learner("test", "sensor")
    one.receive("task", Task.of(methods.fedogd(0.1), replace(SPEC, features=()), seed=0).encode())
    one.receive("welcome", write_json(number=0))
    one.receive("model", ModelMessage(1, 1, 1, Down(np.zeros(4, np.float32), {}, {})).encode())
    with pytest.raises(InputError, match="the task names no features, got a dict"):
        one.predict({"a": 1.0, "b": 1.0, "c": 3.0})


def test_the_columns_of_a_file_go_by_the_names_in_the_task(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("c,a,y,b\n3,1,9,2\n")
    named = Rows(path, "y", announced=lambda: ("a", "b", "c")).at(1)
    assert named is not None
    assert (named.x, named.y) == ({"a": "1", "b": "2", "c": "3"}, "9")
    placed = Rows(path, "y").at(1)
    assert placed is not None
    assert (placed.x, placed.y) == (["3", "1", "2"], "9")


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "b")])
def test_names_that_do_not_fit_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="`features` must be 3 different names"):
        replace(SPEC, features=names)


def test_a_late_label_is_judged_by_the_prediction_that_was_made() -> None:
    one = learner()
    x = np.ones(3, np.float32)
    assert one.predict(x) == 0.0
    one.receive("model", ModelMessage(1, 2, 1, Down(np.ones(4, np.float32), {}, {})).encode())
    assert error_of(one.learn(x, 4.0)) == pytest.approx(
        16.0
    )  # right by the model of now, 4 off by that of then
    one.receive("model", ModelMessage(1, 3, 1, Down(np.ones(4, np.float32), {}, {})).encode())
    assert error_of(one.learn(x, 4.0)) == pytest.approx(0.0)  # not predicted before: the present model counts


def test_a_model_out_of_order_is_ignored() -> None:
    one = learner(step=5)
    for epoch, step in ((1, 4), (0, 9)):
        one.receive("model", ModelMessage(epoch, step, 1, Down(np.ones(4, np.float32), {}, {})).encode())
        assert one.step == 5
    one.receive("model", ModelMessage(2, 3, 1, Down(np.ones(4, np.float32), {}, {})).encode())
    assert one.step == 3  # a later server lost some rounds: it is right


def test_the_same_round_asked_again_gets_the_same_bytes() -> None:
    one = learner()
    first = one.learn(np.ones(3), 1.0)[1]
    again = one.receive("model", ModelMessage(2, 1, 1, Down(np.zeros(4, np.float32), {}, {})).encode())
    assert [message.payload for message in again] == [message.payload for message in first]


@pytest.mark.parametrize(
    ("x", "y", "text"),
    [
        ([1.0, 2.0], 0.0, "`x` must have 3 numbers, got 2"),
        ([1.0, 2.0, float("nan")], 0.0, "`x` must be finite"),
        (["a", "b", "c"], 0.0, "`x` must hold numbers"),
        ([1.0, 2.0, 3.0], float("inf"), "`y` must be finite"),
        ([1.0, 2.0, 3.0], None, "`y` must be a number"),
    ],
)
def test_a_bad_sample_is_one_clear_sentence(x: Any, y: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        learner().learn(x, y)


def test_predicting_before_the_first_model_is_one_clear_sentence() -> None:
    with pytest.raises(InputError, match="must have received a model first"):
        Learner("test", "sensor").predict([1.0])


_WITHOUT_EXTRAS = """
import sys
allowed = {"numpy", "constriction", "msgspec", "ofediq", "typing_extensions", "cython_runtime"}
before = set(sys.modules)
from ofediq.federation.network.client import Client
from ofediq.federation.network.session import Session
from ofediq.federation.protocol.task import ModelSpec
ModelSpec("softmax", (64,), "classification", 10).build()
loaded = {name.split(".")[0] for name in sys.modules if not name.startswith("_")} - {n.split(".")[0] for n in before}
foreign = {n for n in loaded if n not in sys.stdlib_module_names and n not in allowed and not n.startswith("_")}
print(sorted(foreign))
"""


def test_client_code_imports_numpy_constriction_and_msgspec_only() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_EXTRAS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc to see peak memory")
def test_a_client_process_answers_json_lines_in_little_memory(tmp_path: Path, broker: Broker) -> None:
    config = tmp_path / "client.toml"
    config.write_text(
        f'name = "pi"\nfederation = "lines"\n[broker]\naddress = "{broker.address}"\ninsecure = true\n'
        '[predictions]\npath = "told.jsonl"\n'
    )
    lines = "".join(json.dumps({"x": x.tolist(), "y": y}) + "\n" for x, y in samples(5))
    program = (
        "import sys; from ofediq.cli.app import app; "
        "app(['client', '--config', sys.argv[1], '--json'], standalone_mode=False); "
        "lines = open('/proc/self/status').read().splitlines(); "  # getrusage would count the test's own memory
        "print(next(line.split()[1] for line in lines if line.startswith('VmHWM')), file=sys.stderr)"
    )
    with running_server("lines", broker, deadline=1.0):
        done = subprocess.run(
            [sys.executable, "-c", program, str(config)],
            input=lines,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 5
    assert answers[0]["prediction"] == 0.0
    assert [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()] == answers
    said = done.stderr.splitlines()
    assert json.loads(said[-2])["samples"] == 5
    assert int(said[-1]) < 80_000  # kilobytes


def test_a_model_that_is_not_built_in_is_given_to_both_sides(broker: Broker) -> None:
    model = models.linear(3)
    with pytest.raises(InputError, match="must be given to this client"):
        Learner("test", "sensor").receive("task", Task.of(methods.fedogd(0.1), model, seed=0).encode())
    one = Learner("test", "sensor", model)
    one.receive("task", Task.of(methods.fedogd(0.1), model, seed=0).encode())
    assert one.task is not None
