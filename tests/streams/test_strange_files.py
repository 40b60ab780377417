"""Strangers' files as they come: numbers in texts, other ways to write the same, types of other programs."""

from __future__ import annotations

import gzip
import math
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ofediq.errors import DataError
from ofediq.experiment.auto import prepare
from ofediq.experiment.config import Config
from ofediq.streams import load_own
from ofediq.streams.features import NumberTarget, Pipeline, Readings
from tests.streams.test_files import PLANT, _same, _write, plant

__all__ = ["plant"]  # a fixture


def test_own_files_need_no_preparation(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        "id,empty,when,heat,y\n" + "".join(f"k{i},,2024-01-{31 - i:02},{i},{i}.5\n" for i in range(30)),
    )
    path.write_text(path.read_text() + "".join(f"j{i},,2023-01-{i + 1:02},{i},{i}.5\n" for i in range(30)))
    own = load_own(path, "y")
    assert (own.time_column, own.left_out) == ("when", ("id", "empty"))
    assert own.dataset.feature_names == ("heat",)
    assert own.dataset.time is not None
    assert (np.diff(own.dataset.time) >= 0).all()


HOURS = 60
LOADS = [round(50 + 7 * np.sin(hour / 5) + hour / 8, 2) for hour in range(HOURS)]


def _hourly(tmp_path: Path, cells: list[str], *, name: str = "own.csv") -> Path:
    """A file of so many hours whose target is written as in `cells`."""
    times = pandas.date_range("2024-01-01", periods=len(cells), freq="h").astype(str)
    frame = pandas.DataFrame({"when": times, "heat": np.arange(float(len(cells))), "load": cells})
    frame.to_csv(tmp_path / name, index=False)
    return tmp_path / name


@pytest.mark.parametrize(
    "written",
    [
        lambda load: str(load).replace(".", ","),
        lambda load: f" {load} ",
        lambda load: f"{load * 1e6:,.2f}",
        lambda load: f"${load:.2f}",
        lambda load: f"{load:.2f} %".replace(".", ","),
    ],
    ids=["decimal commas", "blanks", "thousands", "a currency", "per cent"],
)
def test_numbers_in_texts_are_numbers(tmp_path: Path, written: Any) -> None:
    own = load_own(_hourly(tmp_path, [written(load) for load in LOADS]), "load", scaling="none")
    factor = 1e6 if "," in written(1.5) and "." in written(1.5) else 1.0
    np.testing.assert_allclose(own.dataset.y, np.multiply(LOADS, factor), rtol=1e-6)
    assert own.unread == {}


@pytest.mark.parametrize(
    "before",
    [
        "# station 7, roof\n#\n\nheat,load\n",
        "# station 7\n# heat,load\n",
        "\n\nheat,load\n",
        "#heat,load\n",
    ],
)
def test_comments_before_the_names(tmp_path: Path, before: str) -> None:
    path = _write(tmp_path, before + "".join(f"{row},{row}.5\n" for row in range(30)))
    own = load_own(path, "load", scaling="none")
    assert own.dataset.feature_names == ("heat",)
    np.testing.assert_array_equal(own.dataset.y, np.arange(30) + 0.5)


def test_a_column_may_be_called_by_a_sign(tmp_path: Path) -> None:
    path = _write(tmp_path, "#,load\n" + "".join(f"{row},{row}.5\n" for row in range(30)))
    assert load_own(path, "load").dataset.feature_names == ("#",)


def test_three_decimals_after_a_nought_are_no_thousands(tmp_path: Path) -> None:
    rows = "".join(f"{row}\t0,{row:03}\n" for row in range(1, 30))
    path = tmp_path / "plant.tsv"
    path.write_text("heat\tload\n" + rows)
    np.testing.assert_allclose(load_own(path, "load", scaling="none").dataset.y, np.arange(1, 30) / 1000)


