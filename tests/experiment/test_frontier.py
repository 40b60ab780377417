"""The frontier on a small scale: points, files, and nothing run twice."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ofediq.cli.app import app
from ofediq.errors import InputError
from ofediq.experiment import Config, frontier
from tests.experiment.listeners import Listener

SMALL = Config(methods=("ofediq", "ofedgrid"), clients=20, steps=15, seeds=2, regret=False)


def test_points_and_files(tmp_path: Path) -> None:
    found = frontier(SMALL, (0.2, 0.05), tmp_path, Listener())
    assert [(point["method"], point["budget"]) for point in found["points"]] == [
        ("ofediq", 0.2),
        ("ofedgrid", 0.2),
        ("ofediq", 0.05),
        ("ofedgrid", 0.05),
    ]
    for point in found["points"]:
        assert len(point["values"]) == 2
        assert point["share"] < 2 * point["budget"]
        assert point["value"] == pytest.approx(math.fsum(point["values"]) / 2)
    assert json.loads((tmp_path / "frontier.json").read_text())["points"] == found["points"]
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
    assert not found["interrupted"]


def test_what_is_done_is_not_run_again(tmp_path: Path) -> None:
    first = frontier(SMALL, (0.2,), tmp_path, Listener())
    quiet = Listener()
    again = frontier(SMALL, (0.2,), tmp_path, quiet)
    assert quiet.heard == []
    assert again["points"] == first["points"]
    frontier(SMALL, (0.2, 0.1), tmp_path, quiet)
    assert (
        sum(" of 15" in one for one in quiet.heard) == 2 * 2
    )  # two methods with two seeds at the new budget


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"`budgets` must lie in \(0, 1\], got 2.0"):
        frontier(SMALL, (2.0,), tmp_path, Listener())
    with pytest.raises(InputError, match="`methods` must name one that has a budget, got fedogd"):
        frontier(Config(methods=("fedogd",)), (0.1,), tmp_path, Listener())


def test_a_frontier_of_all_bytes_leaves_out_who_cannot_come_down(tmp_path: Path) -> None:
    config = replace(SMALL, methods=("ofedgrid", "ofedduplex"), seeds=1, budget_of="total")
    found = frontier(config, (0.6, 0.1), tmp_path, Listener())
    points = {(point["method"], point["budget"]): point for point in found["points"]}
    assert set(points) == {("ofedgrid", 0.6), ("ofedduplex", 0.6), ("ofedduplex", 0.1)}
    assert points["ofedduplex", 0.1]["share_total"] == pytest.approx(0.1, rel=0.1)
    (left,) = found["left_out"]
    assert (left["method"], left["budget"]) == ("ofedgrid", 0.1)
    assert "`budget` of all bytes must be at least 0.5" in left["why"]
    again = ("ofedgrid(spread=0)",)  # what is wrong at any budget is not left out
    with pytest.raises(InputError, match="`spread` must be"):
        frontier(replace(config, methods=again), (0.1,), tmp_path / "again", Listener())


def test_command(tmp_path: Path) -> None:
    small = [
        "--clients",
        "20",
        "--steps",
        "12",
        "--seeds",
        "1",
        "--budgets",
        "0.2",
        "--out",
        str(tmp_path / "f"),
    ]
    result = CliRunner().invoke(app, ["frontier", *small, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {point["method"] for point in found["points"]} == {"ofedavg", "fedomd", "ofediq", "ofedgrid"}
    table = CliRunner().invoke(app, ["frontier", *small])
    assert "OFedGrid" in table.stdout
    assert "frontier.png" in table.stdout
