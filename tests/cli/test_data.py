import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ofediq.cli.app import app
from ofediq.streams import status


@pytest.fixture(autouse=True)
def _no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OFEDIQ_DATA", raising=False)
    monkeypatch.setenv("OFEDIQ_CACHE", str(tmp_path))


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["data", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_the_table_shows_place_and_licence() -> None:
    lines = {line.split()[0]: " ".join(line.split()) for line in output().splitlines() if line.strip()}
    assert lines["mnist"].startswith("mnist CC BY-SA 3.0")  # the licences come last
    shown = " ".join(output().split())
    assert "digits classification 1,797 64 embedded" in shown
    assert "room classification 10,129 14 not here" in shown
    assert "synthetic regression any any generated" in shown


def test_a_file_in_the_data_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (room,) = (row for row in status() if row.name == "room")
    (tmp_path / room.files[0]).write_bytes(b"12345")
    monkeypatch.setenv("OFEDIQ_DATA", str(tmp_path))
    listed = {row["name"]: row for row in json.loads(output("--json"))["datasets"]}
    assert (listed["room"]["place"], listed["room"]["bytes"]) == ("OFEDIQ_DATA", 5)
    assert listed["mnist"]["place"] == "not here"


def test_json_has_every_fact() -> None:
    rows = json.loads(output("--json"))["datasets"]
    assert [row["name"] for row in rows] == [row.name for row in status()]
    assert set(rows[0]) == {
        "name",
        "task",
        "samples",
        "features",
        "place",
        "bytes",
        "files",
        "licence",
        "citation",
        "url",
    }