@pytest.mark.filterwarnings("error")
def test_infinite_and_short_numbers_go_without_a_warning(tmp_path: Path) -> None:
    y = np.arange(30).astype(np.float16)
    np.savez(tmp_path / "own.npz", heat=np.where(y % 5 == 0, np.inf, y / 3), load=y)
    data = load_own(tmp_path / "own.npz", "load", task="regression", scaling="none").dataset
    assert np.isnan(data.x).sum() == 6


def test_a_target_of_several_numbers_is_one_sentence(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.ones((30, 3)), y=np.ones((30, 2)))
    with pytest.raises(DataError, match=r"`target` must have one number per sample, got 'y' with \[30, 2\]"):
        load_own(tmp_path / "own.npz", "y")


def test_a_client_reads_amounts_as_the_file_is_read() -> None:
    read = Readings(("price", "share")).read({"price": "-$1,250.50", "share": "5.3%"})
    assert read.tolist() == [[-1250.5, 5.3]]
    with pytest.raises(DataError, match="must be a number"):
        Readings(("price",)).read({"price": "1,250"})


def test_few_different_amounts_stay_labels(tmp_path: Path) -> None:
    own = load_own(_hourly(tmp_path, [f"{10 * (hour % 3)}%" for hour in range(HOURS)]), "load")
    assert own.dataset.label_names == ("0%", "10%", "20%")


def test_a_few_cells_without_a_number_are_missing_and_counted(tmp_path: Path) -> None:
    cells = [str(load) for load in LOADS]
    cells[3], cells[7], cells[9] = "-", "offline", "?"
    own = load_own(_hourly(tmp_path, cells), "load", scaling="none")
    kept = [load for hour, load in enumerate(LOADS) if hour not in (3, 7, 9)]
    np.testing.assert_allclose(own.dataset.y, kept, rtol=1e-6)
    assert (own.dropped, own.unread) == (3, {"load": (2, "-")})


@pytest.mark.parametrize(("words", "read"), [(("offline",), True), (("a", "b", "c", "d"), False)])
def test_half_of_a_column_may_be_the_same_few_words(
    tmp_path: Path, words: tuple[str, ...], read: bool
) -> None:
    path = _hourly(tmp_path, [str(load) for load in LOADS])
    cells = [words[hour % len(words)] if hour % 3 == 0 else str(load) for hour, load in enumerate(LOADS)]
    pandas.read_csv(path).assign(heat=cells).to_csv(path, index=False)
    assert load_own(path, "load").unread == ({"heat": (20, "offline")} if read else {})


@pytest.mark.parametrize("fill", ["9.96921e36", "-3.4028235e38", "1.7976931348623157e308"])
def test_what_programs_write_for_nothing_is_missing(tmp_path: Path, fill: str) -> None:
    """One such number in a column would hide all others behind its deviation."""
    cells = [fill if hour == 20 else str(load) for hour, load in enumerate(LOADS)]
    path = _hourly(tmp_path, cells)
    frame = pandas.read_csv(path)
    frame.assign(heat=frame.heat.mask(frame.index == 5, float(fill))).to_csv(path, index=False)
    own = load_own(path, "load", scaling="none")
    shown = (1, f"{float(fill):g}")
    assert (own.dropped, own.unread) == (1, {"load": shown, "heat": shown})
    assert np.isnan(own.dataset.x[5, 0])
    assert np.nanmax(np.abs(own.dataset.x)) == HOURS - 1
    assert math.isnan(Readings(("heat",)).read({"heat": fill})[0, 0])


@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000])
def test_times_since_1970_may_have_a_finer_unit(tmp_path: Path, unit: int) -> None:
    path = _hourly(tmp_path, [str(load) for load in LOADS])
    when = 1_704_067_200 + 3_600 * np.arange(HOURS)
    pandas.read_csv(path).assign(when=unit * when).to_csv(path, index=False)
    found = load_own(path, "load", time_column="when").dataset.time
    assert found is not None
    assert found.tolist() == when.tolist()


