from __future__ import annotations

import gzip
import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq.errors import DataError, InputError
from ofediq.federation.network.replay import Replay
from ofediq.federation.network.sources import NOT_YET, Feeder, Rows, read_lines
from ofediq.federation.protocol.inputs import Inputs
from ofediq.federation.protocol.messages import ModelMessage
from ofediq.methods.client import Down
from ofediq.streams.dates import moments_of
from ofediq.streams.features import pipeline_for
from ofediq.streams.tables import read_table
from ofediq.streams.written import WAYS as WAYS_OF_DATES
from tests.federation.test_inputs import NAMES, SPEC, alone

PLAIN = "when,heat,wind,load\n2024-01-01 00:00,1.5,2,30.5\n2024-01-01 01:00,2.5,NA,31.5\n"
WAYS = {
    "semicolons": PLAIN.replace(",", ";").replace(".", ",").encode(),
    "blanks": PLAIN.replace(",", " , ").encode(),
    "crlf": PLAIN.replace("\n", "\r\n").encode(),
    "marked": PLAIN.encode("utf-8-sig"),
    "utf-16": PLAIN.encode("utf-16"),
    "bars": PLAIN.replace(",", "|").encode(),
    "quotes": PLAIN.replace("wind", '"wind"').replace("1.5", '"1.5"').encode(),
    "comments": b"# station 7, roof\n\n#\n" + PLAIN.encode(),
    "names in a comment": b"# station 7\n# " + PLAIN.encode(),
    "more columns": PLAIN.replace("load\n", 'load,"note"\n')
    .replace("30.5", '30.5,"two\nlines, and more"')
    .encode(),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_rows_written_in_other_ways(tmp_path: Path, way: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(WAYS[way])
    source = Rows(path, "load", announced=lambda: NAMES, time="when")
    first, second = source.at(1), source.at(2)
    assert first is not None
    assert second is not None
    assert (first.x, first.y, first.time) == ({"heat": "1.5", "wind": "2"}, "30.5", 1704067200.0)
    assert (second.x, second.time) == ({"heat": "2.5", "wind": None}, 1704067200.0 + 3600)
    assert source.at(3) is None
    assert source.exhausted


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"heat,heat,wind,load\n1,2,3,4\n", "must have one column 'heat', got several"),
        (b"heat,wind\n1,2\n", "has no column 'load'; it has heat, wind"),
        (b"", "has no column 'load'; it has "),
        (
            gzip.compress(b"heat,wind,load\n1,2,3\n", mtime=0),
            r"compressed by gzip; such a file must end in \.csv\.gz",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        Rows(path, "load", announced=lambda: NAMES).at(1)


def test_a_compressed_file_is_read_and_a_cut_one_said_so(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    whole = gzip.compress(("heat,wind,load\n" + "1.5,2,3\n" * 50_000).encode(), compresslevel=0)
    path.write_bytes(whole)
    sample = Rows(path, "load", announced=lambda: NAMES).at(1)
    assert sample is not None
    assert sample.x == {"heat": "1.5", "wind": "2"}
    path.write_bytes(whole[: len(whole) // 2])
    source = Rows(path, "load", announced=lambda: NAMES)
    with pytest.raises(DataError, match=r"cannot read on in .*rows\.csv\.gz after row \d+"):
        list(map(source.at, range(50_000)))


def test_a_file_that_grows_is_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("heat,wind,load\n1,2,3\n")

    def write(text: str) -> None:
        with path.open("a") as file:
            file.write(text)

    def loads(source: Rows) -> list[str]:
        return [str(one.y) for one in iter(lambda: source.at(1), NOT_YET) if one]

    source = Rows(path, "load", announced=lambda: NAMES, follow=True)
    assert loads(source) == ["3"]
    assert not source.exhausted
    assert loads(source) == []
    write("1,2,")
    assert loads(source) == []
    write('4\n1,2,5\n1,"2')
    assert loads(source) == ["4", "5"]
    write('\n",6\n')
    assert loads(source) == ["6"]
    assert source.position == 4
    again = Rows(path, "load", announced=lambda: NAMES, follow=True, start=lambda: 3)
    assert loads(again) == ["6"]
    path.write_text("heat,wind,load\n1,2,7\n")  # cut
    assert loads(source) == ["7"]
    path.rename(tmp_path / "rows.1.csv")
    assert loads(source) == []
    path.write_text("load,heat,wind\n8,2,1\n9,2,1\n10,2,1\n")  # another one
    assert loads(source) == ["8", "9", "10"]
    assert caplog.text.count("is another file now") == 2


def test_who_waits_for_a_line_leaves_the_round_open(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("heat,wind,load\n")
    one = alone()
    feeder = Feeder(one, Rows(path, "load", announced=lambda: one.features, follow=True))
    before = one.next_step
    assert feeder() == []
    assert (one.next_step, one.answers.samples, one.hungry) == (before, 0, True)
    with path.open("a") as file:
        file.write("1,2,3\n")
    feeder()
    assert one.answers.samples == 1


def test_damage_costs_its_own_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "rows.csv"
    rows = ["1,2,30", "1\xff,2,30", "1,2", "1,2,30,40,50", "x" * 200_000, "", "1,2,inf", "1,2,31"]
    path.write_bytes("\n".join(["heat,wind,load", *rows]).encode("latin1"))
    one = alone()
    feeder = Feeder(one, Rows(path, "load", announced=lambda: one.features))
    for step in range(2, 6):
        feeder()
        down = Down(np.zeros(one.params.size, np.float32), {}, {})
        one.receive("model", ModelMessage(1, step, 1, down).encode())
    assert feeder.source.exhausted
    assert (one.answers.samples, feeder.skipped.count) == (3, 4)
    assert "row 2" in caplog.text


def test_a_row_whose_date_cannot_be_read_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("when,heat,wind,load\nsoon,1,2,30\n,1,2,30\n2024-01-01,1,2,30\n")
    one = alone(replace(SPEC, pipeline=pipeline_for(NAMES, calendar=True)))
    feeder = Feeder(one, Rows(path, "load", announced=lambda: one.features, time="when"))
    feeder()
    assert (one.answers.samples, feeder.skipped.count) == (1, 2)
    assert "`time` must be an ISO 8601 date" in str(feeder.skipped.first)
    with pytest.raises(InputError, match="`time` must be"):
        one.forecast([1.0, 2.0], time=float("nan"))


@pytest.mark.parametrize("way", [*WAYS_OF_DATES[::5], "%Y%m%d", "%Y-%m-%dT%H:%MZ", "%Y-%m-%d"])
def test_a_client_reads_dates_as_the_simulator_does(tmp_path: Path, way: str) -> None:
    """From the fifth row on there is a day above twelve: the file tells which is the month."""
    days = [datetime(2024, 1 + day % 3, 1 + 3 * day, 7, 30, tzinfo=UTC) for day in range(10)]
    path = tmp_path / "rows.csv"
    lines = [f'"{day.strftime(way)}",{row}.5' for row, day in enumerate(days)]
    path.write_text("\n".join(["when,load", *lines]) + "\n")
    source = Rows(path, "load", time="when")
    found = [sample.time for step in range(10) if (sample := source.at(step + 1)) is not None]
    table = read_table(path)
    np.testing.assert_array_equal(found, moments_of(table.frame["when"]))
    told = datetime.strptime(days[0].strftime(way), way).replace(tzinfo=UTC)
    assert found[0] == told.timestamp()


def test_truth_values_are_read_from_texts_too() -> None:
    spec = replace(SPEC, pipeline=pipeline_for(NAMES, flags=("wind",)))
    inputs = Inputs(spec, labelled=False)
    for text, number in (("True", 1.0), ("false", 0.0), (True, 1.0), ("1", 1.0)):
        assert inputs.readings({"heat": "1.5", "wind": text}).tolist() == [[1.5, number]]


@pytest.mark.parametrize("called", ["[1]", '{"a": 1}'])
def test_an_id_that_nothing_can_be_found_by_is_refused(called: str) -> None:
    (found,) = read_lines(io.StringIO(f'{{"x": [1, 2], "id": {called}, "y": 3}}'))
    assert isinstance(found, InputError)
    assert str(found).startswith("`id` of line 1 must be a text or a number, got ")


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        (b"PK\x03\x04" + bytes(300), "it is not a file of numpy, or only the beginning of one"),
        (b"when,heat\n1,2\n", "it is not a file of numpy"),
        ({"x": np.ones((5, 2)), "y": np.ones(5)}, "it has no 'present'"),
        ({"x": np.ones((5, 2)), "y": np.ones(4), "present": np.ones(5, bool)}, "one row per step"),
        (
            {"x": np.array([{}]), "y": np.ones(1), "present": np.ones(1, bool)},
            "array 'x' holds Python objects",
        ),
    ],
)
def test_a_recording_that_is_none_is_one_sentence(tmp_path: Path, arrays: Any, why: str) -> None:
    path = tmp_path / "stream.npz"
    if isinstance(arrays, bytes):
        path.write_bytes(arrays)
    else:
        np.savez(path, **arrays)
    with pytest.raises(DataError, match=f"cannot read the recorded stream .*: .*{why}"):
        Replay(path)


def test_a_file_that_is_not_there_is_said_before_there_is_a_task(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(DataError, match="cannot read"):
            Rows(path, "load")


def test_a_line_deeper_than_python_goes_is_a_bad_line_like_any_other() -> None:
    bad, good = read_lines(io.StringIO("[" * 100_000 + '\n{"x": [1]}\n'))
    assert isinstance(bad, InputError)
    assert not isinstance(good, InputError)
