"""A contract of bytes, planned on the user's own data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ofediq import methods
from ofediq.cli.app import app
from ofediq.errors import InputError
from ofediq.experiment import pilot as pilots
from ofediq.experiment.config import Config
from ofediq.experiment.pilot import CANDIDATES, fitting
from ofediq.methods.budgets.allowance import expected_bytes
from ofediq.methods.budgets.connection import fedogd_bytes


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six sensors, a hundred steps, a linear target."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((600, 3))
    target = rows @ [2.0, -1.0, 0.0] + 0.1 * rng.standard_normal(600)
    lines = [
        f"{n % 6},{n // 6},{a:.4f},{b:.4f},{c:.4f},{y:.4f}"
        for n, ((a, b, c), y) in enumerate(zip(rows, target, strict=True))
    ]
    path = tmp_path_factory.mktemp("sample") / "plant.csv"
    path.write_text("\n".join(["sensor,time,a,b,c,load", *lines]), encoding="utf-8")
    return path


def plan(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_the_best_that_keeps_the_contract_is_chosen(sample: Path) -> None:
    where = (
        "--sample",
        str(sample),
        "--target",
        "load",
        "--client-column",
        "sensor",
        "--time-column",
        "time",
    )
    found: dict[str, Any] = json.loads(plan("--bytes-per-hour", "5400", *where, "--json"))  # 90 per step
    rows = {row["method"]: row for row in found["pilot"]["rows"]}
    assert len(rows) > 2
    kept = {name: row for name, row in rows.items() if row["bytes_per_step"] <= 1.1 * 90}
    assert found["method"] == min(kept, key=lambda name: kept[name]["value"])
    assert found["expected"]["value"] == rows[found["method"]]["value"]
    assert found["expected"]["fedogd"] == rows["fedogd"]["value"]
    assert found["bytes_up"] + found["bytes_down"] <= 1.1 * 90
    assert (found["clients"], found["dim"]) == (6, found["pilot"]["dim"])
    larger: dict[str, Any] = json.loads(
        plan("--bytes-per-hour", "54000", "--dim", "5000", "--clients", "900", *where, "--json")
    )
    assert (larger["dim"], larger["clients"]) == (5000, 900)
    assert larger["budget"] == pytest.approx(900 / fedogd_bytes(5000))


@pytest.mark.parametrize(("preset", "tried"), [("authors", True), ("paper", False)])
def test_with_adam_plain_steps_are_tried_beside_averaged_ones(
    sample: Path, preset: Any, tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = {"metric": "mse", "value": 1.0, "bytes_per_step": 1.0, "diverged": False}
    monkeypatch.setattr(pilots, "_row", lambda text, *_: {"method": text, **rest})
    config = Config(data=str(sample), target="load", preset=preset, clients=200, regret=False)
    found = pilots.pilot(config, 40.0, texts=("ofedduplex",))
    names = [row["method"] for row in found["pilot"]["rows"]]
    assert names == ["fedogd", "ofedduplex", *(["ofedduplex(averages=False)"] if tried else [])]


@pytest.mark.parametrize("share", [0.5, 0.02, 0.002])
@pytest.mark.parametrize("dim", [20, 650, 34826])
def test_what_fits_keeps_to_its_share(dim: int, share: float) -> None:
    found = fitting(CANDIDATES, share, dim, 100, 300)
    for made in found.values():
        assert 0 < expected_bytes(made, "total", dim, 100) <= 1.1 * share * fedogd_bytes(dim)
    duplex = methods.at_budget("ofedduplex", share, dim, 100, steps=300, budget_of="total")
    assert ("ofedduplex" in found) == (duplex.period <= 300)  # else nobody would send in a pilot


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bytes-per-hour", "600"), "`dim` must be given, or `sample`"),
        (("--bytes-per-hour", "600", "--dim", "0"), "`dim` must be an integer >= 1, got 0"),
        (("--bytes-per-hour", "6", "--sample", "{sample}", "--target", "load"), "nothing fits"),
        (("--bytes-per-hour", "600", "--dim", "9", "--target", "x"), "`target` needs `sample`"),
        (("--budget", "0.1", "--sample", "{sample}", "--target", "load"), "`sample` needs `bytes_per_hour`"),
        (("--bytes-per-hour", "1e9", "--sample", "{sample}", "--target", "load"), "FedOGD needs .*: use it"),
        (("--bytes-per-hour", "600", "--sample", "{sample}"), "`target` must name the column"),
        (("--bytes-per-hour", "600", "--dim", "9", "--budget-of", "total"), "`budget_of` needs `budget`"),
        (("--budget", "1", "--budget-of", "total", "--dim", "9"), "`budget` allows .* FedOGD needs"),
    ],
)
def test_what_is_missing_is_one_sentence(sample: Path, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(*(one.format(sample=sample) for one in arguments))
