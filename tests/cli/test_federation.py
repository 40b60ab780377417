"""`ofediq up`, `serve` and `client` as a user types them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ofediq.cli.app import app


def ofediq(*arguments: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ofediq", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def test_up_runs_a_whole_federation(tmp_path: Path) -> None:
    arguments = ["--clients", "4", "--rounds", "12", "--method", "fedogd", "--port", "0"]
    done = ofediq("up", *arguments, "--out", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["state"] == "finished"
    assert record["totals"]["updates"] == 4 * 12
    assert record["totals"]["samples"] == 4 * 12
    assert record["totals"]["ccr"] == 0.0
    assert record["bytes_sent"] > record["totals"]["bits_wire"] / 8 or not sys.platform.startswith("linux")
    assert "Page: http://127.0.0.1:" in done.stderr
    assert (tmp_path / "state.npz").exists()


def test_up_with_an_own_file_names_clients_and_labels_after_it(tmp_path: Path) -> None:
    file = tmp_path / "plant.csv"
    rows = [
        f"2024-01-01T{hour:02}:00,{sensor},{hour % 5},{'hot' if hour % 5 > 2 else 'ok'}"
        for hour in range(20)
        for sensor in ("boiler", "shed")
    ]
    file.write_text("\n".join(["time,sensor,reading,state", *rows]))
    chosen = ["--data", str(file), "--target", "state", "--client-column", "sensor"]
    done = ofediq("up", *chosen, "--no-page", "--out", str(tmp_path / "up"), "--json")
    assert done.returncode == 0, done.stderr
    assert "Assumed: the order in time is time" in done.stderr
    record = json.loads(done.stdout)
    assert (record["federation"], record["task"], record["totals"]["rounds"]) == (
        "plant",
        "classification",
        20,
    )
    assert record["totals"]["samples"] == len(rows)  # no label was refused
    assert {one.name for one in (tmp_path / "up" / "clients").glob("*.toml")} == {"boiler.toml", "shed.toml"}


def test_up_reports_errors_in_the_targets_own_unit(tmp_path: Path) -> None:
    file = tmp_path / "plant.csv"
    targets = [30_000 + 100 * (-1) ** row for row in range(24)]  # the last value is always wrong by 200
    file.write_text("\n".join(["heat,load", *(f"{row % 7},{y}.5" for row, y in enumerate(targets))]))
    done = ofediq("up", "--data", str(file), "--target", "load", "--clients", "2", "--no-page", "--json")
    assert done.returncode == 0, done.stderr
    totals = json.loads(done.stdout)["totals"]
    assert (totals["samples"], totals["naive"]) == (22, pytest.approx(200.0**2, rel=0.03))


def test_up_that_is_stopped_says_so_and_continues(tmp_path: Path) -> None:
    arguments = ["up", "--clients", "2", "--rounds", "200", "--no-page", "--out", str(tmp_path), "--json"]
    slow = [sys.executable, "-m", "ofediq", *arguments, "--interval", "0.5"]
    with subprocess.Popen(slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 60
        while not (tmp_path / "state.npz").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        second = ofediq(*arguments)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (second.returncode, second.stdout) == (2, "")
    assert f"`out` must be free, got {str(tmp_path)!r}, in which another process is at work" in second.stderr
    assert running.returncode == 130
    assert f"the same command with --out {tmp_path} continues" in err
    before = json.loads(out)["totals"]["rounds"]
    assert 0 < before < 200
    done = ofediq(*arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["totals"]["rounds"] == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--clients", "0"], "`clients` must be an integer from 1 to 500"),
        (["up", "--clients", "3", "--budget", "2"], "`budget` must lie in (0, 1]"),
        (["up", "--data", "plant.csv"], "`target` must name the column"),
        (["up", "--dataset", "cats"], "`dataset` must be one of"),
        (
            ["up", "--method", "ogd", "--clients", "2", "--rounds", "2"],
            "`method` must be federated to run live",
        ),
        (["up", "--out", __file__], "`out` must be a folder, not a file or below one"),
        (["up", "--interval", "-1"], "`interval` must be a number from 0 to 10000000"),
        (["up", "--broker", "mqtt://192.168.0.1"], "`address` must be mqtts:// (TLS)"),
        (["serve", "--config", "missing.toml"], "`config` must be a file that can be read"),
        (["client", "--config", "missing.toml"], "`config` must be a file that can be read"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(arguments: list[str], message: str) -> None:
    done = ofediq(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_admit_leaves_the_name_for_the_server(tmp_path: Path) -> None:
    config = tmp_path / "federation.toml"
    config.write_text('name = "test"\n[model]\nfeatures = 2\nclasses = 2\n')
    for name in ("c0", "c1"):
        assert CliRunner().invoke(app, ["admit", name, "--config", str(config)]).exit_code == 0
    assert (tmp_path / "state" / "admit").read_text().split() == ["c0", "c1"]
    assert CliRunner().invoke(app, ["admit", "../x", "--config", str(config)]).exit_code != 0
