"""`load_file`: the user's own data as a `Dataset`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from ofediq.arrays import Flags, Floats, Numbers
from ofediq.errors import DataError, require, require_choice, require_kind
from ofediq.streams.columns import (
    encode_clients,
    encode_features,
    encode_target,
    missing_rows,
    numbers,
    previous_targets,
)
from ofediq.streams.dataset import TASKS, Dataset
from ofediq.streams.dates import dates_of, moments_of
from ofediq.streams.scaling import FITTED, fit_scaler, target_scaler
from ofediq.streams.tables import Table, read_table

_COLUMNS_SHOWN = 5


def load_file(
    path: str | Path | Table,
    target: str,
    *,
    client_column: str | None = None,
    time_column: str | None = None,
    features: Sequence[str] | None = None,
    task: Literal["auto", "classification", "regression"] = "auto",
    scaling: Literal["auto", "none", "minmax", "standard"] = "auto",
    scaling_fit: float = 1.0,
    missing: Literal["error", "drop", "keep"] = "error",
) -> Dataset:
    r"""The samples in a CSV (with a header; commas, semicolons or tabs), Parquet or npz file.

    Arguments:
        path: a file that ends in .csv, .tsv or .txt, or these and .gz, in .parquet or .npz; or what `read_table` made
            of it.
        target: the column to predict.
        client_column: whose sample it is; deal with `partition(..., kind="column")`.
        time_column: numbers or dates (`ofediq.streams.dates`) that the rows are sorted by, or parts of a date with
            commas between them, "Date,Time" or "year,month,day,hour". With it, the dataset knows when each sample was
            taken and which target came before it (of the same client).
        features: the columns to predict from; by default all others, or the one array with several axes of an
            npz file. Text columns of up to 50 values become one column per value.
        task: "auto" takes text, truth values and up to 20 different whole numbers for labels, anything else for
            a regression.
        scaling: of the features: "auto" is "minmax", per column to [0, 1]; "standard", mean 0 and variance 1;
            "none". Targets of a regression are mapped to [0, 1], except with "none".
        scaling_fit: the share of rows, from the first one, that scaling may look at; all of them peeks at the
            future.
        missing: "drop" leaves out rows with missing or infinite values in the columns used; "error" names them;
            "keep" leaves out rows without target, client or time only, and features stay NaN (`Dataset.gaps`), for
            `ofediq.streams.features`; then there may also be none, for a target that is learnt from its own past.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "plant.csv"
    ...     _ = path.write_text("sensor,heat,state\nA,10,ok\nB,30,hot\nA,20,ok\n")
    ...     data = load_file(path, target="state", client_column="sensor")
    >>> data.x.ravel().tolist(), data.y.tolist(), data.label_names, data.client_ids.tolist()
    ([0.0, 1.0, 0.5], [1, 0, 1], ('hot', 'ok'), [0, 1, 0])
    """
    require_choice("task", task, ("auto", *TASKS))
    require_choice("scaling", scaling, ("auto", *FITTED))
    require_choice("missing", missing, ("error", "drop", "keep"))
    table = path if isinstance(path, Table) else read_table(path)
    clock = _clock_columns(table, time_column)
    chosen = _feature_columns(table, target, client_column, clock, features, alone=missing == "keep")
    needed = [target, *clock[:1], *([] if client_column is None else [client_column])]
    used, rule = (needed, "drop") if missing == "keep" else ([*chosen, *needed], missing)
    table, time = _in_time_order(_complete_rows(_with_moments(table, clock), used, rule), clock)
    encoded = encode_target(table.frame[target], task)
    ids, client_names = (None, ()) if client_column is None else encode_clients(table.frame[client_column])
    x, feature_names = _features(table, chosen)
    if missing == "keep":
        x = np.where(np.isinf(x), np.nan, x)
    kind = "minmax" if scaling == "auto" else scaling
    scaler = target_scaler(encoded.y, encoded.task, kind, scaling_fit)
    return Dataset(
        table.path.name,
        x=fit_scaler(x, kind, scaling_fit).apply(x),
        y=scaler.apply(encoded.y),
        task=encoded.task,
        classes=len(encoded.label_names) or None,
        previous=None if time_column is None else scaler.apply(previous_targets(encoded.y, ids)),
        time=time,
        client_ids=ids,
        feature_names=feature_names,
        label_names=encoded.label_names,
        client_names=client_names,
        target_name=target,
        target_range=scaler.range,
        scaling=kind,
        gaps=missing == "keep",
    )


def _clock_columns(table: Table, time_column: str | None) -> list[str]:
    """The columns that say when a row was taken: one, or the parts of a date."""
    columns = tuple(table.frame.columns)
    if time_column is None:
        return []
    require_kind(str, "time_column", time_column)
    names = [time_column] if time_column in columns else [name.strip() for name in time_column.split(",")]
    return [table.require_one("time_column", name) for name in names]


def _with_moments(table: Table, clock: Sequence[str]) -> Table:
    """`table` with the moment of each row in place of the first column of its clock; NaN where there is none."""
    if not clock:
        return table
    frame = table.frame
    moments = moments_of(frame[clock[0]]) if len(clock) == 1 else dates_of(frame[list(clock)])
    return replace(table, frame=frame.assign(**{clock[0]: moments}))


def _in_time_order(table: Table, clock: Sequence[str]) -> tuple[Table, Floats | None]:
    """The rows by their moments, equal ones in the order of the file, and these; as they are without a clock."""
    if not clock:
        return table, None
    moments = numbers(table.frame[clock[0]])
    rows = np.argsort(moments, kind="stable")
    return table.take(rows), moments[rows]


def _feature_columns(
    table: Table,
    target: str,
    client_column: str | None,
    clock: Sequence[str],
    features: Sequence[str] | None,
    alone: bool,
) -> list[str]:
    table.require_one("target", target)
    taken = {target, *clock}
    if client_column is not None:
        taken.add(table.require_one("client_column", client_column))
    for argument, used in (("client_column", [client_column]), ("time_column", clock)):
        if target in used:
            raise DataError(f"`{argument}` must be another column than the target, got {target!r}")
    if features is None:
        return _default_features(table, taken)
    require(isinstance(features, Iterable), "features", "must be names of columns", features)
    chosen = [features] if isinstance(features, str) else list(features)
    if alone and not chosen:
        return []
    for name in chosen:
        table.require("features", name)
    if not chosen or target in chosen:
        raise DataError(
            f"`features` must be at least one column other than the target {target!r}, got {chosen}"
        )
    if len(chosen) > 1 and any(name in table.blocks for name in chosen):
        raise DataError(f"`features` must be one array with several axes or columns, got {chosen}")
    return chosen


def _default_features(table: Table, taken: set[str]) -> list[str]:
    if len(table.blocks) > 1:
        raise DataError(
            f"{table.path.name} has several arrays with several axes ({', '.join(table.blocks)}): "
            f"choose one with `features`"
        )
    chosen = list(table.blocks) or [name for name in table.frame.columns if name not in taken]
    if not chosen:
        raise DataError(f"{table.path.name} has no columns beside {', '.join(sorted(taken))} to learn from")
    return chosen


def _complete_rows(table: Table, used: list[str], missing: str) -> Table:
    gaps = {name: _gaps(table, name) for name in used}
    counts = {name: int(gap.sum()) for name, gap in gaps.items() if gap.any()}
    if not counts:
        return table
    shown = ", ".join(f"{name!r} ({count})" for name, count in list(counts.items())[:_COLUMNS_SHOWN])
    more = ", ..." if len(counts) > _COLUMNS_SHOWN else ""
    where = f"missing or infinite values in columns {shown}{more} of {table.path.name} ({len(table)} rows)"
    if missing == "error":
        raise DataError(f"{where}; `missing` = 'drop' leaves these rows out")
    complete = ~np.logical_or.reduce(list(gaps.values()))
    if not complete.any():
        raise DataError(f"no row is complete: {where}")
    return table.take(np.flatnonzero(complete))


def _gaps(table: Table, name: str) -> Flags:
    if name in table.frame:
        return missing_rows(table.frame[name])
    finite = np.isfinite(_block(table, name)).reshape(len(table), -1)
    return np.asarray(~finite.all(axis=1))


def _features(table: Table, chosen: list[str]) -> tuple[Numbers, tuple[str, ...]]:
    if not chosen:
        return np.zeros((len(table), 0)), ()
    if chosen[0] in table.blocks:
        return _block(table, chosen[0]).astype(np.float64), ()
    return encode_features(table.frame[chosen])


def _block(table: Table, name: str) -> Numbers:
    block = table.blocks[name]
    if block.dtype.kind not in "iufb":
        raise DataError(f"array {name!r} of {table.path.name} must hold numbers, got {block.dtype}")
    return block
