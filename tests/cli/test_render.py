from __future__ import annotations

import pytest

from ofediq.cli import render

HEADS, ROW = ("method", "accuracy", "formula bits", "bytes"), ("OFedIQ", "74.3%", "5.75 Mbit", "11.3 MB")


@pytest.mark.parametrize("columns", ["20", "40", "200"])
def test_no_number_is_cut_however_narrow_the_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    render.show(render.table(HEADS, [ROW]))
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == " ".join(HEADS).split()
    assert lines[-1] == " ".join(ROW).split()


def test_words_are_wrapped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    words = "a sentence that is longer than the terminal is wide"
    render.show(render.table(("name", "what"), [("a", words)], words=True), render.facts({"b": words}))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40
