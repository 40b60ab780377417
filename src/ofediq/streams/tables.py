"""Read a CSV, Parquet or npz file into named columns of equal length."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ofediq.errors import DataError, extra

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".npz")
_NAMES_SHOWN = 30
_SEPARATORS = (";", "\t")


@dataclass(frozen=True)
class Table:
    """The content of a data file.

    Attributes:
        path: the file.
        frame: a pandas frame of the one-dimensional columns.
        blocks: arrays with more axes (images, windows), by name; only npz files have them.
    """

    path: Path
    frame: Any
    blocks: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All columns and blocks."""
        return (*self.frame.columns, *self.blocks)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def take(self, rows: NDArray[Any]) -> Table:
        """The given rows, in the given order."""
        blocks = {name: block[rows] for name, block in self.blocks.items()}
        return replace(self, frame=self.frame.iloc[rows].reset_index(drop=True), blocks=blocks)

    def require(self, argument: str, name: str, among: Sequence[str] | None = None) -> str:
        """`name` if it is a column, else a `DataError` that lists the columns."""
        if name in (self._known if among is None else among):
            return name
        known = self.names if among is None else among
        shown = ", ".join(known[:_NAMES_SHOWN]) + (", ..." if len(known) > _NAMES_SHOWN else "")
        raise DataError(f"`{argument}` must be a column of {self.path.name} ({shown}), got {name!r}")


def read_table(path: str | Path) -> Table:
    """The table in `path`; its suffix says how it is written."""
    path = Path(path)
    kind = path.suffix.lower()
    if not path.name.lower().endswith(SUFFIXES):
        raise DataError(f"`path` must end in {', '.join(SUFFIXES)}, got {path.name!r}")
    if not path.is_file():
        raise DataError(f"`path` must be a file, got {str(path)!r}")
    try:
        table = _read_npz(path) if kind == ".npz" else Table(path, _read_frame(path, kind), {})
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path.name} cannot be read: {_first_line(error)}") from error
    if len(table) == 0:
        raise DataError(f"{path.name} has no rows")
    return table


def _read_frame(path: Path, kind: str) -> Any:
    pandas = extra("pandas", "sim")
    if kind != ".parquet":
        return _named(_read_csv(path))
    frame = pandas.read_parquet(path)
    return _named(frame.reset_index() if frame.index.name is not None else frame)


def _read_csv(path: Path) -> Any:
    """A CSV with commas; else with semicolons or tabs, and the decimal sign that makes more columns numbers."""
    pandas = extra("pandas", "sim")
    frame = pandas.read_csv(path, low_memory=False)
    if len(frame.columns) > 1:
        return frame
    for separator in _SEPARATORS:
        if separator in str(frame.columns[0]):
            readings = [
                pandas.read_csv(path, sep=separator, decimal=decimal, low_memory=False) for decimal in ".,"
            ]
            return max(readings, key=lambda one: one.select_dtypes("number").shape[1])
    return frame


def _named(frame: Any) -> Any:
    return frame.rename(columns=str)


def _read_npz(path: Path) -> Table:
    if not zipfile.is_zipfile(path) and path.read_bytes()[:6] != np.lib.format.MAGIC_PREFIX:
        raise DataError(f"{path.name} cannot be read: it is not an npz archive, or only the beginning of one")
    loaded = np.load(path, allow_pickle=False)
    if not isinstance(loaded, np.lib.npyio.NpzFile):
        raise DataError(f"{path.name} holds a single array without a name, not an npz archive")
    with loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    lengths = {name: array.shape[0] if array.ndim else None for name, array in arrays.items()}
    if len(set(lengths.values())) != 1 or None in lengths.values():
        sizes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise DataError(f"the arrays of {path.name} must have one row per sample, got {sizes or 'none'}")
    columns = {name: array for name, array in arrays.items() if array.ndim == 1}
    blocks = {name: array for name, array in arrays.items() if array.ndim > 1}
    index = range(next(iter(lengths.values())) or 0)
    return Table(path, extra("pandas", "sim").DataFrame(columns, index=index), blocks)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
