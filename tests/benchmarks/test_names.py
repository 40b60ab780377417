"""Every name that `python -m benchmarks` lists can be run."""

from __future__ import annotations

from pathlib import Path

import pytest

import benchmarks
from benchmarks.__main__ import main

FOLDER = Path(next(iter(benchmarks.__path__)))


def test_what_is_listed_has_a_main(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 2
    listed = capsys.readouterr().err.partition("there are ")[2].split()
    names = [name.strip(",") for name in listed]
    assert len(names) > 20
    assert [name for name in names if "\ndef main(" not in (FOLDER / f"{name}.py").read_text("utf-8")] == []


def test_the_page_names_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    main(["nothing"])
    listed = capsys.readouterr().err.partition("there are ")[2].split()
    page = (FOLDER / "README.md").read_text("utf-8")
    assert [name for name in listed if f"`{name.strip(',')}`" not in page] == []
