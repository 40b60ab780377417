"""Where a client process gets its samples: rows of a file in order, or JSON lines."""

from __future__ import annotations

import csv
import gzip
import json
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

from ofediq.errors import DataError, InputError, shown
from ofediq.federation.network.outlets import Outlet
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import Publish
from ofediq.streams.cells import MISSING, encoding_of, header_in, names_in, separator_of, time_of_day
from ofediq.streams.written import DateReader

log = logging.getLogger("ofediq.federation")

_LOGGED = 10
"""So many samples that cannot be read get a line in the log each; the others are only counted."""

_TOLD = 10_000  # rows that tell how dates are written

_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")


class SourceSample(NamedTuple):
    """One sample of a source.

    Attributes:
        x: what the client reads.
        y: its label; None where it is missing.
        time: in seconds since 1970; None for now.
        id: what the caller calls it.
    """

    x: Any
    y: Any
    time: float | None = None
    id: Any = None


NOT_YET = SourceSample(None, None)
"""In place of a sample that may still come."""


class Source(Protocol):
    """Samples for the steps of a federation."""

    position: int
    """How many samples were read."""

    def at(self, step: int) -> SourceSample | None:
        """The sample of `step` (from 1), or None if there is none, or `NOT_YET`."""

    @property
    def exhausted(self) -> bool:
        """Whether no sample will ever come again."""


class Rows:
    """The rows of a CSV file with a header, in order, one per step.

    Names may have blanks around them, cells commas, semicolons, tabs or bars between them; with semicolons, numbers
    may have decimal commas. What stands for no value is that of the simulator.

    Args:
        path: the file; .csv.gz if it is compressed.
        target: column to predict.
        features: columns to predict from; those of the task if left out.
        announced: tells the names of the features in the task; all columns but the target if it has none.
        time: column of dates, or columns with commas: year,month,day,hour. The file's first 10,000 rows tell whether
            3/4 is in March or in April.
        start: tells how many rows were read before, when the first one is asked for.
        follow: whether the file grows: its end is no end, and a line counts when it is whole. A file that is shorter
            than before, or another one, is read from its beginning.
    """

    def __init__(
        self,
        path: str | Path,
        target: str,
        features: Sequence[str] | None = None,
        announced: Callable[[], Sequence[str]] = tuple,
        *,
        time: str | None = None,
        start: Callable[[], int] = int,
        follow: bool = False,
    ) -> None:
        self.path, self.target, self.time, self.follow = Path(path), target, time, follow
        self.exhausted, self.position = False, 0
        self._features, self._announced = features, announced
        with self._opened() as file, self._readable():  # before anybody is told that this client is there
            self._require([target, *(features or ())], *names_in(_cells(file, follow)[0]))
        self._rows = self._read(start)

    def at(self, step: int) -> SourceSample | None:
        """The next row."""
        with self._readable():
            sample = next(self._rows, None)
            if sample is None and self.follow:  # another file has taken its place
                self._rows = self._read()
                sample = next(self._rows, None)
        self.exhausted = sample is None
        return sample

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"cannot read on in {self.path} after row {self.position}: {error}") from None

    def _read(self, start: Callable[[], int] = int) -> Iterator[SourceSample]:
        """The rows after the first ones; `NOT_YET` again and again at the end of a file that grows."""
        self.position = before = start()
        with self._opened() as file:
            header, rows = _cells(file, self.follow)
            skipped = sum(1 for _ in takewhile(lambda cells: cells is not None, islice(rows, before)))
            if skipped < before:
                log.warning(
                    "%s has fewer rows than the %d that were read: from its beginning", self.path, before
                )
                self.position = 0
                file.seek(0)
                header, rows = _cells(file, self.follow)
            columns, repeated = names_in(header)
            clock = [] if self.time is None else _parts(self.time, columns)
            used, named = self._used(columns, repeated, clock)
            dates = self._dates(columns, clock)
            for cells in rows:
                if cells is None and self._is_another(file):
                    log.warning("%s is another file now: from its beginning", self.path)
                    break
                if cells is None:
                    yield NOT_YET
                    continue
                self.position += 1
                row = dict.fromkeys(columns) | dict(zip(columns, cells, strict=False))
                x: Any = (
                    {name: row[name] for name in used} if named else [row[name] or "nan" for name in used]
                )
                moment = _moment([row[name] or "" for name in clock], dates) if clock else None
                yield SourceSample(x, row[self.target], moment, self.position)

    def _is_another(self, file: TextIO) -> bool:
        """Whether the path leads to another file than the open one, or to less than what was read of it."""
        try:
            now, opened = self.path.stat(), os.fstat(file.fileno())
        except FileNotFoundError:  # between two files
            return False
        return (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino) or now.st_size < file.buffer.tell()

    def _opened(self) -> TextIO:
        opened: Any = gzip.open if self.path.suffix.lower() == ".gz" else open
        try:
            with opened(self.path, "rb") as file:
                encoding = encoding_of(str(self.path), file.read(1 << 16))
            # A byte that is no text spoils its own cell, not the file: its row is then skipped like any bad one.
            found: TextIO = opened(self.path, "rt", encoding=encoding, errors="replace", newline="")
        except (OSError, EOFError) as error:
            raise DataError(f"cannot read {self.path}: {getattr(error, 'strerror', None) or error}") from None
        return found

    def _dates(self, columns: list[str], clock: list[str]) -> DateReader:
        """A reader of dates that has seen the first ones of the file: they tell days from months."""
        dates = DateReader()
        if not clock:
            return dates
        place = columns.index(clock[0])
        with self._opened() as file:
            for cells in islice(_cells(file, self.follow)[1], _TOLD):
                if cells is None:
                    break
                dates.told((cells[place] if place < len(cells) else None) or "")
        return dates

    def _used(self, columns: list[str], repeated: frozenset[str], clock: list[str]) -> tuple[list[str], bool]:
        """The columns to read, and whether by name: those of the task, "mode" for its "mode=eco"."""
        announced = list(self._announced())
        names = announced if self._features is None else list(self._features)
        if announced:
            names = list(dict.fromkeys(name if name in columns else name.partition("=")[0] for name in names))
        names = names or [name for name in columns if name not in (self.target, *clock)]
        self._require([self.target, *clock, *names], columns, repeated)
        return names, bool(announced)

    def _require(self, names: Sequence[str], columns: Sequence[str], repeated: frozenset[str]) -> None:
        for name in names:
            if name not in columns:
                raise DataError(f"{self.path} has no column {name!r}; it has {', '.join(columns)}")
            if name in repeated:
                raise DataError(f"{self.path} must have one column {name!r}, got several")


