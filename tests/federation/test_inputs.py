"""Raw readings live: the simulator's features bit for bit, names and labels by the task, a past that survives."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ofediq import methods
from ofediq.errors import InputError
from ofediq.federation import FederationConfig, assemble
from ofediq.federation.network.outlets import Outlet
from ofediq.federation.network.sources import Feeder, Rows
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.inputs import Inputs
from ofediq.federation.protocol.intervals import Misses
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.memory import MemoryFile
from ofediq.federation.protocol.messages import ModelMessage, Publish, UpdateMessage, write_json
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.predictions import Asked, Prediction, Waiting
from ofediq.federation.protocol.reports import Report
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.methods.client import Down
from ofediq.models import Anchored, late
from ofediq.simulation.oracle import reference
from ofediq.streams import Dataset, Stream
from ofediq.streams.features import Pipeline, featurize, pipeline_for
from tests.federation.network import FEDERATION, Network

CLIENTS, STEPS = 3, 120
NAMES = ("heat", "wind")
PIPELINE = pipeline_for(NAMES, gaps=("wind",))
SPEC = ModelSpec("auto", (2,), "regression", features=NAMES, pipeline=PIPELINE)
METHOD = methods.untuned(methods.ofediq(0.7, 7, 2))


def sensors(seed: int = 0) -> Stream:
    """Targets in tens of thousands that follow readings in thousandths; some readings are missing."""
    rng = np.random.default_rng(seed)
    x = 1e-3 * rng.standard_normal((STEPS * CLIENTS, 2)).cumsum(axis=0) * 0.1 + 1e-3
    y = 4e4 + 2e7 * x[:, 0] + 1e7 * x[:, 1] + 100 * rng.standard_normal(len(x))
    x[rng.random(len(x)) < 0.1, 1] = np.nan
    data = Dataset("sensors", x=x, y=y, task="regression", feature_names=NAMES, gaps=True)
    return Stream(data, np.arange(STEPS * CLIENTS).reshape(CLIENTS, STEPS).T)


def server(spec: ModelSpec = SPEC, **rules: Any) -> Coordinator:
    chosen: dict[str, Any] = {"roster": ("c0", "c1", "c2"), "rounds": STEPS, "min_clients": 3, "clip": None}
    monitor = Monitor(FEDERATION, "regression", {})
    return Coordinator(FEDERATION, METHOD, spec, monitor, Rules(**{**chosen, **rules}), seed=5)


def run(network: Network) -> None:
    network.start()
    network.run()


def test_a_federation_on_raw_readings_ends_with_the_simulators_model() -> None:
    stream, one = sensors(), server()
    run(Network(one, stream))
    wanted = reference(METHOD, featurize(stream, PIPELINE), SPEC.build(), seed=5)
    np.testing.assert_allclose(one.params, wanted.params, rtol=1e-5, atol=1e-6)
    assert one.monitor.totals()["bits_wire"] == wanted.bits_wire.sum()


def test_rows_ahead_live_and_in_the_simulator() -> None:
    """A row's target teaches the prediction of four rows before, in both; the naive error is that of five rows."""
    ahead = 5
    pipeline = pipeline_for(NAMES, gaps=("wind",), ahead=ahead)
    spec = replace(SPEC, pipeline=pipeline)
    stream, one = sensors(), server(spec, rounds=STEPS - ahead + 1)
    run(Network(one, stream))
    rows = featurize(stream, pipeline)
    model = spec.build()
    assert isinstance(model, Anchored)
    wanted = reference(METHOD, rows, late(model), seed=5)
    assert np.abs(one.params).max() > 0
    np.testing.assert_allclose(one.params, wanted.params, rtol=1e-5, atol=1e-6)

    client = alone(spec)
    for t in range(ahead + 2):
        row = stream.order[t, 0]
        client.predict(stream.x[row])
        naive = client.answers.inputs.naive(stream.y[[row]])
        assert naive == (
            None if t < ahead else (float(stream.y[row]) - float(stream.y[stream.order[t - ahead, 0]])) ** 2
        )
        client.learn(stream.x[row], float(stream.y[row]))
    assert client.answers.samples == 3  # whose targets have come


