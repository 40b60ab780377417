"""Turn columns of a table into arrays: targets, features, clients, time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Flags, Floats, Numbers
from ofediq.errors import DataError, extra
from ofediq.streams.dataset import UNKNOWN_LABEL, Task

# A target of whole numbers with at most this many different ones is taken for labels.
FEW_LABELS = 20
MOST_LABELS = 1_000
# A text column with more different values than this is not a category.
MOST_CATEGORIES = 50


class Target(NamedTuple):
    """An encoded target column: labels 0..classes-1 with their names, or float targets without."""

    y: Numbers
    task: Task
    label_names: tuple[str, ...]


def encode_target(column: Any, task: str) -> Target:
    """Encode a target column; with `task` "auto", text, truth values and few whole numbers are labels."""
    numeric = is_number(column)
    if not numeric and not _is_category(column):
        raise DataError(f"`target` column {column.name!r} must hold numbers or labels, got {_kind(column)}")
    unlike = task == "auto" and not numeric
    if task == "auto":
        task = "classification" if not numeric or _few_whole_numbers(column) else "regression"
    if task == "regression":
        if not numeric:
            raise DataError(f"`target` column {column.name!r} must hold numbers for a regression")
        return Target(numbers(column), "regression", ())
    codes, names = _codes(column)
    if unlike and len(names) > max(FEW_LABELS, len(codes) // 2):
        raise DataError(
            f"`target` column {column.name!r} must hold numbers, or labels that come again, got {len(names)} "
            f"different texts in {len(codes)} rows, such as {names[0]!r}"
        )
    if not 2 <= len(names) <= MOST_LABELS:
        raise DataError(
            f"`target` column {column.name!r} must hold 2 to {MOST_LABELS} different labels for a "
            f"classification, got {len(names)}"
        )
    return Target(codes, "classification", names)


def encode_features(frame: Any) -> tuple[Floats, tuple[str, ...]]:
    """The columns of `frame` as numbers [samples, features]; text columns become one column per value."""
    parts: list[Floats] = []
    names: list[str] = []
    for name in frame.columns:
        column = frame[name]
        if is_number(column) or is_truth(column):
            parts.append(numbers(column)[:, None])
            names.append(name)
            continue
        codes, values = _codes(column) if _is_category(column) else (np.zeros(0, np.int64), ())
        if len(values) > MOST_CATEGORIES or not _is_category(column):
            raise DataError(
                f"column {name!r} is neither numbers nor a category of at most {MOST_CATEGORIES} values (it has "
                f"{len(values)}): choose other columns with `features`, or use it as time or client column"
            )
        parts.append(
            (codes[:, None] == np.arange(len(values))).astype(np.float64)
        )  # a missing one is none of them
        names.extend(f"{name}={value}" for value in values)
    return np.concatenate(parts, axis=1), tuple(names)


def encode_clients(column: Any) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Client ids 0..ids-1 in the sorted order of their names, and the names."""
    codes, names = _codes(column)
    return codes.astype(np.int32), names


def is_feature(column: Any) -> bool:
    """Whether a column can be a feature: numbers, truth values, or a category; not if it is empty."""
    if column.isna().all():
        return False
    if is_number(column) or is_truth(column):
        return True
    return _is_category(column) and len(_codes(column)[1]) <= MOST_CATEGORIES


def previous_targets(y: Numbers, client_ids: Numbers | None) -> Numbers:
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


def missing_rows(column: Any) -> Flags:
    """Where a column has no value, or an infinite one."""
    missing: Flags = column.isna().to_numpy(dtype=np.bool_)
    if is_number(column):
        missing = missing | np.isinf(numbers(column))
    return missing


def numbers(column: Any) -> Floats:
    """A column of numbers as floats."""
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _codes(column: Any) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    pandas = extra("pandas", "sim")
    values = column if is_number(column) or is_truth(column) else column.map(str, na_action="ignore")
    codes, distinct = pandas.factorize(values, sort=True)
    return codes, tuple(_text(value) for value in distinct)


def _text(value: Any) -> str:
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


def _few_whole_numbers(column: Any) -> bool:
    values = np.unique(numbers(column))
    return len(values) <= FEW_LABELS and bool((values == np.round(values)).all())


def is_truth(column: Any) -> bool:
    """Whether a column holds truth values."""
    return bool(extra("pandas", "sim").api.types.is_bool_dtype(column))


def is_number(column: Any) -> bool:
    """Whether a column holds numbers on a line: neither truth values nor complex ones."""
    types = extra("pandas", "sim").api.types
    return (
        bool(types.is_numeric_dtype(column)) and not is_truth(column) and not types.is_complex_dtype(column)
    )


def _is_category(column: Any) -> bool:
    """Whether a column holds texts, truth values or numbers: something that can be the same twice."""
    pandas = extra("pandas", "sim")
    if isinstance(column.dtype, pandas.CategoricalDtype) or is_number(column) or is_truth(column):
        return True
    if not pandas.api.types.is_object_dtype(column) and not pandas.api.types.is_string_dtype(column):
        return False
    return pandas.api.types.infer_dtype(column, skipna=True) in ("string", "mixed-integer", "empty")


def _kind(column: Any) -> str:
    """What a column holds, in a word."""
    inferred = str(extra("pandas", "sim").api.types.infer_dtype(column, skipna=True))
    return {"mixed": "lists or objects"}.get(inferred, inferred)


def is_date(column: Any) -> bool:
    """Whether a column holds dates as such, not as texts."""
    return bool(extra("pandas", "sim").api.types.is_datetime64_any_dtype(column))
