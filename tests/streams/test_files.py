from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from ofediq.errors import DataError, InputError
from ofediq.streams import load_file, partition

PLANT = """when,sensor,heat,mode,load,state
2024-01-03,B,30,eco,0.5,hot
2024-01-01,A,10,full,0.1,ok
2024-01-02,A,20,eco,0.9,ok
2024-01-01,B,20,eco,0.2,ok
"""


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    path = tmp_path / "plant.csv"
    path.write_text(PLANT)
    return path


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.csv"
    path.write_text(text)
    return path


def _same(path: Path, other: Path, **arguments: Any) -> None:
    a, b = load_file(path, **arguments), load_file(other, **arguments)
    np.testing.assert_array_equal(a.x, b.x)
    np.testing.assert_array_equal(a.y, b.y)
    assert (a.feature_names, a.label_names, a.client_names) == (
        b.feature_names,
        b.label_names,
        b.client_names,
    )


def test_text_labels_text_features_and_clients(plant: Path) -> None:
    data = load_file(plant, "state", client_column="sensor", features=["heat", "mode"])
    assert data.feature_names == ("heat", "mode=eco", "mode=full")
    assert data.x.tolist() == [[1, 1, 0], [0, 0, 1], [0.5, 1, 0], [0.5, 1, 0]]
    assert (data.task, data.classes, data.label_names) == ("classification", 2, ("hot", "ok"))
    assert data.y.tolist() == [0, 1, 1, 1]
    assert data.client_ids is not None
    assert (data.client_ids.tolist(), data.client_names) == ([1, 0, 0, 1], ("A", "B"))
    assert data.previous is None


def test_the_time_column_sorts_and_gives_what_came_before(plant: Path) -> None:
    data = load_file(plant, "load", client_column="sensor", time_column="when", scaling="none")
    np.testing.assert_allclose(data.y, [0.1, 0.2, 0.9, 0.5])  # equal dates keep the order of the file
    assert data.previous is not None
    np.testing.assert_allclose(data.previous, [np.nan, np.nan, 0.1, 0.2])
    assert "when" not in data.feature_names
    assert partition(data, kind="column").order.tolist() == [[0, 1], [2, -1], [-1, 3]]


def test_without_clients_the_row_before_in_time_counts(plant: Path) -> None:
    data = load_file(plant, "state", time_column="when", features=["heat"])
    assert data.y.tolist() == [1, 1, 1, 0]
    assert data.previous is not None
    assert data.previous.tolist() == [-1, 1, 1, 1]


def test_numbers_sort_as_times_too(tmp_path: Path) -> None:
    path = _write(tmp_path, "t,a,y\n10,1,0.5\n9,2,1.5\n")
    assert load_file(path, "y", time_column="t", scaling="none").y.tolist() == [1.5, 0.5]


