"""`ofediq run` over several processes: the results of one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ofediq.cli.app import app
from ofediq.errors import InputError
from ofediq.simulation.native import native_status

COMMAND = ("--dataset", "digits", "--model", "mlp", "--hidden", "20", "--clients", "31", "--steps", "12")


def run(path: Path, *more: str) -> dict[str, Any]:
    methods = ("--methods", "ofediq(levels=3,blocks=9,rate=.5),scaffold(period=3,rate=.6),local")
    command = [sys.executable, "-m", "ofediq", "run", *COMMAND, *methods, "--out", str(path), "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines(keepends=True) if not line.startswith("[Gloo]")]
    summary: dict[str, Any] = json.loads("".join(lines))
    return summary


def test_two_processes_find_what_one_does(tmp_path: Path) -> None:
    one, two = run(tmp_path / "one"), run(tmp_path / "two", "--processes", "2")
    for key, method in one["methods"].items():
        other = two["methods"][key]
        assert other["bits_wire"] == method["bits_wire"]
        assert other["accuracy"] == pytest.approx(method["accuracy"], abs=1e-3)
        if native_status().startswith("compiled kernels") and key != "local":
            assert other["engine"].startswith("compiled kernels")
    again = run(
        tmp_path / "two", "--processes", "2", "--resume"
    )  # nothing to do, and nobody waits for others
    assert again == two


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--process", "1"), "`coordinator`, `process` and `of` belong together"),
        (("--coordinator", "h:1", "--process", "2", "--of", "2"), "`process` must be an integer from 0 to 1"),
        (("--processes", "2", "--coordinator", "h:1", "--process", "0", "--of", "2"), "exclude each other"),
    ],
)
def test_wrong_places(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", *COMMAND, "--out", str(tmp_path / "x"), *options])
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