def alone(spec: ModelSpec = SPEC, file: MemoryFile | None = None, step: int = 1) -> Learner:
    """A client with task, number and model."""
    one = Learner("test", "sensor", file=file)
    task = Task.of(methods.fedogd(0.1), spec, seed=0)
    one.receive("task", task.encode())
    one.receive("welcome", write_json(number=0))
    one.receive("model", ModelMessage(1, step, 1, Down(np.zeros(task.dim, np.float32), {}, {})).encode())
    return one


def rows_of(one: Learner, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the model of `one` reads from now on."""
    seen: list[Any] = []
    observe = one.answers.inputs.observe

    def noted(x: Any, time: float) -> Any:
        seen.append(observe(x, time))
        return seen[-1]

    monkeypatch.setattr(one.answers.inputs, "observe", noted)
    return seen


def test_simulator_python_client_and_csv_client_make_the_same_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = sensors()
    wanted = featurize(stream, PIPELINE).x.reshape(STEPS, CLIENTS, -1)[:, 0]
    x, y = stream.x[:STEPS], stream.y[:STEPS]

    python = alone()
    seen = rows_of(python, monkeypatch)
    for values, target in zip(x, y, strict=True):
        python.predict(dict(zip(NAMES, values.tolist(), strict=True)))
        python.learn(dict(zip(NAMES, values.tolist(), strict=True)), float(target))
    np.testing.assert_array_equal(np.concatenate(seen), wanted)

    path = tmp_path / "rows.csv"
    lines = [
        f"{wind!r},{target!r},{heat!r}" for (heat, wind), target in zip(x.tolist(), y.tolist(), strict=True)
    ]
    path.write_text("\n".join(["wind,load,heat", *lines]).replace("nan", ""))
    table = alone()
    seen = rows_of(table, monkeypatch)
    feeder = Feeder(table, Rows(path, "load", announced=lambda: table.features))
    for step in range(2, STEPS + 2):
        feeder()
        table.receive(
            "model", ModelMessage(1, step, 1, Down(np.zeros(table.params.size, np.float32), {}, {})).encode()
        )
    np.testing.assert_array_equal(np.concatenate(seen), wanted)
    assert feeder.skipped.count == 0


TOML = """
name = "test"
[model]
names = ["heat", "wind"]
[rounds]
count = 120
min_clients = 3
[clients]
roster = ["c0", "c1", "c2"]
"""


def test_the_defaults_learn_from_raw_readings(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(TOML)
    one = assemble(FederationConfig.read(path))
    run(Network(one, sensors()))
    totals = one.monitor.totals()
    assert totals["skill"] > 0
    assert one.method.server.name.startswith("adaptive")
    assert one.task.model is not None
    assert isinstance(one.task.model.pipeline, Pipeline)


def test_a_step_size_or_a_preset_brings_the_papers_ways_back(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    for choice in ("step_size = 0.1", 'preset = "paper"'):
        path.write_text(TOML.replace("[rounds]", f"[method]\n{choice}\n[rounds]"))
        config = FederationConfig.read(path)
        assert config.spec().pipeline is None
        assert assemble(config).method.server.name.startswith("descend")


def test_a_restarted_client_goes_on_with_its_features(tmp_path: Path) -> None:
    stream, models = sensors(), []
    for restarts in (False, True):
        network = Network(server(), stream)
        if restarts:
            rounds = 0

            def maybe_restart(name: str, said: Any, network: Network = network) -> list[Any]:
                nonlocal rounds
                rounds += 1
                if rounds % 7 == 0:  # this client dies right after it spoke
                    network.learners[name] = Learner(
                        FEDERATION, name, file=MemoryFile(tmp_path / f"{name}.npz")
                    )
                    network.queue += [(name, kept) for kept in network.retained.values()]
                    network.queue.append((name, network_welcome(int(name[1:]))))
                return [said]

            for name in network.learners:
                network.learners[name] = Learner(FEDERATION, name, file=MemoryFile(tmp_path / f"{name}.npz"))
            network.tamper = maybe_restart
        run(network)
        assert network.coordinator.finished
        models.append(network.coordinator.params)
    np.testing.assert_array_equal(models[0], models[1])


def network_welcome(number: int) -> Publish:
    return Publish(f"{FEDERATION}/welcome/c{number}", write_json(number=number))


LABELLED = ModelSpec(
    "auto",
    (2,),
    "classification",
    features=NAMES,
    labels=("hot", "ok"),
    pipeline=pipeline_for(NAMES, classes=2),
)


def test_labels_are_those_of_the_task() -> None:
    one = alone(LABELLED)
    assert one.predict({"heat": 1.0, "wind": 2.0}) in ("hot", "ok")
    one.learn({"heat": 1.0, "wind": 2.0}, "ok")
    found = one.forecast({"heat": 1.0, "wind": 2.0})
    assert found.value == "ok"
    assert found.probabilities is not None
    assert set(found.probabilities) == {"hot", "ok"}
    assert sum(found.probabilities.values()) == pytest.approx(1)
    with pytest.raises(InputError, match="`y` must be one of the task's labels hot, ok, got 'cold'"):
        one.learn({"heat": 1.0, "wind": 2.0}, "cold")


def test_a_list_may_hold_numbers_that_stand_for_none() -> None:
    """As in a file and in a dict; float32 has no room for the last one."""
    found = Inputs(SPEC, labelled=False).readings([9.97e36, 1e300])
    assert np.isnan(found).all()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"heat": 1.0}, "must hold 'wind'"),
        ({"heat": 1.0, "wind": 2.0, "rain": 3.0}, "must hold heat, wind only, got 'rain'"),
        ({"heat": "warm", "wind": 2.0}, "`heat` must be a number or missing, got 'warm'"),
        ({"heat": np.ones(2), "wind": 2.0}, "`heat` must be a number or missing, got array"),
        ([1.0], "must have 2 numbers, got 1"),
        ([1.0, np.inf], "must be finite"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused_and_not_remembered(x: Any, message: str) -> None:
    one = alone(LABELLED)
    before = one.answers.inputs.past
    with pytest.raises(InputError, match=message):
        one.learn(x, "ok")
    assert one.answers.inputs.past is before


def test_numbers_and_texts_name_the_same_label() -> None:
    inputs = Inputs(ModelSpec("softmax", (2,), "classification", labels=("1", "3")), labelled=True)
    assert [inputs.label(y).item() for y in (1, 1.0, "1", np.int64(3), "3.0")] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("names", "written", "meant"),
    [
        (("False", "True"), ["true", "FALSE", True], [1, 0, 1]),
        (("02", "high"), ["02", "high"], [0, 1]),
        (("1", "10"), ["01", "1.0", "10"], [0, 0, 1]),
        (("0.5", "1.5"), ["0.50", 1.5], [0, 1]),
    ],
)
def test_a_label_may_be_written_in_other_ways(
    names: tuple[str, ...], written: list[Any], meant: list[int]
) -> None:
    inputs = Inputs(ModelSpec("softmax", (2,), "classification", labels=names), labelled=True)
    assert [inputs.label(y).item() for y in written] == meant


def test_a_late_label_finds_its_sample_by_its_id() -> None:
    one = alone()
    first = one.predict({"heat": 1.0, "wind": 1.0}, sample="a")
    one.predict({"heat": 1.0, "wind": 1.0}, sample="b")
    assert first == 0.0
    assert one.learn(None, 5.0, sample="a")[0]
    with pytest.raises(
        InputError, match="`sample` must be one of the last 256 that wait for a label, got 'a'"
    ):
        one.learn(None, 5.0, sample="a")


def test_a_sample_that_is_predicted_again_waits_as_long_as_any_other() -> None:
    waiting, readings, (first, again) = (
        Waiting(2),
        np.zeros(1, np.float32),
        [Asked(np.zeros(1, np.float32), ()) for _ in range(2)],
    )
    for name, asked in (("a", first), ("b", first), ("a", again), ("c", first)):
        waiting.add(name, readings, asked)
    assert waiting.take("a") is again
    assert waiting.take("b") is None
    for time in ("monday", datetime(2024, 1, 1, tzinfo=UTC)):
        with pytest.raises(InputError, match="`time` must be seconds since 1970, got "):
            alone().predict([1.0, 1.0], time=cast(Any, time))
    with pytest.raises(InputError, match=r"`sample` must be a text, a number or a tuple, got \[1\]"):
        alone().predict([1.0, 1.0], sample=[1])


def test_an_interval_is_that_of_the_clients_own_errors() -> None:
    one = alone()
    assert one.forecast([1.0, 1.0]).interval is None
    one.learn([1.0, 1.0], 3.0)  # predicted 0, from nothing: no error of a forecast
    assert one.forecast([1.0, 2.0]).interval is None
    one.learn([1.0, 2.0], 5.0)  # predicted 3
    low, high = one.forecast([1.0, 1.0]).interval or (0.0, 0.0)
    assert high - low == pytest.approx(2 * 1.645 * 2)


@pytest.mark.parametrize("draw", ["normal", "student", "jumps", "skewed"])
def test_nine_of_ten_targets_fall_into_the_interval(draw: str) -> None:
    rng = np.random.default_rng(3)
    errors = {
        "normal": rng.normal(size=4000),
        "student": rng.standard_t(2.2, size=4000),
        "jumps": rng.normal(size=4000) * np.where(np.arange(4000) // 500 % 2, 20.0, 1.0),
        "skewed": rng.exponential(size=4000) ** 2,
    }[draw]
    misses, inside = Misses.none(), 0
    for error in errors:
        reach = misses.reach()
        inside += reach is not None and abs(error) <= reach
        misses = misses.after(float(error * error))
    assert inside / len(errors) == pytest.approx(0.9, abs=0.01)


def test_a_first_guess_without_a_past_is_not_judged() -> None:
    one = alone()
    reports: list[Report] = []
    for target in (30_000.0, 30_001.0, 30_000.0):
        _, said = one.learn([1.0, 1.0], target)
        reports += [UpdateMessage.decode(message.payload, one.step).report for message in said]
        down = Down(np.zeros(one.params.size, np.float32), {}, {})
        one.receive("model", ModelMessage(1, one.step + 1, 1, down).encode())
    assert (sum(report.samples for report in reports), one.answers.samples) == (2, 3)
    assert sum(report.naive for report in reports) <= 2.0


def test_bad_rows_are_skipped_and_counted_and_a_file_is_read_on(tmp_path: Path) -> None:
    path, memory = tmp_path / "rows.csv", MemoryFile(tmp_path / "memory.npz")
    path.write_text("heat;wind;state\n1;2;ok\n1;2;cold\nwarm;2;ok\n1;2;\n1;2;hot\n")

    def read(step: int, spec: ModelSpec = LABELLED) -> Feeder:
        one = alone(spec, memory, step)
        feeder = Feeder(one, Rows(path, "state", announced=lambda: one.features, start=lambda: one.position))
        for later in range(step + 1, step + 4):
            feeder()
            down = Down(np.zeros(one.params.size, np.float32), {}, {})
            one.receive("model", ModelMessage(1, later, 1, down).encode())
        one.farewell()
        return feeder

    first = read(1)
    assert (first.learner.answers.samples, first.skipped.count) == (2, 3)
    assert first.source.exhausted
    path.write_text(path.read_text() + "1;2;ok\n")
    again = read(10)
    assert (again.learner.answers.samples, again.learner.position) == (1, 6)
    assert again.learner.answers.inputs.naive(np.array([1])) == 0.0
    path.write_text(path.read_text() + "1;2;hot\n")
    other = read(20, replace(LABELLED, pipeline=pipeline_for(NAMES, 2, lags=3)))
    assert (other.learner.answers.samples, other.learner.position) == (1, 7)  # other features, the same file


def test_predictions_come_out_of_a_file_with_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("heat,wind,state\n1,NA,ok\n1,2,hot\n")
    one = alone(replace(LABELLED, pipeline=pipeline_for(NAMES, 2, gaps=("wind",))))
    outlet = Outlet("test", "sensor", path=tmp_path / "told.jsonl", discovery="homeassistant")
    said = Feeder(one, Rows(path, "state", announced=lambda: one.features), outlet)()
    (line,) = (tmp_path / "told.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert (told["id"], set(told["probabilities"])) == (1, {"hot", "ok"})
    config, state, update = said
    assert config.topic == "homeassistant/sensor/ofediq_test_sensor/config"
    assert config.retain
    about = json.loads(config.payload)
    assert about["state_topic"] == state.topic == "test/p/sensor"
    assert about["availability_topic"] == "test/here/sensor"
    assert "state_class" not in about  # a text has no curve
    assert json.loads(state.payload) == told
    assert update.topic == "test/u/sensor"
    assert one.answers.samples == 1


def test_predictions_go_on_when_their_file_or_their_model_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "told"
    outlet = Outlet("test", "pi-03.shed", path=path, discovery="homeassistant")
    config, state = outlet(Prediction(float("inf"), None, (1.0, float("nan")), 3))
    assert (
        config.topic == "homeassistant/sensor/ofediq_test_pi-03__shed/config"
    )  # dots are none of its letters
    assert json.loads(config.payload)["state_class"] == "measurement"
    expected = {"prediction": None, "step": 3, "interval": [1.0, None]}
    assert json.loads(state.payload, parse_constant=pytest.fail) == expected
    path.unlink()
    path.mkdir()
    for _ in range(3):
        assert outlet(Prediction(1.5, None, None, 4))[-1].topic == "test/p/pi-03.shed"
    assert caplog.text.count("cannot write predictions") == 1
    with pytest.raises(InputError, match="`path` of predictions must be a file that can be written"):
        Outlet("test", "sensor", path=path)


def test_marks_among_live_readings_and_targets_stand_for_none() -> None:
    rng = np.random.default_rng(5)
    marked, gapped = Inputs(SPEC, labelled=False), Inputs(SPEC, labelled=False)
    for t in range(80):
        heat, wind, load = rng.normal(20, 2), rng.gamma(2), rng.normal(100, 5)
        mark = {1: -999.0, 40: -200.0, 41: -200.0, 50: 9999.0, 60: 1e9}.get(t, wind)
        rows = [
            inputs.observe(inputs.readings({"heat": heat, "wind": value}), 0.0)
            for inputs, value in ((marked, mark), (gapped, wind if mark == wind else None))
        ]
        np.testing.assert_array_equal(rows[0], rows[1])
        if t in (0, 30, 70):
            assert marked.stray(marked.label(-999.0))
        for inputs in (marked, gapped):
            assert not inputs.stray(inputs.label(load))
            inputs.learn(inputs.label(load), None)


def test_a_target_that_is_a_mark_is_refused_in_a_sentence() -> None:
    one = alone()
    one.learn({"heat": 20.0, "wind": 3.0}, 100.0)
    with pytest.raises(InputError, match=r"`y` must be a measurement, got -999, which is far from all"):
        one.learn({"heat": 21.0, "wind": 2.0}, -999)