def test_targets_of_a_regression_go_to_the_unit_interval_with_a_way_back(tmp_path: Path) -> None:
    path = _write(tmp_path, "a,y\n1,-1.5\n2,2.5\n3,0.5\n")
    data = load_file(path, "y")
    assert (data.task, data.y.tolist(), data.target_range) == ("regression", [0.0, 1.0, 0.5], (-1.5, 2.5))


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a"], "classification"),
        ([3, 1, 3], "classification"),
        ([3.0, 1.0, 3.0], "classification"),
        ([True, False, True], "classification"),
        ([0.5, 1.0, 2.0], "regression"),
        (range(20), "classification"),
        (range(21), "regression"),
    ],
)
def test_auto_takes_text_and_few_whole_numbers_for_labels(tmp_path: Path, values: Any, task: str) -> None:
    path = _write(tmp_path, "a,y\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values)))
    assert load_file(path, "y").task == task


def test_the_task_can_be_forced(tmp_path: Path) -> None:
    path = _write(tmp_path, "a,y\n1,3\n2,5\n3,7\n")
    assert load_file(path, "y", task="regression").y.tolist() == [0.0, 0.5, 1.0]
    assert load_file(path, "y", task="classification").label_names == ("3", "5", "7")


def test_parquet_and_gzip_give_the_same_as_csv(plant: Path, tmp_path: Path) -> None:
    frame = pandas.read_csv(plant)
    frame.to_parquet(tmp_path / "plant.parquet")
    frame.set_index("when").to_parquet(tmp_path / "indexed.parquet")
    (tmp_path / "plant.csv.gz").write_bytes(gzip.compress(plant.read_bytes()))
    for name in ("plant.parquet", "indexed.parquet", "plant.csv.gz"):
        _same(plant, tmp_path / name, target="state", client_column="sensor", time_column="when")


def test_parquet_dates_and_categories(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {
            "when": pandas.to_datetime(["2024-01-02", "2024-01-01"]),
            "kind": pandas.Categorical(["b", "a"]),
            "on": [True, False],
            "y": pandas.array([2, 1], dtype="Int64"),
        }
    )
    frame.to_parquet(tmp_path / "own.parquet")
    data = load_file(tmp_path / "own.parquet", "y", time_column="when")
    assert data.feature_names == ("kind=a", "kind=b", "on")
    assert data.x.tolist() == [[1, 0, 0], [0, 1, 1]]
    assert data.label_names == ("1", "2")


def test_npz_takes_the_array_with_several_axes(tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    np.savez(tmp_path / "own.npz", images=images, y=[1, 0], who=["b", "a"], t=[1.0, 0.0])
    data = load_file(tmp_path / "own.npz", "y", client_column="who", time_column="t", scaling="none")
    np.testing.assert_array_equal(data.x, images[::-1])
    assert (data.y.tolist(), data.client_names) == ([0, 1], ("a", "b"))


def test_npz_of_plain_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", a=[1.0, 2.0], b=[5, 7], y=[0.5, 0.75])
    data = load_file(tmp_path / "own.npz", "y", scaling="none")
    assert (data.feature_names, data.x.tolist()) == (("a", "b"), [[1, 5], [2, 7]])


def test_npz_with_two_candidates_asks_for_one(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, left=np.ones((2, 2)), right=np.zeros((2, 3)), y=[0, 1])
    with pytest.raises(DataError, match=r"several arrays with several axes \(left, right\): choose one"):
        load_file(path, "y")
    assert load_file(path, "y", features=["right"]).sample_shape == (3,)
    with pytest.raises(DataError, match="`features` must be one array with several axes or columns"):
        load_file(path, "y", features=["left", "right"])


def test_missing_values_are_counted_or_dropped(tmp_path: Path) -> None:
    path = _write(tmp_path, "a,b,c,y\n1,NA,1,0\n2,5,,1\n3,6,inf,1\n4,7,2,0\n")
    with pytest.raises(
        DataError, match=r"columns 'b' \(1\), 'c' \(2\) of own\.csv \(4 rows\); `missing` = 'drop'"
    ):
        load_file(path, "y")
    assert load_file(path, "y", features=["a", "b"], missing="drop").y.tolist() == [1, 1, 0]
    assert len(load_file(path, "y", features=["a"])) == 4


def test_missing_entries_of_a_block_are_rows(tmp_path: Path) -> None:
    x = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]])
    np.savez(tmp_path / "own.npz", x=x, y=[0.5, 1.5, 2.5])
    with pytest.raises(DataError, match=r"'x' \(1\)"):
        load_file(tmp_path / "own.npz", "y")
    assert load_file(tmp_path / "own.npz", "y", missing="drop", scaling="none").y.tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("a,y\n1,2\n", {"target": "z"}, r"`target` must be a column of own\.csv \(a, y\), got 'z'"),
        ("a,y\n1,2\n", {"client_column": "k"}, r"`client_column` must be a column of .*got 'k'"),
        ("a,y\n1,2\n", {"time_column": "t"}, r"`time_column` must be a column of .*got 't'"),
        ("a,y\n1,2\n", {"features": ["b"]}, r"`features` must be a column of .*got 'b'"),
        (
            "a,y\n1,2\n",
            {"features": ["a", "y"]},
            "`features` must be at least one column other than the target",
        ),
        ("a,y\n1,2\n", {"features": []}, "`features` must be at least one column"),
        ("y\n1\n", {}, "has no columns beside y"),
        ("a,y\n", {}, "has no rows"),
        ("", {}, "cannot be read: No columns to parse"),
        ("a,y\n1,2,3,4\n1,2,3\n1,2,3,4,5\n", {}, "cannot be read: "),
        ("a,y\n1,\n2,\n", {"missing": "drop"}, "no row is complete"),
        ("a,y\n1,x\n2,x\n", {}, "must hold 2 to 1000 different labels for a classification, got 1"),
        ("a,y\n1,x\n2,z\n", {"task": "regression"}, "'y' must hold numbers for a regression"),
        (
            "t,a,y\nsoon,1,2\nlater,2,3\n",
            {"time_column": "t"},
            "'t' must hold numbers or ISO 8601 dates, got 'soon'",
        ),
        ("a,y\n1,2\n", {"task": "ranking"}, "`task` must be one of auto, classification, regression"),
        ("a,y\n1,2\n", {"scaling": "authors"}, "`scaling` must be one of auto, none, minmax, standard"),
        ("a,y\n1,2\n", {"missing": "fill"}, "`missing` must be one of error, drop"),
    ],
)
def test_bad_files_and_arguments_are_named(
    tmp_path: Path, text: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load_file(_write(tmp_path, text), **({"target": "y"} | arguments))


def test_a_column_of_many_texts_is_not_a_category(tmp_path: Path) -> None:
    path = _write(tmp_path, "id,y\n" + "".join(f"person{i},{i % 2}\n" for i in range(51)))
    with pytest.raises(
        DataError, match=r"column 'id' is neither numbers nor a category of at most 50 .*has 51"
    ):
        load_file(path, "y")


def test_dates_are_not_features(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"when": pandas.to_datetime(["2024-01-01", "2024-01-02"]), "y": [0.5, 1.5]})
    frame.to_parquet(tmp_path / "own.parquet")
    with pytest.raises(DataError, match="column 'when' is neither numbers nor a category"):
        load_file(tmp_path / "own.parquet", "y")


