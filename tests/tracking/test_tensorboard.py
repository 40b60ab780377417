"""Written with ofediq, read with TensorBoard."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ofediq.tracking import Tracker, tracker


def write(place: Path, name: str = "digits/ofediq-0") -> list[str]:
    said = list[str]()
    one: Tracker = tracker("tensorboard", place, warn=said.append)
    one.start(name, {"method": "ofediq", "seed": 3, "budget": 0.01, "regret": True})
    for step in (1, 5, 9):
        one.log(step, {"accuracy": step / 10, "loss": 1 / step})
    one.finish({"accuracy": 0.9})
    return said


def read(folder: Path) -> Any:
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    return accumulator.EventAccumulator(str(folder)).Reload()


def test_curves_and_figures_come_back(tmp_path: Path) -> None:
    assert write(tmp_path) == []
    events = read(tmp_path / "digits" / "ofediq-0")
    assert events.Tags()["scalars"] == ["accuracy", "loss", "final/accuracy"]
    assert [(one.step, one.value) for one in events.Scalars("loss")] == [
        (step, pytest.approx(1 / step)) for step in (1, 5, 9)
    ]
    assert [(one.step, one.value) for one in events.Scalars("final/accuracy")] == [(9, pytest.approx(0.9))]


def test_parameters_come_back(tmp_path: Path) -> None:
    metadata = importlib.import_module("tensorboard.plugins.hparams.metadata")
    write(tmp_path)
    content = read(tmp_path / "digits" / "ofediq-0").PluginTagToContent("hparams")
    parameters = metadata.parse_session_start_info_plugin_data(
        content["_hparams_/session_start_info"]
    ).hparams
    assert {name: parameters[name].WhichOneof("kind") for name in parameters} == {
        "method": "string_value",
        "seed": "number_value",
        "budget": "number_value",
        "regret": "bool_value",
    }
    assert parameters["budget"].number_value == 0.01


def test_a_second_run_of_the_same_name_gets_its_own_folder(tmp_path: Path) -> None:
    for _ in range(3):
        write(tmp_path, "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-2", "run-3"]
    assert len(read(tmp_path / "run-2").Scalars("loss")) == 3


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (said,) = write(tmp_path / "file")
    assert said.startswith("TensorBoard tracker: ")
    assert said.endswith("; the run goes on without it")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "host")
    monkeypatch.setattr("os.getpid", lambda: 1)
    monkeypatch.setattr("time.time", lambda: 2.0)
    (tmp_path / "run").mkdir()
    monkeypatch.setattr("pathlib.Path.mkdir", lambda *_, **__: None)
    (tmp_path / "run" / "events.out.tfevents.2.host.1").symlink_to("/dev/full")
    assert write(tmp_path, "run") == [
        "TensorBoard tracker: [Errno 28] No space left on device; the run goes on without it"
    ]


def test_neither_tensorflow_nor_torch_is_loaded(tmp_path: Path) -> None:
    code = f"""
import sys
from ofediq.tracking import tracker
one = tracker("tensorboard", {str(tmp_path)!r})
one.start("run", {{}})
one.finish({{}})
print(*sorted({{"tensorflow", "torch", "jax", "mlflow", "tensorboard"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["tensorboard"]
