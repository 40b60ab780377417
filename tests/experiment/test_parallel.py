"""Runs in other processes: the same results, interruptions that lose nothing, sweeps, and a Dask cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ofediq.errors import CheckpointError, InputError
from ofediq.experiment import Experiment, Folder, RunOutcome, sweep
from ofediq.experiment.parallel import processes_for
from ofediq.federation.model_file import save_model
from tests.experiment.listeners import Listener
from tests.experiment.test_runner import CONFIG, EXPERIMENT, assert_same, changed, in_folder, results

TWO = changed(seeds=2)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    return in_folder(tmp_path_factory.mktemp("alone"), config=TWO)


def test_processes_change_nothing_and_an_interruption_is_continued(alone: RunOutcome, tmp_path: Path) -> None:
    listener = Listener(interrupt=("4 runs in 2 processes", 1))
    first = in_folder(tmp_path, listener, TWO, jobs=2)
    assert first.interrupted
    assert "stopping" in listener.heard
    second = Listener()
    assert_same(in_folder(tmp_path, second, TWO, jobs=2, resume=True), alone)
    assert any(line.endswith(" s") for line in second.heard)  # each run with its outcome
    assert not list((tmp_path / "state").glob("*[0-9].npz"))  # no state is left, only finished results


def test_a_run_starts_from_a_model_wherever_it_is_computed_and_read(tmp_path: Path) -> None:
    """Also its regret is that of this start, when it is read again."""
    assert EXPERIMENT.spec is not None
    save_model(tmp_path / "model.safetensors", np.full(5, 30.0, np.float32), EXPERIMENT.spec, {})
    config = changed(
        start_from=str(tmp_path / "model.safetensors"), regret=True, methods=("fedogd", "ofedavg")
    )
    alone = in_folder(tmp_path / "alone", config=config)
    assert results(alone)["fedogd", 0].loss[0] > 1000  # it started far away
    assert_same(in_folder(tmp_path / "apart", config=config, jobs=2), alone)
    again = in_folder(tmp_path / "alone", config=config, resume=True)
    assert alone.comparison is not None
    assert again.comparison is not None
    for key, found in alone.comparison.regrets.items():
        np.testing.assert_array_equal(again.comparison.regrets[key][0].bound, found[0].bound)
    other = Experiment.set_up(changed(methods=config.methods))
    with pytest.raises(CheckpointError, match="initial"):
        other.load(Folder(tmp_path / "alone").archive("fedogd", 0), "fedogd", other.deal(0), 0)


def test_how_many_processes() -> None:
    assert processes_for(1e15, 1) == 1
    assert processes_for(1e15, 10**6) >= 1
    with pytest.raises(InputError, match="`jobs` must be an integer from 1 to 1024, got 0"):
        processes_for(1.0, 3, jobs=0)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """A real scheduler and two workers on loopback."""
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    commands = [
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"],
        *[[sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--host", "127.0.0.1"]]
        * 2,
    ]
    started = [
        subprocess.Popen([*command, "--scheduler-file", str(file), "--no-dashboard"], **quiet)  # type: ignore[call-overload]  # a mix of types
        for command in commands
    ]
    try:
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=20)


def test_a_sweep_here_and_on_a_cluster(scheduler: str, tmp_path: Path) -> None:
    over = {"budget": [0.5, 0.2], "step_size": [0.1]}
    here = sweep(CONFIG, over, tmp_path / "here", Listener(), jobs=2)
    there = sweep(CONFIG, over, tmp_path / "there", Listener(), dask=scheduler)
    assert [point["choices"] for point in here["points"][::2]] == [
        {"budget": 0.5, "step_size": 0.1},
        {"budget": 0.2, "step_size": 0.1},
    ]
    for one, other in zip(here["points"], there["points"], strict=True):
        assert {**one, "folder": "", "seconds": 0} == {**other, "folder": "", "seconds": 0}
    assert Path(here["figure"]).exists()
    again = Listener()
    assert sweep(CONFIG, over, tmp_path / "here", again)["points"] == here["points"]
    assert again.heard == []  # nothing is run twice
    longer = sweep(CONFIG, {**over, "budget": [0.2, 1.0]}, tmp_path / "here", Listener())
    assert [point["choices"]["budget"] for point in longer["points"]] == [0.2, 0.2, 1.0, 1.0]
    single = Folder(tmp_path / "here" / "budget=0.2,step_size=0.1").read_summary()["methods"]["ofediq"]
    alone = results(in_folder(tmp_path / "run", config=changed(budget=0.2, step_size=0.1)))["ofediq", 0]
    assert single["bits_wire"] == float(alone.bits_wire.sum())


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({}, "`over` must name at least one choice"),
        ({"colour": [1]}, "`over` must name a choice such as budget or step_size, got 'colour'"),
        ({"budget": []}, "`over` must give budget at least one value"),
        ({"budget": [2.0]}, "`budget` must"),
    ],
)
def test_wrong_sweeps(over: dict[str, list[float]], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        sweep(CONFIG, over, tmp_path, Listener())
    assert not list(tmp_path.iterdir())
