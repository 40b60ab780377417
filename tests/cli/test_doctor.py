"""`ofediq doctor` tells what is here, and what is missing, without falling over it."""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ofediq
from ofediq.cli import doctor
from ofediq.cli.app import app

RUNNER = CliRunner()


def test_json() -> None:
    found = json.loads(RUNNER.invoke(app, ["doctor", "--json"]).stdout)
    assert found["version"] == ofediq.__version__
    assert found["python"] == platform.python_version()
    assert found["packages"]["numpy"] == version("numpy")
    assert found["extras"]["sim"] == []
    assert found["kernels"].startswith(("compiled kernels: ", "no compiled kernels: "))
    assert "dev" not in found["extras"]


def test_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OFEDIQ_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("OFEDIQ_CACHE", str(tmp_path))
    monkeypatch.setenv("OFEDIQ_NATIVE", "0")
    shown = " ".join(RUNNER.invoke(app, ["doctor"], env={"COLUMNS": "300"}).stdout.split())
    assert f"$OFEDIQ_DATA is {tmp_path / 'nowhere'}, which is not a folder" in shown
    assert f"cache {tmp_path}" in shown
    assert "no compiled kernels: OFEDIQ_NATIVE is 0" in shown
    assert "sim complete" in shown


def test_what_an_extra_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "numpy>=2.0",
        'no-such-thing>=1; extra == "one"',
        'ofediq[one, three]; extra == "two"',
        'numpy>=2; extra == "three"',
    ]
    monkeypatch.setattr(doctor, "requires", lambda _: lines)
    assert doctor.extras() == {
        "one": ["no-such-thing"],
        "two": ["ofediq[one]", "ofediq[three]"],
        "three": ["numpy"],
    }
    assert doctor.missing("two") == ["no-such-thing"]
    assert doctor.missing("three") == []


def test_without_the_simulator_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    found = doctor.examine()
    assert (
        found["kernels"]
        == found["devices"]
        == "jax is not installed: it comes with `pip install 'ofediq[sim]'`"
    )
