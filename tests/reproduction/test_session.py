"""Runs, caching and output, at a tiny scale on embedded data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.experiment import Experiment, Folder
from ofediq.reproduction import Panel, Problem, Recipe, Scale, reproduce
from ofediq.reproduction import panels as panel_module
from ofediq.reproduction.page import render_page
from ofediq.reproduction.panels import all_series, experiment_of
from ofediq.reproduction.session import estimate_seconds, load_all, run_missing
from ofediq.streams import load

DIGITS = Problem("digits", "digits", "softmax", 650, 650, "accuracy")
RECIPES = (Recipe("FedOGD", "fedogd"), Recipe("OFedAvg", "ofedavg", rate=0.5))
TINY = Scale(clients=8, steps=6)


class Silent:
    """A listener that remembers what was started and can ask for an interruption."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.tasks: list[str] = []
        self.notes: list[str] = []
        self._stop_at = stop_at

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def started(self, task: str, total: int) -> None:
        if len(self.tasks) == self._stop_at:
            raise KeyboardInterrupt
        self.tasks.append(task)

    def advanced(self, done: int) -> None: ...

    def finished(self, outcome: str) -> None: ...

    def stopping(self) -> None: ...


@pytest.fixture(autouse=True)
def embedded() -> Iterator[None]:
    """Panels on the embedded digits; they have no scaling of the authors, so the usual one stands in."""
    panel = Panel("fig3", "tiny", DIGITS, 50, 6, RECIPES, {"FedOGD": 0.5, "OFedAvg": 0.4}, clients=8)
    tiny = mock.patch.dict(panel_module.PANELS, {"fig3": panel})
    usual = mock.patch("ofediq.experiment.setup.load", lambda name, scaling, **options: load(name, **options))
    with tiny, usual:
        yield


def tiny_series(seeds: int = 1) -> dict[str, Experiment]:
    wanted = all_series(("fig3",), "authors", seeds, TINY)
    return {name: experiment_of(config) for name, config in wanted.items()}


def run_tiny(out: Path) -> tuple[dict[str, Any], Silent]:
    listener = Silent()
    return reproduce("fig3", seeds=2, scale=TINY, out=out, listener=listener), listener


def test_a_finished_run_is_not_run_again_unless_forced(tmp_path: Path) -> None:
    first, again, forced = Silent(), Silent(), Silent()
    assert run_missing(tiny_series(), tmp_path, first)
    assert run_missing(tiny_series(), tmp_path, again)
    assert run_missing(tiny_series(), tmp_path, forced, force=True)
    assert [len(listener.tasks) for listener in (first, again, forced)] == [2, 0, 2]


def test_an_interruption_keeps_what_is_done(tmp_path: Path) -> None:
    assert not run_missing(tiny_series(), tmp_path, Silent(stop_at=1))
    rest = Silent()
    assert run_missing(tiny_series(), tmp_path, rest)
    assert len(rest.tasks) == 1


@pytest.mark.parametrize("content", [b"", b"not an archive"])
def test_a_broken_file_counts_as_missing(tmp_path: Path, content: bytes) -> None:
    assert run_missing(tiny_series(), tmp_path, Silent())
    ((name, one),) = tiny_series().items()
    before = load_all({name: one}, tmp_path)[name].runs["fedogd"][0]
    Folder(tmp_path / name).archive("fedogd", 0).write_bytes(content)
    assert not load_all({name: one}, tmp_path)[name].runs["fedogd"]
    listener = Silent()
    assert run_missing(tiny_series(), tmp_path, listener)
    assert len(listener.tasks) == 1
    again = load_all({name: one}, tmp_path)[name].runs["fedogd"][0]
    np.testing.assert_array_equal(again.loss, before.loss)


def test_the_estimate_covers_what_is_missing(tmp_path: Path) -> None:
    assert run_missing(tiny_series(), tmp_path, Silent())
    ((name, one),) = tiny_series().items()
    done = load_all({name: one}, tmp_path)[name]
    runs = {key: [replace(result, seconds=12.0) for result in found] for key, found in done.runs.items()}
    # 12 seconds a run on record for this data.
    assert estimate_seconds(one.config, 1, replace(done, runs=runs)) == pytest.approx(12.0)
    assert estimate_seconds(one.config, 2, replace(done, runs=runs)) == pytest.approx(24.0)


def test_off_the_papers_scale_nothing_is_compared(tmp_path: Path) -> None:
    outcome, listener = run_tiny(tmp_path)
    methods = outcome["panels"]["fig3"]["methods"]
    assert {one["authors"] for one in methods.values()} == {None}
    assert any("NOT the paper's scale" in note for note in listener.notes)


def test_the_results_hold_mean_and_spread_of_the_seeds(tmp_path: Path) -> None:
    outcome, _ = run_tiny(tmp_path)
    one = outcome["panels"]["fig3"]["methods"]["OFedAvg"]
    assert one["value"] == pytest.approx(np.mean(one["per_seed"]))
    assert one["std"] == pytest.approx(np.std(one["per_seed"], ddof=1))
    assert one["ccr"] == pytest.approx(0.5)  # four of eight clients send whole updates
    assert outcome["panels"]["fig3"]["complete"]


def test_the_report_needs_nothing_from_outside(tmp_path: Path) -> None:
    outcome, _ = run_tiny(tmp_path)
    page = (Path(outcome["folder"]) / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|<link|@import|url\(", page)
    assert set(re.findall(r"src='([^,]*)", page)) == {"data:image/png;base64"}
    assert "QUICK RUN" in page
    assert page.count("<tr>") > 4


def test_whatever_stands_in_the_report_is_text(tmp_path: Path) -> None:
    outcome, _ = run_tiny(tmp_path)
    outcome["panels"]["fig3"]["dataset"] = "<script>alert(1)</script>"
    outcome["claims"][0]["sentence"] = "'><img src=x>"
    page = render_page(outcome, {"fig3": Path(outcome["folder"]) / "fig3.png"})
    assert "<script" not in page
    assert "<img src=x>" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_files_are_there_and_json_is_plain(tmp_path: Path) -> None:
    outcome, _ = run_tiny(tmp_path)
    assert {path.name for path in Path(outcome["folder"]).iterdir()} == {
        "fig3.png",
        "report.html",
        "results.json",
        "tables.md",
    }
    tables = (Path(outcome["folder"]) / "tables.md").read_text(encoding="utf-8")
    assert "### fig3: " in tables
    assert "| method | ours | authors | difference | CCR | seeds |" in tables
    assert json.loads((Path(outcome["folder"]) / "results.json").read_text()) == outcome


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "fig9"}, "`target` must be one of table1"),
        ({"preset": "ours"}, "`preset` must be one of authors, paper"),
        ({"seeds": 0}, "`seeds` must be an integer >= 1"),
    ],
)
def test_bad_input_gets_one_sentence(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        reproduce(**{"out": tmp_path, "listener": Silent(), **options})  # type: ignore[arg-type]  # a mix of types