@pytest.mark.parametrize("suffix", [".tsv", ".txt", ".tsv.gz"])
def test_files_with_tabs_may_be_called_so(tmp_path: Path, suffix: str) -> None:
    path = _hourly(tmp_path, [str(load) for load in LOADS])
    other = tmp_path / f"own{suffix}"
    pandas.read_csv(path).to_csv(other, sep="\t", index=False)
    assert np.array_equal(load_own(other, "load").dataset.x, load_own(path, "load").dataset.x)


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        ([f"{load} kW" for load in LOADS], "different texts in 60 rows, such as '45.92 kW'"),
        ([f"{round(load)},{hour:03d}" for hour, load in enumerate(LOADS)], "60 different texts"),
        ([f"case {hour}" for hour in range(HOURS)], "such as 'case 0'"),
    ],
    ids=["units", "thousands or decimals", "names"],
)
def test_a_target_of_texts_that_never_come_again_is_refused(
    tmp_path: Path, cells: list[str], shown: str
) -> None:
    with pytest.raises(
        DataError, match=f"'load' must hold numbers, or labels that come again, got .*{shown}"
    ):
        load_own(_hourly(tmp_path, cells), "load")


@pytest.mark.parametrize(
    "write",
    [
        lambda path, text: path.write_bytes(text.encode("utf-8-sig")),
        lambda path, text: path.write_bytes(text.encode("utf-16")),
        lambda path, text: path.write_bytes(text.replace("\n", "\r\n").encode()),
        lambda path, text: path.write_text(text.replace(",", "|")),
        lambda path, text: path.write_text(text.replace(",", ", ").replace("heat,", "heat ,")),
    ],
    ids=["utf-8 with a mark", "utf-16", "crlf", "bars", "blanks around names"],
)
def test_the_same_file_written_in_other_ways(plant: Path, tmp_path: Path, write: Any) -> None:
    write(tmp_path / "other.csv", PLANT)
    _same(plant, tmp_path / "other.csv", target="load", client_column="sensor", time_column="when")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("größe,y\n1,2\n".encode("latin1"), r"it is no UTF-8 text \(byte 0xf6\); `iconv"),
        ("a,y\n1,2\n".encode("utf-16-le"), "it is no UTF-8 text"),
        (gzip.compress(b"a,y\n1,2\n", mtime=0), r"compressed by gzip; such a file must end in \.csv\.gz"),
        (b"a,y,y\n1,2,3\n", "`target` must be one column of own.csv, got 'y', of which it has several"),
        (b"a,y\n1,2\n2,3,4,5\n", "cannot be read: Expected 2 fields in line 3, saw 4"),
    ],
)
def test_files_that_cannot_be_read_say_why(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "own.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_own(tmp_path / "own.csv", "y")


def test_repeated_names_are_fine_for_features(tmp_path: Path) -> None:
    data = load_own(_write(tmp_path, "a,a,y\n1,2,0.5\n2,3,1.5\n"), "y").dataset
    assert data.feature_names == ("a", "a.1")


def test_a_missing_category_is_none_of_them(tmp_path: Path) -> None:
    data = load_own(_write(tmp_path, "mode,on,y\neco,True,0.5\n,,1.5\nfull,False,2.5\n"), "y").dataset
    assert data.feature_names == ("mode=eco", "mode=full", "on")
    np.testing.assert_array_equal(data.x, [[1, 0, 1], [0, 0, np.nan], [0, 1, 0]])


@pytest.mark.parametrize(("argument", "others"), [("client_column", {}), ("time_column", {})])
def test_the_target_is_nothing_else(tmp_path: Path, argument: str, others: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=f"`{argument}` must be another column than the target, got 'y'"):
        load_own(_write(tmp_path, "a,y\n1,2\n2,3\n"), "y", **{**others, argument: "y"})


def test_parquet_types_are_what_they_mean(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {
            "price": [Decimal("1.25"), Decimal("2.5"), Decimal("3.75")],
            "lists": [[1], [2], [3]],
            "raw": [b"on", b"off", b"on"],
            "spell": pandas.to_timedelta([1, 2, 4], unit="min"),
            "y": [Decimal("0.5"), Decimal("1.5"), Decimal("2.5")],
        }
    )
    frame.to_parquet(tmp_path / "own.parquet")
    own = load_own(tmp_path / "own.parquet", "y", scaling="none")
    assert (own.left_out, own.dataset.y.tolist()) == (("lists",), [0.5, 1.5, 2.5])
    assert own.dataset.feature_names == ("price", "raw=off", "raw=on", "spell")
    assert own.dataset.x.tolist() == [[1.25, 0, 1, 60], [2.5, 1, 0, 120], [3.75, 0, 1, 240]]
    frame.assign(y=frame.lists).to_parquet(tmp_path / "own.parquet")
    with pytest.raises(
        DataError, match="`target` column 'y' must hold numbers or labels, got lists or objects"
    ):
        load_own(tmp_path / "own.parquet", "y")


def test_every_name_of_an_index_is_a_column(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"when": ["2024-01-02", "2024-01-01"], "k": ["A", "A"], "y": [0.5, 1.5]})
    frame.set_index(["when", "k"]).to_parquet(tmp_path / "own.parquet")
    data = load_own(tmp_path / "own.parquet", "y", client_column="k", scaling="none").dataset
    assert (data.y.tolist(), data.client_names) == ([1.5, 0.5], ("A",))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([{}, {}]), "array 'x' holds Python objects, which must be numbers or texts"),
        (np.ones((2, 3)) * 1j, "array 'x' of own.npz must hold numbers or texts, got complex128"),
        (np.array([["a", "b"]] * 2), "array 'x' of own.npz must hold numbers, got <U1"),
    ],
)
def test_arrays_of_other_things_are_refused(tmp_path: Path, array: Any, message: str) -> None:
    np.savez(tmp_path / "own.npz", x=array, y=[0.5, 1.5])
    with pytest.raises(DataError, match=message):
        load_own(tmp_path / "own.npz", "y")


