"""Numbers that stand for none, such as -999: found by how far they are from all others in their column.

Of a file all numbers are known (`without_strays`); a live client knows those before (`Lookout`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Flags, Floats, Vector
from ofediq.streams.columns import FEW_LABELS, is_number, numbers

# Where programs keep whole numbers in 16 or 32 bits, the last ones often mean that there is none.
_LIMITS = (32_767.0, 32_768.0, 65_535.0, 2.0**31 - 1, 2.0**31, 2.0**32 - 1)
_OFTEN = 0.01  # of the cells: so often a negative number comes among others that are not, before it stands for none
_MOST = 0.95  # of the cells, at most
_AWAY = 0.1  # of the others' range: how far a number must be that stands for none in another column
_MIDDLE = (0.05, 0.95)
_WILD = 1e5  # times the width of the middle: no measurement is so far from all others


class Stray(NamedTuple):
    """Numbers of a column that stand for none."""

    cells: int
    example: float


def without_strays(frame: Any, names: Sequence[str]) -> tuple[Any, dict[str, Stray]]:
    """`frame` with the strays of some of its columns missing, and what they were, by column.

    Looked at are numbers of which more than 20 differ. A stray is

    - a mark: the smallest or largest number of its column, as far from the next as all others are from each other,
      and one that programs write for nothing: nines (-999, 99.99, 9999), eights, the limits of 16 and 32 bits, or, at
      one cell in a hundred, a negative one among others that are not; negative nines or eights among others that
      are not need a tenth of that distance;
    - the same mark in another column, where it comes twice and is a tenth of the others' range away;
    - anything 100,000 times as far from the median as the middle nine tenths of the column are wide.

    >>> import pandas
    >>> heat = [20.0 + row % 7 + row / 100 for row in range(60)]
    >>> made, strays = without_strays(pandas.DataFrame({"heat": [-999.0, *heat, 1e12]}), ["heat"])
    >>> made["heat"].isna().sum(), strays
    (np.int64(2), {'heat': Stray(cells=2, example=-999.0)})
    """
    columns = {name: numbers(frame[name]) for name in names if name in frame and is_number(frame[name])}
    wild = {name: _wild(values) for name, values in columns.items()}
    ends = {name: _ends(values[~wild[name]]) for name, values in columns.items()}
    marks = {value for found in ends.values() for value, sure in found.items() if sure}
    made, strays = {}, {}
    for name, values in columns.items():
        stray = np.isin(values, [value for value in ends[name] if value in marks]) | wild[name]
        if stray.any() and len(np.unique(values[~stray & ~np.isnan(values)])) > FEW_LABELS:
            made[name] = np.where(stray, np.nan, values)
            strays[name] = Stray(int(stray.sum()), float(values[stray][0]))
    return (frame.assign(**made) if made else frame), strays


def _ends(values: Floats) -> Mapping[float, bool]:
    """Numbers at the ends of a column that may be marks, and whether they are, by what they look like."""
    known, found = np.sort(values[~np.isnan(values)]), {}
    for turn in range(4):  # two at each end: -9999 and -999
        if len(known) < 2 or known[0] == known[-1]:
            break
        known = -known[::-1] if turn % 2 else known  # now the end in question is the first one
        cells = int(np.searchsorted(known, known[0], "right"))
        rest, value = known[cells:], float(-known[0] if turn % 2 else known[0])
        gap, width = rest[0] - known[0], rest[-1] - rest[0]
        share = cells / np.count_nonzero(~np.isnan(values))
        negative = value < 0 <= rest[0] and turn % 2 == 0
        sure = gap >= width and (_looks_like_nothing(value, cells) or (negative and share >= _OFTEN))
        sure |= negative and gap >= _AWAY * width and _looks_like_nothing(value, 1)
        if value and share <= _MOST and (sure or (cells > 1 and gap >= _AWAY * width)):
            found[value] = bool(sure)
            known = rest
        known = -known[::-1] if turn % 2 else known
    return found


def _looks_like_nothing(value: float | np.floating[Any], cells: int) -> bool:
    """Whether a number is all nines or eights, or the last one of 16 or 32 bits.

    >>> [_looks_like_nothing(value, 2) for value in (-999.0, 99.9, 8888.0, 65535.0, 998.0, 9.0, -200.0)]
    [True, True, True, True, False, False, False]
    """
    size: Any = abs(value)
    digits = np.format_float_positional(size, trim="-").replace(".", "")
    same = len(digits) > 1 and set(digits) in ({"9"}, {"8"})
    return (same and (cells > 1 or len(digits) > 2)) or float(size) in _LIMITS


def _wild(values: Floats) -> Flags:
    known = values[np.isfinite(values)]
    if not len(known):
        return np.zeros(len(values), bool)
    low, high = np.quantile(known, _MIDDLE)
    return np.asarray((high > low) & (np.abs(values - np.median(known)) > _WILD * (high - low)))


class Lookout:
    """Strays in what one client reads, told from what it has read before.

    A stray is outside of the range of all others so far,

    - three or more nines or eights, or a limit of 16 or 32 bits: by a tenth of that range if it is the first negative
      number, by as much as the range is wide if there were others, and by three times that if it is positive and
      more than twenty different numbers have told the range;
    - the first negative number after more than twenty different ones, by as much as they differ: it may be a mark
      such as -200, or the first frost. If it comes again it is a mark; if another one comes it is not, and counts
      from then on. Columns of few different numbers, such as -1, 0 and 1, have no such marks;
    - 100,000 times as far as the range of more than twenty different numbers is wide, unless the one before was as
      far, and another: the sun has risen.

    >>> lookout = Lookout(1)
    >>> for heat in range(30):
    ...     _ = lookout.clean(np.array([[20 + heat / 10]], np.float32))
    >>> [lookout.clean(np.array([[heat]], np.float32)).item() for heat in (-999.9, 21.5, -5.0, -5.5, -5.0)]
    [nan, 21.5, nan, -5.5, -5.0]

    A panel that was dark for an hour, and signs:

    >>> panel, signs = Lookout(1), Lookout(1)
    >>> for row in range(60):
    ...     _ = panel.clean(np.array([[row * 1e-6]], np.float32)), signs.clean(np.array([[row % 2]], np.float32))
    >>> [panel.clean(np.array([[watt]], np.float32)).item() for watt in (500, 510, 0, 490)]
    [nan, 510.0, 0.0, 490.0]
    >>> [signs.clean(np.array([[sign]], np.float32)).item() for sign in (-1, 0, -1)]
    [-1.0, 0.0, -1.0]
    """

    def __init__(self, columns: int) -> None:
        self._low, self._high = np.full(columns, np.inf), np.full(columns, -np.inf)
        self._different = np.full((columns, FEW_LABELS + 1), np.nan)  # the first different numbers
        self._suspect, self._wild = np.full(columns, np.nan), np.full(columns, np.nan)

    def clean(self, values: Vector) -> Vector:
        """`values` [1, columns] with NaN for strays; they count as read."""
        row, known = values.reshape(-1).astype(np.float64), ~np.isnan(self._different[:, -1])
        width = np.maximum(self._high - self._low, 0.0)  # 0 before the first
        gap = np.fmax(np.maximum(self._low - row, row - self._high), 0.0)  # and infinite
        negative = (row < 0) & (self._low >= 0)
        wild = known & (gap > _WILD * width)
        stray = wild & (np.isnan(self._wild) | (self._wild == row))
        self._wild = np.where(np.isnan(row), self._wild, np.where(wild, row, np.nan))
        far = gap >= width * np.where(negative, _AWAY, np.where(row < 0, 1.0, 3.0))
        for place in np.flatnonzero((gap > 0) & far & (known | (row < 0))):
            stray[place] |= _looks_like_nothing(values.flat[place], 1)
        held = negative & known & (gap >= width) & ~stray
        new = held & (np.isnan(self._suspect) | (self._suspect == row))
        self._suspect = np.where(new, row, self._suspect)
        stray |= new
        read = ~stray & ~np.isnan(row)
        self._low = np.where(read, np.minimum(self._low, row), self._low)
        self._high = np.where(read, np.maximum(self._high, row), self._high)
        self._count(row, read)
        return np.where(stray.reshape(values.shape), np.float32(np.nan), values)

    def _count(self, row: Floats, read: Flags) -> None:
        """Remember numbers that are not among the first different ones, while there is room."""
        few = np.flatnonzero(read & np.isnan(self._different[:, -1]))
        few = few[~(self._different[few] == row[few, None]).any(1)]
        self._different[few, np.isnan(self._different[few]).argmax(1)] = row[few]
