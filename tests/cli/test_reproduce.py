from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from ofediq.cli.app import app
from ofediq.reproduction import Scale

RESULTS = {
    "preset": "authors",
    "paper_scale": False,
    "seeds": 1,
    "interrupted": False,
    "panels": {},
    "claims": [{"name": "period", "statement": "L = 1 is best.", "sentence": "Holds here.", "holds": True}],
    "table1": [],
}


def invoke(*arguments: str):  # type: ignore[no-untyped-def]  # typer exports no name for its result
    return CliRunner().invoke(app, ["reproduce", *arguments])


def test_table_1_has_the_constants_of_the_paper(tmp_path: Path) -> None:
    done = invoke("table1", "--json", "--out", str(tmp_path))
    assert done.exit_code == 0
    rows = {row["method"]: row for row in json.loads(done.stdout)["table1"]}
    assert rows["OFedAvg(0.01)"]["alpha"] == pytest.approx(200)  # 2 / p
    optimised = rows["OFedIQ(1, 0.08616, 3, 777)"]
    assert optimised["alpha_factor2"] == pytest.approx(27.73, abs=0.005)
    assert optimised["ccr"] == pytest.approx(0.99, abs=1e-4)


def test_table_1_on_a_terminal(tmp_path: Path) -> None:
    done = invoke("table1", "--out", str(tmp_path))
    assert "4.536" in done.stdout
    assert "report.html" in done.stdout


@pytest.mark.parametrize(("quick", "seeds"), [((), 3), (("--quick",), 1), (("--quick", "--seeds", "2"), 2)])
def test_claims_as_json(tmp_path: Path, quick: tuple[str, ...], seeds: int) -> None:
    outcome = {**RESULTS, "folder": str(tmp_path)}
    with mock.patch("ofediq.reproduction.reproduce", return_value=outcome) as run:
        done = invoke("claims", "--json", "--out", str(tmp_path), *quick)
    assert json.loads(done.stdout)["claims"][0]["holds"] is True
    assert run.call_args.kwargs["seeds"] == seeds
    assert run.call_args.kwargs["scale"] == (Scale.quick() if quick else Scale())


def test_an_interruption_says_how_to_continue(tmp_path: Path) -> None:
    outcome = {**RESULTS, "folder": str(tmp_path), "interrupted": True}
    with mock.patch("ofediq.reproduction.reproduce", return_value=outcome):
        done = invoke("claims", "--out", str(tmp_path))
    assert done.exit_code == 130
    assert "the same command continues" in done.output


def test_an_unknown_figure_is_an_error(tmp_path: Path) -> None:
    done = invoke("fig9", "--out", str(tmp_path))
    assert "`target` must be one of table1" in str(done.exception)
