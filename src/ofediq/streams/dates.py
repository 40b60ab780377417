"""When a row was taken: numbers, dates in one of the usual ways to write them, or the parts of a date."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ofediq.arrays import Floats
from ofediq.errors import DataError, extra
from ofediq.streams.cells import SINCE_1970, clock_unit, time_of_day
from ofediq.streams.columns import is_date, is_number, is_truth, numbers
from ofediq.streams.written import WAYS, WHOLE

# A column is a time if so many of its cells are; a row whose cell is none has no time.
_MOSTLY = 0.9
_DIFFERENT = 3  # numbers that are dates, at least
_TRIED = 200  # cells that a way to write dates is tried on first
_PERHAPS = re.compile(r"\s*(\w{1,9}\W+\w{1,4}\W.*\d|[A-Za-z]{3,9}\W\d{4}\s*)")
_NAMES = re.compile(r"(?i)time|date|epoch|when|\bts\b")  # of columns whose numbers may be seconds since 1970
_HOUR_NAMES = ("hr", "hour", "hours")


def moments_of(column: Any) -> Floats:
    """The moment of each row: numbers as they are, dates as seconds since 1970; NaN for a cell that is none.

    Numbers that are milli-, micro- or nanoseconds since 1970, between 2000 and 2100, become seconds, and so do those
    that are all dates, such as 20240131.

    Dates are ISO 8601, or day, month and year in one order throughout. Whether 3/4 is in March or in April is told by
    the other rows; if they cannot tell, nobody can.

    >>> import pandas
    >>> moments_of(pandas.Series(["31/01/1970 12:00", "01/02/1970 00:00"])).tolist()
    [2635200.0, 2678400.0]
    """
    if is_number(column):
        moments = numbers(column)
        dates = _whole_dates(moments)
        return _in_seconds(moments) if dates is None else dates
    found = _read_dates(column)
    known = np.asarray(column.notna())
    if found is None or np.isfinite(found)[known].mean() < _MOSTLY:
        raise DataError(
            f"`time_column` {column.name!r} must hold numbers or ISO 8601 dates, got {column[known].iloc[0]!r}, ..."
        )
    return found


def dates_of(frame: Any) -> Floats:
    """The moment of each row from the parts of a date: seconds since 1970.

    The parts are year, month, day, hour and so on, or a date and a time of day.

    >>> import pandas
    >>> dates_of(pandas.DataFrame({"Date": ["1970-01-02"] * 2, "Time": ["00:30", "18.00.00"]})).tolist()
    [88200.0, 151200.0]
    """
    pandas = extra("pandas", "sim")
    if frame.shape[1] == 2 and is_time_of_day(frame.iloc[:, 1]):
        return moments_of(frame.iloc[:, 0]) + _times(frame.iloc[:, 1])
    parts = frame.rename(columns=lambda name: str(name).lower())
    names = ",".join(map(str, frame.columns))
    try:
        found = _seconds(pandas.to_datetime(parts, errors="coerce"))
    except (ValueError, KeyError) as error:
        raise DataError(
            f"`time_column` {names} must be parts of a date (year, month, day, hour, ...): {error}"
        ) from None
    if np.isfinite(found).mean() < _MOSTLY:
        raise DataError(
            f"`time_column` {names} must be parts of a date, got {tuple(map(str, frame.iloc[0]))}, ..."
        )
    return found


def is_time_of_day(column: Any) -> bool:
    """Whether a column holds times of a day, without the day: texts, or whole hours in a column of that name.

    >>> import pandas
    >>> [is_time_of_day(pandas.Series([0, 13, 23], name=name)) for name in ("hr", "Hour", "age")]
    [True, True, False]
    """
    if is_truth(column) or is_date(column) or not column.notna().any():
        return False
    if is_number(column) and str(column.name).lower() not in _HOUR_NAMES:
        return False
    head = column[column.notna()].iloc[:_TRIED]
    return bool(np.isfinite(_times(head)).mean() >= _MOSTLY and np.isfinite(_times(column)).mean() >= _MOSTLY)


def is_whole_days(column: Any) -> bool:
    """Whether a column of dates says no hour."""
    moments = moments_of(column)
    return bool((moments[np.isfinite(moments)] % 86_400 == 0).all())


def is_clock(column: Any) -> bool:
    """Whether a column holds dates: as such, as texts, or as numbers such as 20240131.

    Numbers of seconds since 1970 are a clock, too, from 2000 to 2100 and in a column whose name says so.

    >>> import pandas
    >>> is_clock(pandas.Series(["2024-01-01 10:00", "2024-01-02 11:30"])), is_clock(pandas.Series(["eco", "full"]))
    (True, False)
    """
    if is_date(column):
        return True
    if is_number(column):
        return _are_dates(column)
    if is_truth(column) or not column.notna().any():
        return False
    try:
        moments_of(column)
    except (DataError, TypeError):
        return False
    return True


def _times(column: Any) -> Floats:
    return np.array([time_of_day(f"{cell:g}" if isinstance(cell, float) else str(cell)) for cell in column])


def _read_dates(column: Any) -> Floats | None:
    """Seconds since 1970, NaN where a cell is no date; None where no way to write dates fits, or two do."""
    pandas = extra("pandas", "sim")
    if is_date(column):
        return _seconds(pandas.to_datetime(column, utc=True))
    found = _seconds(pandas.to_datetime(column, format="ISO8601", utc=True, errors="coerce"))
    known = column.notna()
    share = float(np.isfinite(found)[known.to_numpy()].mean())
    head = column[known].iloc[:_TRIED]
    if share >= _MOSTLY or head.map(lambda cell: bool(_PERHAPS.match(str(cell)))).mean() < _MOSTLY:
        return found if share >= _MOSTLY else None
    fitting = [way for way in WAYS if _written(head, way).notna().mean() >= _MOSTLY / 2]
    read = {way: _seconds(_written(column, way)) for way in fitting}
    counts = {way: np.isfinite(moments).sum() for way, moments in read.items()}
    best = [way for way, count in counts.items() if count == max(counts.values())]
    if len({read[way].tobytes() for way in best}) != 1:
        return None
    return read[best[0]]


def _are_dates(column: Any) -> bool:
    """Whether numbers are dates, or seconds since 1970 in a column whose name says so."""
    values = numbers(column)
    if _whole_dates(values) is not None:
        return True
    moments = _in_seconds(values)
    known = moments[np.isfinite(moments)]
    return bool(
        len(known)
        and _NAMES.search(str(column.name).replace("_", " "))
        and ((known >= SINCE_1970[0]) & (known <= SINCE_1970[1])).all()
    )


def _whole_dates(values: Floats) -> Floats | None:
    """Seconds since 1970 of numbers whose digits are dates between 1900 and 2100; None unless all are, and differ."""
    pandas = extra("pandas", "sim")
    known = values[np.isfinite(values)]
    digits = len(f"{known[0]:.0f}") if len(known) else 0
    if digits not in WHOLE or (known != np.round(known)).any() or (known < 0).any():
        return None
    whole = np.unique(known).astype(np.int64)
    years = whole // 10 ** (digits - 4)
    if len(whole) < _DIFFERENT or years[0] < 1900 or years[-1] > 2100:
        return None
    read = _seconds(
        pandas.to_datetime(pandas.Series(whole.astype(str)), format=WHOLE[digits], utc=True, errors="coerce")
    )
    if np.isnan(read).any():
        return None
    return np.where(
        np.isfinite(values),
        read[np.searchsorted(whole, np.nan_to_num(values)).clip(max=len(whole) - 1)],
        np.nan,
    )


def _in_seconds(moments: Floats) -> Floats:
    """Finer units of the time since 1970 as seconds; any other number as it is."""
    known = moments[np.isfinite(moments)]
    return moments / clock_unit(float(np.median(known))) if len(known) else moments


def _written(column: Any, way: str) -> Any:
    return extra("pandas", "sim").to_datetime(column.astype(str), format=way, utc=True, errors="coerce")


def _seconds(dates: Any) -> Floats:
    known = dates.notna().to_numpy()
    microseconds = dates.to_numpy(dtype="datetime64[us]").astype(np.int64)  # nanoseconds end in 2262
    return np.where(known, microseconds / 1e6, np.nan)
