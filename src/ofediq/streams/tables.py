"""Read a CSV, Parquet or npz file into named columns of equal length."""

from __future__ import annotations

import csv
import gzip
import warnings
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from ofediq.arrays import Numbers
from ofediq.errors import DataError, extra, require_kind, require_path
from ofediq.storage import read_arrays
from ofediq.streams.cells import MISSING, encoding_of, header_in, names_in, not_utf8, separator_of
from ofediq.streams.tidy import Unread, tidy

SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet", ".npz")
_NAMES_SHOWN = 30
_PARSER = "Error tokenizing data. C error: "


@dataclass(frozen=True)
class Table:
    """The content of a data file.

    Attributes:
        path: the file.
        frame: a pandas frame of the one-dimensional columns.
        blocks: arrays with more axes (images, windows), by name; only npz files have them.
        unread: cells that are no numbers in columns that are, by column; they count as missing.
        repeated: names that more than one column has; nobody can tell which is meant.
    """

    path: Path
    frame: Any
    blocks: dict[str, Numbers]
    unread: Mapping[str, Unread] = field(default_factory=dict)
    repeated: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All columns and blocks."""
        return (*self.frame.columns, *self.blocks)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def take(self, rows: Numbers) -> Table:
        """The given rows, in the given order."""
        blocks = {name: block[rows] for name, block in self.blocks.items()}
        return replace(self, frame=self.frame.iloc[rows].reset_index(drop=True), blocks=blocks)

    def require_one(self, argument: str, name: str) -> str:
        """`name` if one column of the frame, and no other, is called so; else a `DataError`."""
        require_kind(str, argument, name)
        if name in self.repeated:
            raise DataError(
                f"`{argument}` must be one column of {self.path.name}, got {name!r}, of which it has several"
            )
        return self.require(argument, name, tuple(self.frame.columns))

    def require(self, argument: str, name: str, among: Sequence[str] | None = None) -> str:
        """`name` if it is a column, else a `DataError` that lists the columns."""
        require_kind(str, argument, name)
        if name in (self._known if among is None else among):
            return name
        if name in self.blocks:
            raise DataError(
                f"`{argument}` must have one number per sample, got {name!r} with {list(self.blocks[name].shape)}"
            )
        known = self.names if among is None else among
        shown = ", ".join(known[:_NAMES_SHOWN]) + (", ..." if len(known) > _NAMES_SHOWN else "")
        raise DataError(
            f"`{argument}` must be a column of {self.path.name} ({shown or 'it has none'}), got {name!r}"
        )


def read_table(path: str | Path) -> Table:
    """The table in `path`; its suffix says how it is written."""
    path = require_path("path", path)
    kind = path.suffix.lower()
    if not path.name.lower().endswith(SUFFIXES):
        raise DataError(f"`path` must end in {', '.join(SUFFIXES)}, got {path.name!r}")
    if not path.is_file():
        raise DataError(f"`path` must be a file, got {str(path)!r}")
    try:
        table = _read_npz(path) if kind == ".npz" else _read_frame(path, kind)
    except UnicodeDecodeError as error:
        raise not_utf8(path.name, error) from None
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path.name} cannot be read: {_first_line(error).removeprefix(_PARSER)}") from error
    if len(table) == 0:
        raise DataError(f"{path.name} has no rows")
    frame, unread = tidy(table.frame)
    return replace(table, frame=frame, unread=unread)


def _read_frame(path: Path, kind: str) -> Table:
    if kind != ".parquet":
        return _read_csv(path)
    frame = extra("pandas", "sim").read_parquet(path)
    named = [name for name in frame.index.names if name is not None]
    if named:  # an index with a name is a column; without one it numbers the rows
        frame = frame.reset_index(level=named)
    return Table(path, frame.reset_index(drop=True).rename(columns=str), {})


def _read_csv(path: Path) -> Table:
    """A CSV with commas, semicolons, tabs or bars, and the decimal sign that makes more columns numbers."""
    pandas = extra("pandas", "sim")
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as file:
        head = file.read(1 << 16)
    encoding = encoding_of(path.name, head)
    with opened(path, "rt", encoding=encoding, newline="") as file:
        before, header = header_in(file)
        separator = separator_of(header)
        file.seek(0)
        deque(islice(file, before + 1), 0)
        names = next(csv.reader([header], delimiter=separator), [])
        _require_names(path, names, next(_rows(file, separator), []))
    choices = {"sep": separator, "encoding": encoding, "low_memory": False, "skipinitialspace": True}
    choices |= {
        "skiprows": before,
        "index_col": False,
    }  # else a row with one cell more than the header shifts all others by one
    choices |= {"na_values": sorted(MISSING), "compression": "gzip" if opened is gzip.open else None}
    signs = ".," if separator == ";" else "."
    with warnings.catch_warnings():  # separators at the end of lines are no cells
        warnings.simplefilter("ignore", pandas.errors.ParserWarning)
        readings = [pandas.read_csv(path, decimal=sign, **choices) for sign in signs]
    frame = max(readings, key=lambda one: one.select_dtypes("number").shape[1])
    columns = [str(name).strip() for name in frame.columns]
    if columns[0].startswith("#"):  # names in a comment
        columns[0] = names[0].strip()
    frame = frame.set_axis(columns, axis=1)
    return Table(path, frame, {}, repeated=names_in(names)[1])


def _require_names(path: Path, names: list[str], first: list[str]) -> None:
    """Every cell of a row belongs to a name; empty ones after the last are only separators at the end of lines."""
    if any(cell.strip() for cell in first[len(names) :]):
        raise DataError(
            f"{path.name} cannot be read: its first row has {len(first)} cells, and its header {len(names)} names"
        )


def _rows(file: Any, separator: str) -> Iterator[list[str]]:
    """The rows that csv can read; pandas finds what is wrong with the others."""
    with suppress(csv.Error, UnicodeDecodeError):
        yield from (row for row in csv.reader(file, delimiter=separator, skipinitialspace=True) if row)


def _read_npz(path: Path) -> Table:
    loaded = read_arrays(path)
    if not isinstance(loaded, dict):
        raise DataError(f"{path.name} holds a single array without a name, not an npz archive")
    arrays = {name: _array(path, name, array) for name, array in loaded.items()}
    lengths = {name: array.shape[0] if array.ndim else None for name, array in arrays.items()}
    if len(set(lengths.values())) != 1 or None in lengths.values():
        sizes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise DataError(f"the arrays of {path.name} must have one row per sample, got {sizes or 'none'}")
    arrays = {
        name: array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
        for name, array in arrays.items()
    }
    columns = {name: array for name, array in arrays.items() if array.ndim == 1}
    blocks = {name: array for name, array in arrays.items() if array.ndim > 1}
    index = range(next(iter(lengths.values())) or 0)
    return Table(path, extra("pandas", "sim").DataFrame(columns, index=index), blocks)


def _array(path: Path, name: str, array: Numbers) -> Numbers:
    """An array of an npz file, in the machine's byte order."""
    if array.dtype.kind not in "biufUSMm":
        raise DataError(f"array {name!r} of {path.name} must hold numbers or texts, got {array.dtype}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
