"""Columns of a stranger's table as what they mean: numbers in texts, truth values with gaps, bytes."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Flags
from ofediq.errors import extra
from ofediq.streams.cells import MISSING, NO_NUMBER, amount
from ofediq.streams.columns import numbers

# A text column is numbers if so many of its cells are; with fewer different cells it may as well be labels.
_MOSTLY, _FEW = 0.9, 20
# It is, too, if half of them are and the others are a few words that come again: "offline", "error".
_HALF, _WORDS = 0.5, 3
_LARGEST = float(np.finfo(np.float64).max)
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_SURELY_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*|,\d{3})")
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?")
_NUMBERS = ("decimal", "integer", "floating", "mixed-integer-float")


class Unread(NamedTuple):
    """Cells of a column of numbers that are none, and so count as missing."""

    cells: int
    example: str


def tidy(frame: Any) -> tuple[Any, dict[str, Unread]]:
    """`frame` with every column as what it means, and what could not be read, by column.

    - Text of which at least nine in ten cells are numbers, or half of them and the others are up to three words, and
      that has more than 20 different ones: numbers; so are all numbers with commas for decimals or thousands, where
      only one of the two can be meant.
    - Numbers beside the sign of a currency or of per cent, if more than 20 differ: numbers, as they stand.
    - Numbers of 1e36 and more, which stand for none: missing, and counted as unread.
    - Decimals and whole numbers of any size: floats. Durations: seconds. Truth values with gaps: 1, 0 and missing.
    - Bytes: text. "?" and other words for nothing: missing.

    >>> import pandas
    >>> cells = [f"{n}.5" for n in range(30)] + ["-"]
    >>> made, unread = tidy(pandas.DataFrame({"load": cells, "money": ["1,250.5"] * 31, "mode": ["eco"] * 31}))
    >>> made["load"].tolist()[:2], made["money"].tolist()[0], unread
    ([0.5, 1.5], 1250.5, {'load': Unread(cells=1, example='-')})
    """
    types = extra("pandas", "sim").api.types
    made, unread = {}, {}
    for name in frame.columns:
        column = frame[name]
        if types.is_timedelta64_dtype(column):
            made[name] = column.dt.total_seconds()
            continue
        if types.is_object_dtype(column) or types.is_string_dtype(column):
            found, missed = _meant(column)
            if found is not None:
                made[name] = column = found
            if missed is not None:
                unread[name] = missed
        if not types.is_float_dtype(column):
            continue
        sizes = np.abs(numbers(column))
        filled = (sizes >= NO_NUMBER) & (sizes <= _LARGEST)
        if filled.any():
            made[name] = column.mask(filled)
            before = unread.get(name, Unread(0, f"{column[filled].iloc[0]:g}"))
            unread[name] = before._replace(cells=before.cells + int(filled.sum()))
    return (frame.assign(**made) if made else frame), unread


def _meant(column: Any) -> tuple[Any | None, Unread | None]:
    """A column of texts or objects as what it means; None where it may stay."""
    pandas = extra("pandas", "sim")
    kind = pandas.api.types.infer_dtype(column, skipna=True)
    if kind in _NUMBERS:
        return pandas.to_numeric(column.map(float, na_action="ignore"), errors="coerce"), None
    if kind == "boolean":
        return column.astype("boolean"), None
    if kind == "bytes":
        column, kind = column.map(lambda cell: cell.decode(errors="replace"), na_action="ignore"), "string"
    if kind != "string":
        return None, None
    texts = column.astype(object).str.strip()
    texts = texts.where(~texts.isin(MISSING), None)
    return _numbers(texts) or (texts, None)


def _numbers(texts: Any) -> tuple[Any, Unread | None] | None:
    """Texts as numbers; None if they are something else."""
    pandas = extra("pandas", "sim")
    known = texts[texts.notna()]
    if not len(known):
        return None
    read = pandas.to_numeric(known.map(_plain_form(known)), errors="coerce")
    if read.isna().mean() > 1 - _MOSTLY and known.nunique() > _FEW:  # "$1,250.50", "5.3 %"
        amounts = known.map(amount)
        read = amounts.fillna(read) if amounts.notna().mean() >= _HALF else read
    bad = read.isna()
    usable = _HALF if known[bad].nunique() <= _WORDS else _MOSTLY
    if bad.any() and (bad.mean() > 1 - usable or known.nunique() <= _FEW):
        return None
    unread = Unread(int(bad.sum()), str(known[bad].iloc[0])) if bad.any() else None
    return read.astype(np.float64).reindex(texts.index), unread


def _plain_form(known: Any) -> Any:
    """How a number in these texts becomes one that Python reads: "1,5" has a decimal comma, "1,250.5" thousands.

    "1,250" alone may be either, and stays a text.
    """
    commas = known[known.str.contains(",", regex=False)]
    if not len(commas):
        return str
    grouped: Flags = commas.str.fullmatch(_GROUPED).to_numpy()
    decimal: Flags = commas.str.fullmatch(_DECIMAL_COMMA).to_numpy()
    if grouped.mean() >= _MOSTLY and commas.str.fullmatch(_SURELY_GROUPED).any():
        return lambda text: text.replace(",", "") if _GROUPED.fullmatch(text) else text
    if decimal.mean() >= _MOSTLY and not grouped[decimal].all():
        return lambda text: text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text
    return str
