"""The examples about data, drift, methods and sweeps run, print what they say, and learn."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import ofediq

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, **sizes: Any) -> Any:
    return runpy.run_path(str(EXAMPLES / name))["main"](**sizes)


def test_own_csv(capsys: pytest.CaptureFixture[str]) -> None:
    result = run("own_csv.py", sensors=20, hours=100)
    assert result.stream.dataset.feature_names == ("temperature", "vibration", "mode=eco", "mode=full")
    assert result.accuracy[-1] > ofediq.naive_references(result.stream)["majority"][-1]
    assert "20 sensors" in capsys.readouterr().out


def test_river_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("river", reason="needs river")
    result = run("river_pipeline.py")
    assert result.accuracy[-1] > 0.8  # the larger class has 56 %
    assert result.ccr == pytest.approx(0.8, abs=0.03)
    assert capsys.readouterr().out.count("accuracy") == 2


def test_drift(capsys: pytest.CaptureFixture[str]) -> None:
    results = run("drift.py", clients=40, steps=200)
    for result in results.values():
        running = 1 - result.error / result.present
        assert running[100:105].mean() < running[90:100].mean() - 0.1  # the change hurts everyone
    recovered = 1 - results["FedOGD"].error[-20:].sum() / results["FedOGD"].present[-20:].sum()
    assert recovered > 0.8
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_own_method(capsys: pytest.CaptureFixture[str]) -> None:
    report, result = run("own_method.py", clients=20, steps=80)
    assert report.ok
    assert result.accuracy[-1] > 0.3
    assert "compress: unbiased" in capsys.readouterr().out


def test_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    table = run("sweep.py", clients=20, steps=30, budgets=(0.1,), step_sizes=(0.5, 1.0))
    assert len(table) == 3 * 1 * 2 * 2  # methods, budgets, step sizes, seeds
    assert set(table["method"]) == {"OFedAvg", "FedOMD", "OFedIQ"}
    assert len(capsys.readouterr().out.splitlines()) == 4  # the best step size for each method


def test_live_federation(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("amqtt", reason="needs the embedded broker")
    totals = run("live_federation.py", rounds=60)
    assert totals["updates"] == 3 * 60
    assert totals["samples"] == 3 * 60
    assert "180 updates" in capsys.readouterr().out


def test_every_example_is_short_and_tested() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for example in EXAMPLES.glob("*.py"):
        if example.name == "flower_app.py":
            continue  # `make flower` runs it, in an environment of its own
        lines = [line for line in example.read_text().splitlines() if line]
        assert len(lines) < 90, example.name
        assert f'"{example.name}"' in tests