def test_a_target_with_an_axis_of_one_is_a_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.ones((2, 3), ">f4"), y=np.array([[0.5], [1.5]], ">f8"))
    assert load_own(tmp_path / "own.npz", "y", scaling="none").dataset.y.tolist() == [0.5, 1.5]


def test_separators_at_the_end_of_lines_shift_nothing(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("a,y\n1,0.5,\n2,1.5,\n")
    data = load_own(path, "y", scaling="none").dataset
    assert (data.x.ravel().tolist(), data.y.tolist()) == ([1.0, 2.0], [0.5, 1.5])
    path.write_text("a,y\n1,0.5,7\n2,1.5,8\n")
    with pytest.raises(DataError, match="its first row has 3 cells, and its header 2 names"):
        load_own(path, "y")


CELLS = [
    "1",
    "2.5",
    "-3e5",
    "",
    "NA",
    "inf",
    "True",
    "eco",
    "1,5",
    "2024-01-01",
    "31/12/2023",
    "1e400",
    "9" * 30,
    "é",
    "?",
    "[1]",
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["a", "b", "when", "year", "month", "day", " z"]), max_size=3),
    st.lists(st.lists(st.sampled_from(CELLS), min_size=1, max_size=5), min_size=1, max_size=12),
    st.sampled_from([",", ";", "|"]),
    st.sampled_from([None, "a", "when"]),
)
def test_whatever_is_in_a_file_it_is_read_or_refused_in_a_sentence(
    tmp_path: Path, names: list[str], rows: list[list[str]], separator: str, time: str | None
) -> None:
    path = tmp_path / "own.csv"
    quoted = [[f'"{cell}"' if separator in cell else cell for cell in row] for row in rows]
    path.write_text("\n".join(separator.join(row) for row in [[*names, "y"], *quoted]))
    with suppress(DataError):
        data = load_own(path, "y", time_column=time).dataset
        assert len(data) <= len(rows)
        assert np.isfinite(data.y).all()


ROWS = 240


