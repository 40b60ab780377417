"""Dates as people write them: one list of ways for files and for live readers. Without pandas."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import product

from ofediq.streams.cells import clock_unit

_DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%m/%d/%Y", "%m-%d-%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%b-%y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d %Y", "%b %d, %Y", "%Y-%m", "%b %Y", "%b-%Y", "%B %Y"),
)
_HOURS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
WAYS = tuple(day + hour for day, hour in product(_DAYS, _HOURS))
"""What `strptime` reads where ISO 8601 is not meant."""

WHOLE = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Numbers whose digits are a date, such as 20240131, by how many digits they have."""


class DateReader:
    """The moments of one column's texts, one after another: numbers, ISO 8601, or one of the usual ways.

    Whether 3/4 is in March or in April is told by the texts so far: it is the way that most of them can have been
    written in. While there are two such ways that do not agree on a text, it has no moment.

    >>> read = DateReader()
    >>> [read(text) for text in ("2013-03-01 00:00", "2013-03-01T01:00+01:00", "1362096000000", "20130301")]
    [1362096000.0, 1362096000.0, 1362096000.0, 1362096000.0]
    >>> read("01/03/2013"), read("13/03/2013 09:30"), read("31/03/2013"), read("01/03/2013"), read("eco")
    (nan, 1363167000.0, 1364688000.0, 1362096000.0, nan)
    """

    def __init__(self) -> None:
        self._fitting: dict[str, int] = {}  # how many texts so far each way can read

    def __call__(self, text: str) -> float:
        """Seconds since 1970, without a zone in UTC; NaN if there is no telling."""
        plain = _plain(text)
        if not math.isnan(plain):
            return plain
        self.told(text)
        read = {way: _read(text, way) for way in self._fitting}
        counts = {way: self._fitting[way] for way, moment in read.items() if not math.isnan(moment)}
        found = {read[way] for way, count in counts.items() if count == max(counts.values())}
        return found.pop() if len(found) == 1 else math.nan

    def told(self, text: str) -> None:
        """One more text of the column."""
        if not math.isnan(_plain(text)):
            return
        known = [way for way in self._fitting if not math.isnan(_read(text, way))]
        for way in known or [way for way in WAYS if not math.isnan(_read(text, way))]:
            self._fitting[way] = self._fitting.get(way, 0) + 1


def _plain(text: str) -> float:
    """A number or an ISO 8601 date, in which nothing has to be told."""
    try:
        number = float(text)
    except ValueError:
        try:
            return _seconds(datetime.fromisoformat(text.strip()))
        except ValueError:
            return math.nan
    way = WHOLE.get(len(text)) if text.isdecimal() and 1900 <= int(text[:4]) <= 2100 else None
    date = math.nan if way is None else _read(text, way)
    return number / clock_unit(number) if math.isnan(date) else date


def _read(text: str, way: str) -> float:
    try:
        return _seconds(datetime.strptime(text.strip(), way))
    except ValueError:
        return math.nan


def _seconds(date: datetime) -> float:
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