@pytest.mark.parametrize("name", ["own.parquet", "own.npz", "own.csv.gz"])
def test_damaged_files_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"this is something else")
    with pytest.raises(DataError, match=f"{name} cannot be read"):
        load_file(tmp_path / name, "y")


def test_arrays_that_do_not_fit_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=np.ones((3, 2)), y=[0, 1])
    with pytest.raises(DataError, match=r"one row per sample, got x \[3, 2\], y \[2\]"):
        load_file(tmp_path / "own.npz", "y")
    np.savez(tmp_path / "own.npz", x=np.array([["a", "b"]]), y=[0])
    with pytest.raises(DataError, match=r"array 'x' of own\.npz must hold numbers"):
        load_file(tmp_path / "own.npz", "y")
    np.savez(tmp_path / "own.npz", y=np.array([{}]))
    with pytest.raises(DataError, match=r"own\.npz cannot be read"):
        load_file(tmp_path / "own.npz", "y")
    with (tmp_path / "own.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(DataError, match="holds a single array without a name"):
        load_file(tmp_path / "own.npz", "y")


def test_upper_case_names_are_fine(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", a=[1.0, 2.0], y=[0.5, 0.75])
    (tmp_path / "own.npz").rename(tmp_path / "OWN.NPZ")
    assert len(load_file(tmp_path / "OWN.NPZ", "y")) == 2


def test_the_path_must_be_a_file_of_a_known_kind(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"`path` must end in \.csv, \.tsv, .*, \.parquet, \.npz, got 'data\.xlsx'"
    ):
        load_file(tmp_path / "data.xlsx", "y")
    with pytest.raises(DataError, match="`path` must be a file, got "):
        load_file(tmp_path / "absent.csv", "y")


@pytest.mark.parametrize(
    "text", ["a;b;y\n1;0,5;3,5\n2;1,5;4,5\n3;2,5;5,5\n", "a\tb\ty\n1\t0.5\t3.5\n2\t1.5\t4.5\n3\t2.5\t5.5\n"]
)
def test_semicolons_with_decimal_commas_and_tabs(tmp_path: Path, text: str) -> None:
    data = load_file(_write(tmp_path, text), "y", scaling="none")
    assert (data.feature_names, data.y.tolist()) == (("a", "b"), [3.5, 4.5, 5.5])
    assert data.x.tolist() == [[1.0, 0.5], [2.0, 1.5], [3.0, 2.5]]


@pytest.mark.parametrize("content", [b"no archive at all", b"PK\x03\x04 cut off"])
def test_a_broken_npz_is_called_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "own.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"own\.npz cannot be read: it is not a file of numpy"):
        load_file(tmp_path / "own.npz", "y")


def test_parts_of_a_date_are_a_time(tmp_path: Path) -> None:
    path = _write(tmp_path, "Year,month,day,hour,a,y\n2024,1,2,5,1,0.5\n2024,1,1,23,2,1.5\n")
    data = load_file(path, "y", time_column="Year,month,day,hour", scaling="none")
    assert (data.feature_names, data.y.tolist()) == (("a",), [1.5, 0.5])
    assert data.time is not None
    assert np.diff(data.time).tolist() == [6 * 3600]
    with pytest.raises(DataError, match="`time_column` month,day must be parts of a date"):
        load_file(path, "y", time_column="month,day")


def test_what_is_missing_can_be_kept(tmp_path: Path) -> None:
    path = _write(tmp_path, "a,b,y\n1,x,0.5\n,y,1.5\ninf,,2.5\n3,x,\n")
    data = load_file(path, "y", missing="keep", scaling="none")
    np.testing.assert_array_equal(data.x[:, 0], [1.0, np.nan, np.nan])
    assert (len(data), data.gaps) == (3, True)
