from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas
import pytest

from ofediq.errors import DataError
from ofediq.streams import load_own
from ofediq.streams.dates import is_clock, moments_of

MOMENTS = [datetime(2024, 1, 1, tzinfo=UTC).timestamp() + 3600 * 7 * hour for hour in range(60)]


def _written(way: str) -> pandas.Series:
    return pandas.Series(
        [datetime.fromtimestamp(moment, UTC).strftime(way) for moment in MOMENTS], name="when"
    )


@pytest.mark.parametrize(
    "way",
    [
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y-%m-%d %H:%M+00:00",
        "%d.%m.%Y %H:%M",
        "%d/%m/%Y %H:%M:%S",
        "%m/%d/%Y %I:%M %p",
        "%d-%b-%Y %H:%M",
        "%b %d %Y %H:%M",
        "%m/%d/%y %H:%M",
    ],
)
def test_the_usual_ways_to_write_a_date(way: str) -> None:
    np.testing.assert_array_equal(moments_of(_written(way)), MOMENTS)


def test_zones_that_change_from_row_to_row() -> None:
    column = pandas.Series(["2024-01-01T12:00+02:00", "2024-01-01T12:00-05:00"])
    assert np.diff(moments_of(column)).tolist() == [7 * 3600]


@pytest.mark.parametrize("day", ["%Y-%m-%d", "%d/%m/%Y"])
@pytest.mark.parametrize("hour", ["%H:%M", "%H.%M.%S", "%I:%M %p"])
def test_a_date_and_a_time_of_day_in_two_columns(day: str, hour: str, tmp_path: Path) -> None:
    frame = pandas.DataFrame({"Date": _written(day), "Time": _written(hour), "load": np.arange(60.0)})
    frame.iloc[::-1].to_csv(tmp_path / "plant.csv", index=False)
    own = load_own(tmp_path / "plant.csv", "load")
    assert own.time_column == "Date,Time"
    np.testing.assert_array_equal(own.dataset.time, MOMENTS)
    np.testing.assert_array_equal(np.diff(own.dataset.y) > 0, True)


def test_a_date_and_whole_hours_in_two_columns(tmp_path: Path) -> None:
    day, hour = _written("%Y-%m-%d"), [float(text) for text in _written("%H")]
    frame = pandas.DataFrame({"dteday": day, "temp": 0.5, "hr": hour, "cnt": np.arange(60.0)})
    frame.loc[7, "hr"] = np.nan  # whole hours with a gap are floats
    frame.iloc[::-1].to_csv(tmp_path / "hires.csv", index=False)
    own = load_own(tmp_path / "hires.csv", "cnt")
    assert (own.time_column, own.dataset.feature_names, own.dropped) == ("dteday,hr", ("temp",), 1)
    np.testing.assert_array_equal(own.dataset.time, np.delete(MOMENTS, 7))


def test_hours_beside_dates_that_have_them_are_no_clock(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"when": _written("%Y-%m-%d %H:%M"), "opens": "08:00", "load": np.arange(60.0)})
    frame.to_csv(tmp_path / "plant.csv", index=False)
    assert load_own(tmp_path / "plant.csv", "load").time_column == "when"


def test_days_that_may_be_months_are_not_guessed() -> None:
    column = pandas.Series(["03/04/2024", "05/06/2024", "07/08/2024"], name="when")
    assert not is_clock(column)
    with pytest.raises(
        DataError, match="`time_column` 'when' must hold numbers or ISO 8601 dates, got '03/04/2024'"
    ):
        moments_of(column)


@pytest.mark.parametrize(
    "texts",
    [
        ["eco", "full"],
        ["1-2", "3-4"],
        ["10.0.0.1", "10.0.0.2"],
        ["a 1 b 2", "c 3 d 4"],
        ["type 2014", "type 2015"],
    ],
)
def test_other_texts_are_no_time(texts: list[str]) -> None:
    assert not is_clock(pandas.Series(texts))


def test_months_of_a_year_are_a_time() -> None:
    months = pandas.Series(["Dec-2014", "Jan-2015"])
    assert moments_of(months).tolist() == [1_417_392_000.0, 1_420_070_400.0]


@pytest.mark.parametrize("way", ["%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S"])
def test_numbers_whose_digits_are_dates(way: str) -> None:
    column = pandas.to_numeric(_written(way))
    told = [datetime.strptime(text, way).replace(tzinfo=UTC).timestamp() for text in _written(way)]
    assert is_clock(column)
    np.testing.assert_array_equal(moments_of(column), told)
    assert not is_clock((column + 90).rename("code"))  # the 91st and later
    column = column.astype(float)
    column[3] = np.nan
    assert np.isnan(moments_of(column)[3])


@pytest.mark.parametrize(
    ("name", "unit", "clock"),
    [("timestamp", 1e3, True), ("event_ts", 1, True), ("when", 1, True), ("mass", 1, False)],
)
def test_seconds_since_1970_are_a_clock_where_their_name_says_so(name: str, unit: float, clock: bool) -> None:
    column = pandas.Series(MOMENTS, name=name) * unit
    assert is_clock(column) == clock
    assert not is_clock(column / 1e4)
    assert not is_clock(pandas.Series([np.nan, np.nan], name=name))
    np.testing.assert_array_equal(moments_of(column), MOMENTS)


def test_dates_beyond_what_nanoseconds_can_say() -> None:
    found = moments_of(pandas.Series(["1850-01-01", "9999-12-31", "2024-01-01"]))
    np.testing.assert_array_equal(found, [-3_786_825_600.0, 253_402_214_400.0, 1_704_067_200.0])


def test_a_row_without_a_readable_date_is_left_out(tmp_path: Path) -> None:
    when = _written("%d.%m.%Y %H:%M")
    when[5], when[9] = "yesterday", None
    frame = pandas.DataFrame({"when": when, "heat": range(60), "y": np.arange(60) + 0.5})
    frame.to_csv(tmp_path / "own.csv", index=False)
    own = load_own(tmp_path / "own.csv", "y")
    assert (own.time_column, own.dropped) == ("when", 2)
    assert own.dataset.time is not None
    np.testing.assert_array_equal(own.dataset.time, np.delete(MOMENTS, [5, 9]))


def test_parts_of_a_date_that_is_none_are_left_out(tmp_path: Path) -> None:
    rows = [f"2024,1,{day},{day}.5" for day in range(1, 30)] + ["2024,2,31,0.5"]
    (tmp_path / "own.csv").write_text("year,month,day,y\n" + "\n".join(rows))
    own = load_own(tmp_path / "own.csv", "y")
    assert (own.time_column, own.dropped, len(own.dataset)) == ("year,month,day", 1, 29)
