"""Written with ofediq, read with MLflow."""

from __future__ import annotations

import math
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from ofediq.tracking import Tracker, tracker
from ofediq.tracking.mlflow import Mlflow

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"
)

STEPS = 1500  # more points than go into one batch


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one run in it. Making the database takes MLflow seconds: once is enough."""
    folder = tmp_path_factory.mktemp("mlflow") / "store"
    said = list[str]()
    one: Tracker = tracker("mlflow", folder, experiment="ofediq-digits", warn=said.append)
    one.start("digits/ofediq-0", {"method": "ofediq", "seed": 3, **{f"p{i}": i for i in range(150)}})
    for step in range(STEPS):
        one.log(step, {"loss": 1 / (step + 1)})
    one.log(STEPS, {"loss": math.inf})
    one.finish({"accuracy": 0.9})
    assert said == []
    return folder


@pytest.fixture(scope="module")
def client(place: Path) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=Mlflow(place).address)


def runs(client: Any) -> list[Any]:
    experiment = client.get_experiment_by_name("ofediq-digits")
    found = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time"])
    return list(found)


def test_a_run_comes_back(client: Any) -> None:
    run = runs(client)[0]
    assert run.info.run_name == "digits/ofediq-0"
    assert run.info.status == "FINISHED"
    assert run.data.params["method"] == "ofediq"
    assert len(run.data.params) == 152
    assert run.data.metrics["final/accuracy"] == 0.9


def test_every_point_comes_back(client: Any) -> None:
    history = client.get_metric_history(runs(client)[0].info.run_id, "loss")
    found = {point.step: point.value for point in history}
    assert found.pop(STEPS) == sys.float_info.max  # a database has no infinity
    assert found == {step: 1 / (step + 1) for step in range(STEPS)}


def test_a_second_run_joins_the_same_experiment(place: Path, client: Any) -> None:
    said = list[str]()
    one = tracker("mlflow", place, experiment="ofediq-digits", warn=said.append)
    for name in ("second", "third"):
        one.start(name, {})
        one.finish({})
    assert said == []
    assert [run.info.run_name for run in runs(client)] == ["digits/ofediq-0", "second", "third"]


def test_nothing_is_written_elsewhere(place: Path) -> None:
    assert [path.name for path in place.iterdir()] == ["mlflow.db"]


def test_nobody_is_told_of_its_use() -> None:
    from mlflow.telemetry.client import get_telemetry_client

    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert get_telemetry_client() is None


def test_a_server_that_is_gone_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as unheard:  # bound, but nobody listens
        unheard.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        said = list[str]()
        one = tracker("mlflow", address, warn=said.append)
        one.start("run", {})
        one.log(1, {"loss": 1.0})
        one.finish({})
    assert len(said) == 1
    assert "Connection refused" in said[0]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = list[str]()
    one = tracker("mlflow", tmp_path / "file", warn=said.append)
    one.start("run", {})
    one.finish({})
    assert len(said) == 1
    assert "File exists" in said[0]


def test_the_address_of_a_server_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Mlflow("http://tracker.example").address == "http://tracker.example"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://other.example")
    assert _inner(tracker("mlflow")).address == "http://other.example"
    assert _inner(tracker("mlflow", "here")).address == f"sqlite:///{Path('here').absolute()}/mlflow.db"


def _inner(one: Any) -> Mlflow:
    assert isinstance(one.inner, Mlflow)
    return one.inner