def _measured(rng: np.random.Generator) -> pandas.DataFrame:
    """Heat from -2 to 24 degrees, a gas sensor far above, a target between 0.1 and 12."""
    heat, load = 11 + 8 * np.sin(np.arange(ROWS) / 9), 6 + 2 * rng.normal(size=ROWS)
    gas = 1000 + 300 * rng.normal(size=ROWS)
    return pandas.DataFrame({"heat": heat, "gas": gas.clip(300), "load": load.clip(0.1, 12)}).round(4)


@pytest.mark.parametrize("mark", [-999.0, -9999.0, 999.9, 65535.0, -200.0, 8888.0, -1e30, 2e9])
def test_numbers_that_stand_for_none_are_missing(tmp_path: Path, mark: float) -> None:
    """Predicted or scaled by, they would hide all others."""
    frame, gone = _measured(np.random.default_rng(0)), np.arange(0, ROWS, 40)
    frame.loc[gone, "heat"] = frame.loc[gone + 1, "load"] = mark
    frame.to_csv(tmp_path / "air.csv", index=False)
    own = load_own(tmp_path / "air.csv", "load", scaling="none")
    assert own.strays == {"heat": (len(gone), mark), "load": (len(gone), mark)}
    assert own.dropped == len(gone)
    assert own.dataset.y.max() <= 12
    assert np.count_nonzero(np.isnan(own.dataset.x[:, 0])) == len(gone)
    kept = load_own(tmp_path / "air.csv", "load", scaling="none", strays="keep")
    assert kept.strays == {}
    assert kept.dataset.y[1] == np.float32(mark)


def test_the_mark_of_one_column_is_the_mark_of_the_others(tmp_path: Path) -> None:
    """In the air-quality file -200 is far from temperatures, but not from sensors with values around 1,000."""
    frame, gone = _measured(np.random.default_rng(1)), np.arange(0, ROWS, 30)
    frame.loc[gone, ["gas", "load"]] = -200.0
    frame.to_csv(tmp_path / "air.csv", index=False)
    assert load_own(tmp_path / "air.csv", "load").strays.keys() == {"gas", "load"}
    alone = frame.assign(load=_measured(np.random.default_rng(1)).load)
    alone.to_csv(tmp_path / "air.csv", index=False)
    assert load_own(tmp_path / "air.csv", "load").strays == {}


def test_two_states_far_from_each_other_are_no_strays(tmp_path: Path) -> None:
    frame, rng = _measured(np.random.default_rng(2)), np.random.default_rng(3)
    on = rng.random(ROWS) < 0.3
    frame["power"] = np.where(on, 999, 0) + 0.01 * rng.normal(size=ROWS)  # each with its noise
    frame["pump"] = np.where(on, 0.0, 400 + rng.normal(size=ROWS))  # off is 0
    frame["tail"] = rng.standard_t(1.5, size=ROWS)
    frame["mode"] = np.where(on, 99, 1)
    frame.to_csv(tmp_path / "plant.csv", index=False)
    assert load_own(tmp_path / "plant.csv", "load").strays == {}


def test_what_became_of_strays_is_said(tmp_path: Path) -> None:
    frame = _measured(np.random.default_rng(4))
    frame.loc[[5, 9], ["heat", "load"]] = -999
    frame.to_csv(tmp_path / "air.csv", index=False)
    said = prepare(Config(data=str(tmp_path / "air.csv"), target="load"), {}).assumed
    assert any(
        one.startswith("4 cells of 2 columns far from all others, such as -999 in load") for one in said
    )
    assert "2 rows without load left out" in said


@pytest.mark.parametrize("nothing", [np.nan, 9.97e36, np.inf])
def test_arrays_have_the_same_rule_for_numbers_that_are_none(nothing: float) -> None:
    pipeline = Pipeline(Readings(("heat", "wind"), gaps=("wind",)), NumberTarget("last"))
    rows = []
    for missing in (np.nan, nothing):
        memory = pipeline.memory()
        for row in range(6):
            x = np.array([[20.0 + row, missing if row == 3 else float(row)]])
            made, memory = pipeline.observe(memory, x)
            memory = pipeline.learn(memory, np.array([float(row)]))
        rows.append(made)
    np.testing.assert_array_equal(rows[0], rows[1])
