"""Models leave and come back: safetensors with a card, ONNX, npz, and a start from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

import ofediq
from ofediq.cli.app import app
from ofediq.errors import DataError, InputError
from ofediq.experiment import Config, Experiment
from ofediq.federation import FederationConfig, ModelSpec, assemble, save_model
from ofediq.federation.model_file import start_from
from ofediq.models.onnx_graph import to_onnx
from ofediq.streams.features import pipeline_for

SPECS = {
    "linear": ModelSpec("linear", (5,), "regression"),
    "softmax": ModelSpec("softmax", (4,), "classification", labels=("hot", "mild", "ok")),
    "mlp": ModelSpec("mlp", (5,), "regression", hidden=(7, 3)),
    "cnn": ModelSpec("conv 3, pool, conv 4 same, tanh, pool, dense", (12, 12), "classification", classes=3),
    "pool first": ModelSpec("pool, conv 2 5x5, dense 6, dense", (14, 13), "classification", classes=2),
    "anchored": ModelSpec("auto", (2,), "regression", pipeline=pipeline_for(("a", "b"), baseline="last")),
    "anchored labels": ModelSpec("mlp", (2,), "classification", 3, pipeline=pipeline_for(("a", "b"), 3)),
}


def params_of(spec: ModelSpec) -> Any:
    return np.random.default_rng(1).normal(0, 0.5, spec.build().dim).astype(np.float32)


@pytest.mark.parametrize("name", SPECS)
def test_a_model_comes_back_as_it_left(name: str, tmp_path: Path) -> None:
    spec, params = SPECS[name], params_of(SPECS[name])
    save_model(tmp_path / "m.safetensors", params, spec, {"method": "OFedIQ"})
    found = ofediq.load_model(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(found.params, params)
    assert found.spec == spec
    assert found.card == {"method": "OFedIQ"}
    safetensors = pytest.importorskip("safetensors.numpy")
    np.testing.assert_array_equal(safetensors.load_file(tmp_path / "m.safetensors")["params"], params)


@pytest.mark.parametrize("name", SPECS)
def test_onnx_computes_the_same(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    spec, params = SPECS[name], params_of(SPECS[name])
    model, rng = spec.build(), np.random.default_rng(2)
    shape: tuple[int, ...] = spec.shape
    if spec.pipeline is not None:
        shape = (len(spec.pipeline.columns) + len(spec.pipeline.anchors),)
    x = rng.normal(0, 1, (6, *shape)).astype(np.float32)
    written = to_onnx(model, params)
    graph = pytest.importorskip("onnx").load_from_string(written).graph
    assert {one.name for one in graph.initializer} <= {name for node in graph.node for name in node.input}
    session = runtime.InferenceSession(written, providers=["CPUExecutionProvider"])
    wanted = np.asarray(model.predict(params, x))
    if model.task == "regression":
        (value,) = session.run(["value"], {"x": x})
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)
    else:
        scores, label = session.run(["scores", "label"], {"x": x})
        np.testing.assert_array_equal(label, wanted)
        np.testing.assert_allclose(scores, model.forward(params, x)[0], rtol=1e-4, atol=1e-5)  # type: ignore[attr-defined]  # layered


def test_predictions_are_named_and_features_are_made(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_model(path, params_of(SPECS["softmax"]), SPECS["softmax"], {})
    assert set(ofediq.load_model(path).predict(np.eye(4)).tolist()) <= {"hot", "mild", "ok"}
    save_model(path, 0 * params_of(SPECS["anchored"]), SPECS["anchored"], {})
    client = ofediq.load_model(path).online()
    for target in (3.0, 4.0):
        client.predict_one([1.0, 2.0])
        client.learn_one(target)
    assert client.predict_one([1.0, 2.0]) == 4.0  # nothing learnt: the last value
    learnt = ofediq.load_model(path)
    assert learnt.predict([[1.0, 2.0]] * 4, [3.0, 4.0, np.nan, 5.0]).tolist() == [0.0, 3.0, 4.0, 4.0]
    with pytest.raises(InputError, match="`y` must be the targets of earlier rows"):
        learnt.predict([[1.0, 2.0]])
    with pytest.raises(InputError, match=r"`time` must have one entry per row of x \(2\), got 1"):
        learnt.predict([[1.0, 2.0]] * 2, [1.0, 2.0], time=[0.0])


def test_a_folder_stands_for_its_model_and_dicts_go_by_name(tmp_path: Path) -> None:
    spec = ModelSpec("linear", (2,), "regression", features=("heat", "wind"))
    save_model(tmp_path / "model.safetensors", np.array([1, 10, 100], np.float32), spec, {})
    learnt = ofediq.load_model(tmp_path)
    assert learnt.predict([{"wind": 2.0, "heat": 1.0}]).tolist() == learnt.predict([[1.0, 2.0]]).tolist()


def sum_of_three(tmp_path: Path) -> ofediq.federation.LearntModel:
    spec = ModelSpec("linear", (3,), "regression", features=("a", "b", "c"))
    save_model(tmp_path, np.array([1, 10, 100, 0], np.float32), spec, {})
    return ofediq.load_model(tmp_path)


def test_samples_are_read_by_name_or_shape(tmp_path: Path) -> None:
    model = sum_of_three(tmp_path / "model.safetensors")
    table = pandas.DataFrame({"c": [3.0, 0.0], "a": [1.0, 4.0], "b": [2.0, 0.0]})
    mixed = [[1, 2, 3], {"c": 0, "b": 0, "a": 4}]
    for x in (table, mixed, table.to_dict("records"), table[["a", "b", "c"]].to_numpy()):
        assert model.predict(x).tolist() == [321.0, 4.0]
    assert model.predict([1, 2, 3]).tolist() == [321.0]
    assert model.predict([]).shape == model.predict(np.zeros((0, 3))).shape == (0,)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            [[1, 2], [3, 4], [5, 6]],
            r"samples of shape \[3\], got \[3, 2\]",
        ),  # six numbers are not two samples
        ([[1, 2]], r"samples of shape \[3\], got \[1, 2\]"),
        ([[1, 2, 3], [1, 2]], r"samples of \[3\] numbers"),
        ([[1, 2, "x"]], r"samples of \[3\] numbers"),
        ([[1, 2, float("nan")]], "must be finite"),
        ([[1e39, 2, 3]], "must be finite"),
        ({"a": 1, "b": 2, "c": 3}, "several samples"),
        ([{"a": 1, "b": 2}], "has no 'c'"),
        ("abc", "several samples"),
        (None, "several samples"),
    ],
)
def test_samples_that_do_not_fit_are_one_sentence(x: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        sum_of_three(tmp_path / "model.safetensors").predict(x)


@pytest.mark.parametrize("damage", [b"", b"short", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}"])
def test_what_is_no_model_is_one_sentence(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(damage)
    with pytest.raises(DataError, match=r"`model` must be a model\.safetensors of ofediq"):
        ofediq.load_model(tmp_path / "m.safetensors")
    with pytest.raises(DataError, match="must be a file that can be read"):
        ofediq.load_model(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"`start_from` must be a model\.safetensors"):
        start_from(tmp_path / "m.safetensors", ofediq.models.linear(features=2))


def test_a_parameter_that_changed_on_the_disk_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_model(path, params_of(SPECS["softmax"]), SPECS["softmax"], {})
    whole = path.read_bytes()
    path.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    with pytest.raises(DataError, match="its parameters are damaged"):
        ofediq.load_model(path)


def test_export_writes_onnx_and_npz(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    save_model(tmp_path / "model.safetensors", params_of(SPECS["mlp"]), SPECS["mlp"], {"method": "OFedIQ"})
    for name in ("a.onnx", "a.npz"):
        done = CliRunner().invoke(app, ["export", str(tmp_path), "--out", str(tmp_path / name), "--json"])
        assert json.loads(done.stdout) == {"file": str(tmp_path / name), "method": "OFedIQ", "dim": 70}
    with np.load(tmp_path / "a.npz") as file:
        np.testing.assert_array_equal(file["params"], params_of(SPECS["mlp"]))
    wrong = CliRunner().invoke(app, ["export", str(tmp_path), "--out", "a.txt"])
    assert isinstance(wrong.exception, InputError)


TOML = """
name = "test"
start_from = "model.safetensors"
[model]
features = 5
name = "mlp"
hidden = [7, 3]
[method]
step_size = 0.1
"""


def test_a_federation_starts_from_a_model(tmp_path: Path) -> None:
    params = params_of(SPECS["mlp"])
    save_model(tmp_path / "model.safetensors", params, SPECS["mlp"], {})
    (tmp_path / "federation.toml").write_text(TOML)
    one = assemble(FederationConfig.read(tmp_path / "federation.toml"))
    np.testing.assert_array_equal(one.params, params)
    save_model(tmp_path / "model.safetensors", params[:-1], None, {})
    with pytest.raises(DataError, match="`start_from` must have 70 parameters like this model, got 69"):
        assemble(FederationConfig.read(tmp_path / "federation.toml"))


def test_a_run_writes_its_model_and_starts_from_one(tmp_path: Path) -> None:
    common = [
        "--clients",
        "20",
        "--steps",
        "10",
        "--methods",
        "fedogd,ofediq",
        "--step-size",
        "0.1",
        "--budget",
        "0.1",
    ]
    done = CliRunner().invoke(app, ["run", *common, "--out", str(tmp_path / "a"), "--json"])
    assert done.exit_code == 0, done.stderr
    learnt = ofediq.load_model(tmp_path / "a" / "model.safetensors")
    assert learnt.card["method"] in ("FedOGD", "OFedIQ")
    assert learnt.card["results"]["accuracy"] == max(
        one["accuracy"] for one in json.loads(done.stdout)["methods"].values()
    )
    data = ofediq.load("digits")
    assert np.mean(learnt.predict(data.x).astype(int) == data.y) > 0.3
    more = ["--start-from", str(tmp_path / "a" / "model.safetensors"), "--out", str(tmp_path / "b"), "--json"]
    again = CliRunner().invoke(app, ["run", *common, *more])
    assert again.exit_code == 0, again.stderr
    first, second = (json.loads(one.stdout)["methods"]["fedogd"]["accuracy"] for one in (done, again))
    assert second > first


@pytest.mark.parametrize("choice", [{}, {"baseline": "none"}, {"horizon": 3}])
def test_a_loaded_model_predicts_as_in_its_run(choice: dict[str, Any], tmp_path: Path) -> None:
    """From raw rows, by name, in the target's own unit: gaps, a category, dates, two clients."""
    path, rng = tmp_path / "plant.csv", np.random.default_rng(0)
    heat, mode = rng.normal(size=(80, 2)).cumsum(axis=0), rng.choice(["eco", "full"], (80, 2))
    load = 5000 + 100 * heat + 50 * (mode == "full") + rng.normal(size=(80, 2))
    lines = [
        f"2024-01-{1 + row // 24:02} {row % 24:02}:00,{who},{heat[row, who] if row % 7 else ''},"
        f"{mode[row, who]},{load[row, who]}"
        for row in range(80)
        for who in range(2)
    ]
    path.write_text("when,who,heat,mode,load\n" + "\n".join(lines))
    config = Config(data=str(path), target="load", client_column="who", methods=("ofediq",), **choice)
    said = ["--data", str(path), "--target", "load", "--client-column", "who", "--methods", "ofediq"]
    said += [part for name, value in choice.items() for part in (f"--{name}", str(value))]
    done = CliRunner().invoke(app, ["run", *said, "--out", str(tmp_path / "run"), "--json"])
    assert done.exit_code == 0, done.stderr
    learnt = ofediq.load_model(tmp_path / "run")
    experiment = Experiment.set_up(config)
    stream = experiment.deal(0)
    own = stream.order[stream.present[:, 1], 1]
    low, high = stream.dataset.target_range
    wanted = low + (high - low) * np.asarray(experiment.model.predict(learnt.params, stream.x[own]))
    rows = [{"heat": heat[row, 1] if row % 7 else None, "mode": mode[row, 1]} for row in range(80)]
    found = learnt.predict(rows, load[:, 1], 1_704_067_200 + 3600 * np.arange(80))
    later = choice.get("horizon", 1) - 1
    np.testing.assert_allclose(found[80 - later - len(wanted) : 80 - later], wanted, rtol=1e-5)
