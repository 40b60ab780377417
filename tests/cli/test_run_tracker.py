from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_run import SMALL, ofediq

ARGUMENTS = (
    *SMALL,
    "--steps",
    "5",
    "--model",
    "linear",
    "--methods",
    "ofediq,local",
    "--seeds",
    "2",
    "--no-regret",
    "--json",
)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_tracker_gets_a_run_per_method_and_seed() -> None:
    done = ofediq(*ARGUMENTS, "--out", "mine", "--tracker", "tensorboard", "--tracker-folder", "board")
    assert done.code == 0
    assert {str(path.parent) for path in Path("board").rglob("*tfevents*")} == {
        f"board/mine/{key}-{seed}" for key in ("ofediq", "local") for seed in (0, 1)
    }


def test_a_tracker_that_fails_does_not_stop_the_run() -> None:
    Path("board").touch()
    done = ofediq(*ARGUMENTS, "--out", "mine", "--tracker", "tensorboard", "--tracker-folder", "board")
    assert done.code == 0
    assert done.json == json.loads(Path("mine/summary.json").read_text(encoding="utf-8"))
    notes = [line for line in done.err.splitlines() if line.startswith("Note: TensorBoard tracker: ")]
    assert len(notes) == 1


def test_an_unknown_tracker_is_noticed_before_the_work() -> None:
    done = ofediq(*ARGUMENTS, "--out", "mine", "--tracker", "diary")
    assert (done.code, done.out) == (2, "")
    assert done.err == "ofediq: error: `tracker` must be one of none, tensorboard, mlflow, got 'diary'\n"
    assert not Path("mine").exists()
