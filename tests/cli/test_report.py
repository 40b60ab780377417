"""`ofediq report`: one page about a run, or about a live federation."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ofediq.cli.app import app
from ofediq.errors import DataError
from ofediq.federation.network.server import STATE_FILE
from tests.federation.network import Network
from tests.federation.test_inputs import sensors, server


def test_a_run_becomes_a_page(tmp_path: Path) -> None:
    rows = [f"{hour % 7},{(hour % 24) + 0.1 * (hour % 5)}" for hour in range(400)]  # four stretches
    (tmp_path / "plant.csv").write_text("\n".join(["heat,load", *rows]))
    run = ["run", "--data", str(tmp_path / "plant.csv"), "--target", "load", "--methods", "ofediq,local"]
    done = CliRunner().invoke(app, [*run, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, ["report", str(tmp_path / "run")]).exit_code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("<polyline") == 2
    assert "OFedIQ" in page
    assert "<script" not in page
    assert [page.count(f"({word})") for word in ("best", "median", "worst")] == [
        1,
        1,
        1,
    ]  # of OFedIQ's clients
    svg = tmp_path / "skill.svg"
    assert CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--picture", str(svg)]).exit_code == 0
    assert svg.read_text().startswith("<svg ")


def test_a_federation_becomes_a_page(tmp_path: Path) -> None:
    network = Network(server(), sensors())
    network.start()
    network.run()
    assert network.saved is not None
    network.saved.write(tmp_path / STATE_FILE)
    out = tmp_path / "page.html"
    assert CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(out)]).exit_code == 0
    page = out.read_text()
    assert all(mark in page for mark in ("(best)", "(median)", "(worst)", "c0", "updates, as encoded"))


def test_another_folder_is_one_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(done.exception, DataError)
    with pytest.raises(DataError, match="must hold a run"):
        raise done.exception
