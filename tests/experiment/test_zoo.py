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
from ofediq.experiment.tuning import Effort
from ofediq.experiment.zoo_runs import every_method, zoo
from ofediq.methods.registry import entries
from ofediq.report.zoo_table import remarks
from tests.experiment.listeners import Listener

METHODS = ("fedogd", "ofedavg", "fedpoe(ofedavg)", "local")


def config(**choices: Any) -> Config:
    return Config(
        **{"dataset": "digits", "clients": 8, "steps": 40, "budget": 0.25, "methods": METHODS, **choices}
    )


def test_every_method_gets_a_row_and_what_is_done_is_kept(tmp_path: Path) -> None:
    effort = Effort((0.0001, 0.1), further=0)
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
    with pytest.raises(
        InputError, match=r"`out` must be of the same question, got budget 0\.5 where it has 0\.25"
    ):
        zoo(config(budget=0.5), ["random", "label"], tmp_path, Listener(), effort=effort)


def test_more_methods_seeds_and_step_sizes_run_only_what_is_missing(tmp_path: Path) -> None:
    zoo(config(methods=("fedogd",)), ["random"], tmp_path, Listener(), effort=Effort((0.1,)))
    (units,) = (tmp_path / "units" / "random").iterdir()
    before = json.loads(units.read_text())
    heard = Listener()
    zoo(
        config(methods=("fedogd",), seeds=2),
        ["random"],
        tmp_path,
        heard,
        effort=Effort((0.1, 0.001), further=0),
    )
    after = json.loads(units.read_text())
    assert {key: after[key] for key in before} == before
    assert [one for one in heard.heard if "FedOGD" in one] == [
        "random: FedOGD, step size 0.001 of 10",
        "random: FedOGD, seed 1 of 40",
    ]


def test_an_interruption_keeps_every_run_that_is_done(tmp_path: Path) -> None:
    stop = Listener(("random: OFedAvg, step size 0.5", 1))
    effort = Effort((0.1, 0.5), further=0)
    found = zoo(config(), ["random"], tmp_path, stop, effort=effort)
    assert found["interrupted"]
    assert list(found["parts"]["random"]["rows"]) == ["fedogd"]
    heard = Listener()
    again = zoo(config(), ["random"], tmp_path, heard, effort=effort)
    assert not again["interrupted"]
    assert list(again["parts"]["random"]["rows"]) == list(METHODS)
    assert "random: OFedAvg, step size 0.1 of 10" not in heard.heard
    assert "random: OFedAvg, step size 0.5 of 10" in heard.heard


def test_processes_leave_the_units_that_one_process_leaves(tmp_path: Path) -> None:
    effort, one = Effort((0.1,)), config(methods=("fedogd", "ofedavg"))
    here = zoo(one, ["random"], tmp_path / "here", Listener(), effort=effort)
    there = zoo(one, ["random"], tmp_path / "there", Listener(), effort=effort, jobs=2)
    assert list(there["parts"]["random"]["rows"]) == ["fedogd", "ofedavg"]
    for text, row in here["parts"]["random"]["rows"].items():
        other = there["parts"]["random"]["rows"][text]
        for name in ("value", "loss", "share", "downlink"):  # threads add up in another order
            assert row[name] == pytest.approx(other[name], rel=1e-5), (text, name)


def test_the_grid_grows_until_the_best_is_inside(tmp_path: Path) -> None:
    one = config(methods=("fedogd",))
    found = zoo(one, ["random"], tmp_path, Listener(), effort=Effort((0.001, 0.004)))
    row = found["parts"]["random"]["rows"]["fedogd"]
    tried = {float(size): loss for size, loss in row["tried"].items()}
    assert max(tried) > 0.004
    assert row["step_size"] == min(tried, key=lambda size: tried[size]) != min(tried)
    assert len(tried) <= 2 + 4
    effort = Effort((1.0, 4.0), further=2)
    assert effort.beyond({1.0: float("inf"), 4.0: float("inf")}) == 0.25  # all diverge
    assert effort.beyond({1.0: 1.0, 4.0: 2.0}) == 0.25
    assert effort.beyond({1.0: 2.0, 4.0: 1.0, 16.0: 0.5, 64.0: 0.25}) is None  # far enough
    assert effort.beyond({1.0: 1.0, 4.0: 1.0}) is None  # nothing was learnt
    assert Effort((1.0,)).beyond({1.0: 1.0}) is None


def test_real_bits_meet_the_budget(tmp_path: Path) -> None:
    one = config(clients=20, steps=120, methods=("diana", "fednova"), budget=0.05)
    found = zoo(one, ["random"], tmp_path, Listener(), effort=Effort((0.25,), prefix=0.5))
    for row in found["parts"]["random"]["rows"].values():
        assert 0.04 <= row["share"] <= 0.06, row["name"]


def test_a_method_that_cannot_says_why_and_the_others_run(tmp_path: Path) -> None:
    found = zoo(
        config(methods=("fedogd", "qsgd(levels=0)")), ["random"], tmp_path, Listener(), effort=Effort((0.1,))
    )
    rows = found["parts"]["random"]["rows"]
    assert rows["fedogd"]["value"] is not None
    assert "`levels`" in rows["qsgd(levels=0)"]["refused"]
    part = {"rows": {"fedomd": {"name": "FedOMD", "federated": True, "uplink": 0.0}, **rows}}
    assert remarks(part)[1:] == ["The budget paid for no message of FedOMD in this run."]


def test_a_wrong_question_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`partition` must be one of"):
        zoo(config(), ["nosuch"], tmp_path / "out", Listener())
    assert not (tmp_path / "out").exists()


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
