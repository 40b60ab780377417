"""Turn columns of a table into arrays: targets, features, clients, time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ofediq.errors import DataError, extra
from ofediq.streams.dataset import UNKNOWN_LABEL, Task

# A target of whole numbers with at most this many different ones is taken for labels.
FEW_LABELS = 20
MOST_LABELS = 1_000
# A text column with more different values than this is not a category.
MOST_CATEGORIES = 50


class Target(NamedTuple):
    """An encoded target column: labels 0..classes-1 with their names, or float targets without."""

    y: NDArray[Any]
    task: Task
    label_names: tuple[str, ...]


def encode_target(column: Any, task: str) -> Target:
    """Encode a target column; with `task` "auto", text, truth values and few whole numbers are labels."""
    numeric = _is_number(column)
    if task == "auto":
        task = "classification" if not numeric or _few_whole_numbers(column) else "regression"
    if task == "regression":
        if not numeric:
            raise DataError(f"`target` column {column.name!r} must hold numbers for a regression")
        return Target(numbers(column), "regression", ())
    codes, names = _codes(column)
    if not 2 <= len(names) <= MOST_LABELS:
        raise DataError(
            f"`target` column {column.name!r} must hold 2 to {MOST_LABELS} different labels for a "
            f"classification, got {len(names)}"
        )
    return Target(codes, "classification", names)


def encode_features(frame: Any) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The columns of `frame` as numbers [samples, features]; text columns become one column per value."""
    parts: list[NDArray[np.float64]] = []
    names: list[str] = []
    for name in frame.columns:
        column = frame[name]
        if _is_number(column) or _is_truth(column):
            parts.append(numbers(column)[:, None])
            names.append(name)
            continue
        codes, values = _codes(column)
        if len(values) > MOST_CATEGORIES or _is_date(column):
            raise DataError(
                f"column {name!r} is neither numbers nor a category of at most {MOST_CATEGORIES} values (it has "
                f"{len(values)}): choose other columns with `features`, or use it as time or client column"
            )
        parts.append(np.eye(len(values))[codes])
        names.extend(f"{name}={value}" for value in values)
    return np.concatenate(parts, axis=1), tuple(names)


def encode_clients(column: Any) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Client ids 0..ids-1 in the sorted order of their names, and the names."""
    codes, names = _codes(column)
    return codes.astype(np.int32), names


def moments_of(column: Any) -> NDArray[np.float64]:
    """The moment of each row: numbers as they are, dates as seconds since 1970."""
    if _is_number(column):
        return numbers(column)
    pandas = extra("pandas", "sim")
    try:
        dates = pandas.to_datetime(column, format=None if _is_date(column) else "ISO8601", utc=True)
    except ValueError:
        raise DataError(
            f"`time_column` {column.name!r} must hold numbers or ISO 8601 dates, got {column.iloc[0]!r}, ..."
        ) from None
    nanoseconds = dates.to_numpy(dtype="datetime64[ns]").astype(np.int64)
    return np.asarray(nanoseconds / 1e9)


def dates_of(frame: Any) -> NDArray[np.float64]:
    """The moment of each row from the parts of a date, such as year, month, day, hour: seconds since 1970."""
    parts = frame.rename(columns=lambda name: str(name).lower())
    try:
        return moments_of(extra("pandas", "sim").to_datetime(parts))
    except (ValueError, KeyError) as error:
        names = ",".join(map(str, frame.columns))
        raise DataError(
            f"`time_column` {names} must be parts of a date (year, month, day, hour, ...): {error}"
        ) from None


def is_clock(column: Any) -> bool:
    """Whether a column holds dates: as such, or as ISO 8601 texts.

    >>> import pandas
    >>> is_clock(pandas.Series(["2024-01-01 10:00", "2024-01-02 11:30"])), is_clock(pandas.Series(["eco", "full"]))
    (True, False)
    """
    if _is_date(column):
        return True
    if _is_number(column) or _is_truth(column) or not len(column):
        return False
    try:
        moments_of(column)
    except (DataError, TypeError):
        return False
    return True


def is_feature(column: Any) -> bool:
    """Whether a column can be a feature: numbers, truth values, or a category; not if it is empty."""
    if column.isna().all():
        return False
    if _is_number(column) or _is_truth(column):
        return True
    return not _is_date(column) and len(_codes(column)[1]) <= MOST_CATEGORIES


def previous_targets(y: NDArray[Any], client_ids: NDArray[Any] | None) -> NDArray[Any]:
    """The target before each sample, of the same client if there are clients; -1 or NaN for the first one.

    >>> previous_targets(np.array([5.0, 6.0, 7.0]), np.array([0, 1, 0])).tolist()
    [nan, nan, 5.0]
    """
    unknown = np.nan if y.dtype.kind == "f" else UNKNOWN_LABEL
    ids = np.zeros(len(y), dtype=np.int32) if client_ids is None else client_ids
    by_client = np.argsort(ids, kind="stable")
    shifted = np.concatenate([[unknown], y[by_client][:-1]])
    starts = np.concatenate([[True], np.diff(ids[by_client]) != 0])
    previous = np.empty_like(shifted)
    previous[by_client] = np.where(starts, unknown, shifted)
    return previous


def missing_rows(column: Any) -> NDArray[np.bool_]:
    """Where a column has no value, or an infinite one."""
    missing: NDArray[np.bool_] = column.isna().to_numpy(dtype=np.bool_)
    if _is_number(column):
        missing = missing | np.isinf(numbers(column))
    return missing


def numbers(column: Any) -> NDArray[np.float64]:
    """A column of numbers as floats."""
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _codes(column: Any) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    pandas = extra("pandas", "sim")
    values = column if _is_number(column) or _is_truth(column) else column.astype(str)
    codes, distinct = pandas.factorize(values, sort=True)
    return codes, tuple(_text(value) for value in distinct)


def _text(value: Any) -> str:
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


def _few_whole_numbers(column: Any) -> bool:
    values = np.unique(numbers(column))
    return len(values) <= FEW_LABELS and bool((values == np.round(values)).all())


def _is_truth(column: Any) -> bool:
    return bool(extra("pandas", "sim").api.types.is_bool_dtype(column))


def _is_number(column: Any) -> bool:
    types = extra("pandas", "sim").api.types
    return bool(types.is_numeric_dtype(column)) and not _is_truth(column)


def _is_date(column: Any) -> bool:
    return bool(extra("pandas", "sim").api.types.is_datetime64_any_dtype(column))
