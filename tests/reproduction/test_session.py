"""Runs, caching and output, at a tiny scale on embedded data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.reproduction import Data, Outcome, Panel, Recipe, Record, Scale, Store, Task, Unit, reproduce
from ofediq.reproduction import panels as panel_module
from ofediq.reproduction.estimate import estimate_seconds
from ofediq.reproduction.work import run_units

DIGITS = Task("digits", "digits", "softmax", 650, 650, "accuracy")
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
    from ofediq.reproduction import work
    from ofediq.streams import load

    panel = Panel("fig3", "tiny", DIGITS, 50, 6, RECIPES, {"FedOGD": 0.5, "OFedAvg": 0.4}, clients=8)
    tiny = mock.patch.dict(panel_module.PANELS, {"fig3": panel})
    usual = mock.patch.object(work, "load", lambda name, scaling, **options: load(name, **options))
    work._load.cache_clear()
    work._deal.cache_clear()
    with tiny, usual:
        yield
    work._load.cache_clear()
    work._deal.cache_clear()


def units(seeds: int = 1) -> list[Unit]:
    return [
        Unit(Data("digits", (), "passes", 8, 6, seed), recipe, "authors")
        for seed in range(seeds)
        for recipe in RECIPES
    ]


def run_tiny(out: Path) -> tuple[Outcome, Silent]:
    listener = Silent()
    return reproduce("fig3", seeds=2, scale=TINY, out=out, listener=listener), listener


def test_a_finished_unit_is_not_run_again_unless_forced(tmp_path: Path) -> None:
    store, first, again, forced = Store(tmp_path), Silent(), Silent(), Silent()
    assert run_units(units(), store, first)
    assert run_units(units(), store, again)
    assert run_units(units(), store, forced, force=True)
    assert [len(listener.tasks) for listener in (first, again, forced)] == [2, 0, 2]


def test_an_interruption_keeps_what_is_done(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert not run_units(units(), store, Silent(stop_at=1))
    rest = Silent()
    assert run_units(units(), store, rest)
    assert len(rest.tasks) == 1


def test_a_record_survives_the_disk(tmp_path: Path) -> None:
    unit, curve = units()[0], np.linspace(0.1, 0.9, 6)
    record = Record(curve, curve + 1, curve + 2, curve + 3, curve + 4, seconds=2.5, seed=7)
    store = Store(tmp_path)
    store.save(unit, record)
    found = store.load(unit)
    assert found is not None
    assert (found.final, found.seconds, found.seed) == (0.9, 2.5, 7)
    np.testing.assert_array_equal(found.bits_wire, curve + 4)


@pytest.mark.parametrize("content", [b"", b"not an archive"])
def test_a_broken_file_counts_as_missing(tmp_path: Path, content: bytes) -> None:
    store = Store(tmp_path)
    store.path(units()[0]).write_bytes(content)
    assert store.load(units()[0]) is None


def test_labels_do_not_decide_what_a_unit_is() -> None:
    unit = units()[0]
    renamed = Unit(unit.data, Recipe("another name", "fedogd"), "authors")
    assert (renamed.name, renamed.identity) == (unit.name, unit.identity)


def test_the_estimate_covers_what_is_missing(tmp_path: Path) -> None:
    store, both = Store(tmp_path), units()
    curve = np.ones(6)
    store.save(both[0], Record(curve, curve, curve, curve, curve, seconds=12.0, seed=0))
    # 2 seconds per step on record for this data: the missing unit of 6 steps takes 12, with force both do.
    assert estimate_seconds(both, store) == pytest.approx(12.0)
    assert estimate_seconds(both, store, force=True) == pytest.approx(24.0)


def test_off_the_papers_scale_nothing_is_compared(tmp_path: Path) -> None:
    outcome, listener = run_tiny(tmp_path)
    methods = outcome.results["panels"]["fig3"]["methods"]
    assert {one["authors"] for one in methods.values()} == {None}
    assert any("NOT the paper's scale" in note for note in listener.notes)


def test_the_results_hold_mean_and_spread_of_the_seeds(tmp_path: Path) -> None:
    outcome, _ = run_tiny(tmp_path)
    one = outcome.results["panels"]["fig3"]["methods"]["OFedAvg"]
    assert one["value"] == pytest.approx(np.mean(one["per_seed"]))
    assert one["std"] == pytest.approx(np.std(one["per_seed"], ddof=1))
    assert one["ccr"] == pytest.approx(0.5)  # four of eight clients send whole updates
    assert outcome.results["panels"]["fig3"]["complete"]


def test_the_report_needs_nothing_from_outside(tmp_path: Path) -> None:
    outcome, _ = run_tiny(tmp_path)
    page = (outcome.folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|<link|@import|url\(", page)
    assert set(re.findall(r"src='([^,]*)", page)) == {"data:image/png;base64"}
    assert "QUICK RUN" in page
    assert page.count("<tr>") > 4


def test_the_files_are_there_and_json_is_plain(tmp_path: Path) -> None:
    outcome, _ = run_tiny(tmp_path)
    assert {path.name for path in outcome.folder.iterdir()} == {
        "fig3.png",
        "report.html",
        "results.json",
        "tables.md",
    }
    tables = (outcome.folder / "tables.md").read_text(encoding="utf-8")
    assert "### fig3: " in tables
    assert "| method | ours | authors | difference | CCR | seeds |" in tables
    assert json.loads((outcome.folder / "results.json").read_text()) == outcome.results


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
        reproduce(**{"out": tmp_path, "listener": Silent(), **options})  # type: ignore[arg-type]