def _cells(file: TextIO, follow: bool) -> tuple[list[str], Iterator[list[str | None] | None]]:
    """The first line of a CSV file and the rows after it; None for a cell without a value.

    With `follow` None is also a row that has not come yet.
    """
    before, names = header_in(file)
    separator = separator_of(names)
    header = next(csv.reader([names], delimiter=separator), [])
    file.seek(0)
    for _ in range(before + 1):
        file.readline()
    lines: Iterator[str] = _WholeRecords(file) if follow else file
    rows = _records(csv.reader(lines, delimiter=separator, skipinitialspace=True), follow)
    return header, (None if row is None else [_cell(text, separator) for text in row] for row in rows)


class _WholeRecords(Iterator[str]):
    """The records of a file that grows: it ends where the last whole one does, and goes on when there is more."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._begun = file, ""

    def __next__(self) -> str:
        while line := self._file.readline():
            self._begun += line
            # Half a line, or a line inside of quotes: the rest has not been written yet.
            if line.endswith(("\n", "\r")) and self._begun.count('"') % 2 == 0:
                whole, self._begun = self._begun, ""
                return whole
        raise StopIteration


def _records(reader: Iterator[list[str]], follow: bool) -> Iterator[list[str] | None]:
    """Rows that are not blank; one that csv cannot read (a cell of more than 128 kB) is a row without values."""
    while True:
        try:
            row = next(reader)
        except StopIteration:
            if not follow:
                return
            yield None
            continue
        except csv.Error:
            row = [""]
        if row:
            yield row


def _cell(text: str, separator: str) -> str | None:
    """A cell's text, with a point for a decimal comma where semicolons are between cells; None without a value.

    >>> _cell(" 21,5", ";"), _cell("21,5", ","), _cell("NA", ",")
    ('21.5', '21,5', None)
    """
    text = text.strip()
    if text in MISSING:
        return None
    if separator == ";" and _DECIMAL_COMMA.fullmatch(text):
        return text.replace(",", ".")
    return text


def _parts(time: str, columns: Sequence[str]) -> list[str]:
    """The columns that make a date: one of this name, or several with commas between them."""
    return [time] if time in columns else [name.strip() for name in time.split(",")]


def _moment(parts: Sequence[str], dates: DateReader) -> float:
    """Seconds since 1970 of a date or a number, of a date and a time of day, or of year, month, day, ...

    Without a zone it is UTC.

    >>> _moment(["2013-03-01", "06.30.00"], DateReader()), _moment(["2013", "3", "1", "0"], DateReader())
    (1362119400.0, 1362096000.0)
    """
    if len(parts) <= 2:
        return dates(parts[0]) + (time_of_day(parts[1]) if len(parts) == 2 else 0.0)
    try:
        year, month, day, *rest = (int(float(part)) for part in parts)
        return datetime(year, month, day, *rest, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]  # hour, minute, ...
    except ValueError:
        return float("nan")


def read_lines(file: TextIO) -> Iterator[SourceSample | InputError]:
    """Samples from JSON lines, `{"x": .., "y": .., "id": .., "time": ..}`; all but x may be missing.

    A line that is none comes as the error that says so.

    >>> import io
    >>> list(read_lines(io.StringIO('{"x": [1, 2], "y": 0}')))
    [SourceSample(x=[1, 2], y=0, time=None, id=None)]
    """
    dates = DateReader()
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            if "x" not in content and "id" not in content:
                raise KeyError("x")
            time, called = content.get("time"), content.get("id")
            if isinstance(called, list | dict):
                yield InputError(f"`id` of line {number} must be a text or a number, got {shown(called)}")
                continue
            moment = None if time is None else dates(str(time))
            yield SourceSample(content.get("x"), content.get("y"), moment, called)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            yield InputError(
                f"line {number} must be JSON like {{'x': [..], 'y': ..}}, got {line.strip()[:60]!r}"
            )


class Skipped:
    """Samples that could not be read: counted, and the first ones logged."""

    def __init__(self, name: str) -> None:
        self.name, self.count = name, 0
        self.first: str | None = None

    def add(self, reason: str) -> None:
        """One more."""
        self.count += 1
        self.first = self.first or reason
        if self.count <= _LOGGED:
            log.warning("client %s: skipped a sample: %s", self.name, reason)
        if self.count == _LOGGED:
            log.warning("client %s: further samples that are skipped are only counted", self.name)


class Feeder:
    """Gives a learner its samples as fast as rounds ask for them; one that cannot be read is skipped."""

    def __init__(self, learner: Learner, source: Source, outlet: Outlet | None = None) -> None:
        self.learner, self.source, self.outlet = learner, source, outlet
        self.skipped = Skipped(learner.name)

    def __call__(self) -> list[Publish]:
        """Feed the open round; returns what the learner says."""
        said: list[Publish] = []
        while self.learner.hungry and not self.source.exhausted:
            sample = self.source.at(self.learner.next_step)
            self.learner.position = self.source.position
            if sample is NOT_YET:
                break
            if sample is None:
                said += self.learner.skip()
                continue
            try:
                said += self._predicted(sample)
                said += self.learner.learn(sample.x, sample.y, sample=sample.id, time=sample.time)[1]
            except InputError as error:
                self.skipped.add(
                    f"row {self.source.position}: {error}" if self.source.position else str(error)
                )
                if self.source.position == 0:  # its step has no sample then
                    said += self.learner.skip()
        return said

    def _predicted(self, sample: SourceSample) -> list[Publish]:
        """The prediction for those who want it."""
        if self.outlet is None or not self.outlet.wanted:
            return []
        found = self.learner.forecast(sample.x, sample=sample.id, time=sample.time)
        return self.outlet(found, sample.id)
