"""The zoo: same effort for all, equal bits, resumable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ofediq.cli.app import app
from ofediq.errors import InputError
from ofediq.experiment import Config
from ofediq.experiment.menagerie import Effort, every_method, zoo
from ofediq.methods.registry import entries
from tests.experiment.listeners import Listener

METHODS = ("fedogd", "ofedavg", "fedpoe(ofedavg)", "local")


def config(**choices: Any) -> Config:
    return Config(
        **{"dataset": "digits", "clients": 8, "steps": 40, "budget": 0.25, "methods": METHODS, **choices}
    )


def test_every_method_gets_a_row_and_what_is_done_is_kept(tmp_path: Path) -> None:
    effort = Effort((0.0001, 0.1))
    found = zoo(config(), ["random", "label"], tmp_path, Listener(), effort=effort)
    assert list(found["parts"]) == ["random", "label"]
    for part in found["parts"].values():
        rows = part["rows"]
        assert list(rows) == list(METHODS)
        assert rows["fedogd"]["step_size"] == 0.1  # the other learns nothing
        assert rows["fedogd"]["share"] == pytest.approx(1)
        assert rows["ofedavg"]["share"] == pytest.approx(0.25, rel=0.5)
        assert rows["fedpoe(ofedavg)"]["share"] == rows["ofedavg"]["share"]
        assert rows["local"]["share"] == 0
        assert rows["fedpoe(ofedavg)"]["memory"] == 4 * 650 + 8
    assert Path(found["figure"]).stat().st_size > 10_000
    kept = (tmp_path / "zoo.json").read_text()
    again = zoo(config(), ["random", "label"], tmp_path, Listener(), effort=effort)
    assert json.loads(kept)["parts"] == again["parts"]  # times too: nothing ran again
    with pytest.raises(InputError, match="`out` must be of the same question, got another tuning"):
        zoo(config(), ["random", "label"], tmp_path, Listener(), effort=Effort((0.1,)))


def test_all_means_all() -> None:
    assert set(every_method()) >= set(entries())


def test_the_command_prints_a_table(tmp_path: Path) -> None:
    options = "--clients 4 --steps 12 --seeds 1 --methods fedogd,pofmkl --partitions random --step-sizes 0.1"
    shown = CliRunner().invoke(app, ["zoo", *options.split(), "--out", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "POF-MKL *" in shown.output  # on random features
    assert "Tuned on the first 25 % of the first stream: step sizes 0.1, the same for all" in shown.output


@pytest.mark.parametrize("sizes", ["", "0", "-1", "much"])
def test_a_grid_that_is_none_is_refused(sizes: str, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["zoo", "--step-sizes", sizes, "--out", str(tmp_path)])
    assert isinstance(shown.exception, InputError)
    assert "`step_sizes` must be" in str(shown.exception)
