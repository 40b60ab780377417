"""What the texts of a file mean: what is missing, where its cells end. One rule for simulator and client."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from ofediq.errors import DataError

MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "?")
)
"""Texts that stand for no value; "?" is that of the UCI archive."""

NO_NUMBER = 1e36
"""Numbers of this size and more are what programs write where there is none: netCDF's 9.97e36, the largest floats."""

_CURRENCIES = ("$", "€", "£", "¥", "₹", "USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR")
_CURRENCY = "|".join(map(re.escape, _CURRENCIES))
_AMOUNT = re.compile(rf"([+-]?)\s*(?:{_CURRENCY})?\s*([+-]?\d[\d.,]*|[+-]?[.,]\d+)\s*(?:%|{_CURRENCY})?")
_SIGNS, _LONGEST_AMOUNT = ("%", *_CURRENCIES), 40
_THOUSANDS, _DECIMALS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?"), re.compile(r"[+-]?\d*,\d+")
SINCE_1970 = (946_684_800.0, 4_102_444_800.0)
"""From 2000 to 2100, in seconds."""
_TIME_OF_DAY = re.compile(r"(\d{1,2})(?:[:.h](\d{2})(?:[:.](\d{2}(?:\.\d+)?))?)?(?:\s*([AaPp])\.?[Mm]\.?)?")
SEPARATORS = (",", ";", "\t", "|")
_HEAD = 1 << 16  # bytes of a file that are looked at


def encoding_of(name: str, head: bytes) -> str:
    """How the text of a file is written: UTF-8, or UTF-16 where it begins with its mark.

    >>> encoding_of("plant.csv", b"heat,load"), encoding_of("plant.csv", "heat,load".encode("utf-16"))
    ('utf-8-sig', 'utf-16')
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if head.startswith(b"\x1f\x8b"):
        raise DataError(f"{name} cannot be read: it is compressed by gzip; such a file must end in .csv.gz")
    if b"\0" in head[:_HEAD]:
        raise DataError(f"{name} cannot be read: it is no UTF-8 text (it has bytes of 0)")
    return "utf-8-sig"


def not_utf8(name: str, error: UnicodeDecodeError) -> DataError:
    """The complaint about a file in another encoding, with a way out."""
    byte = error.object[error.start]
    return DataError(
        f"{name} cannot be read: it is no UTF-8 text (byte {byte:#04x}); "
        "`iconv -f latin1 -t utf-8` writes one from a Western European file"
    )


def amount(text: str) -> float:
    """The number in a text with the sign of a currency or of per cent; NaN of any other text.

    A comma before three digits is one for thousands where there is a currency, and may be either before a per cent.

    >>> [amount(text) for text in ("$1,250.50", "-€ 3", "(CHF 20)", "5,3 %", "1,250 EUR", "1,250%", "1,250", "39 kW")]
    [1250.5, -3.0, -20.0, 5.3, 1250.0, nan, nan, nan]
    """
    text = text.strip()
    if len(text) > _LONGEST_AMOUNT or not any(sign in text for sign in _SIGNS):
        return float("nan")
    debit = text.startswith("(") and text.endswith(")")
    found = _AMOUNT.fullmatch(text[1:-1].strip() if debit else text)
    if found is None or (found[1] and found[2][0] in "+-"):
        return float("nan")
    number = found[1] + found[2]
    if _THOUSANDS.fullmatch(number) and ("%" not in text or "." in number):
        number = number.replace(",", "")
    elif _DECIMALS.fullmatch(number) and not _THOUSANDS.fullmatch(number):
        number = number.replace(",", ".")
    try:
        return -float(number) if debit else float(number)
    except ValueError:
        return float("nan")


def clock_unit(moment: float) -> float:
    """How many units of a time since 1970 make a second: 1,000 if it is milliseconds, between 2000 and 2100; else 1.

    >>> clock_unit(1_700_000_000_000), clock_unit(1_700_000_000), clock_unit(12)
    (1000.0, 1.0, 1.0)
    """
    first, last = SINCE_1970
    return next((unit for unit in (1e3, 1e6, 1e9) if first * unit <= moment <= last * unit), 1.0)


def time_of_day(text: str) -> float:
    """Seconds since midnight of a time such as 18:30, 18.30.05, 6:30 PM or the hour 18; NaN of any other text.

    >>> [time_of_day(text) for text in ("18:30", "18.30.05", "12:15 am", "6 p.m.", "18", "18,5", "1.25M", "5 A")]
    [66600.0, 66605.0, 900.0, 64800.0, 64800.0, nan, nan, nan]
    """
    found = _TIME_OF_DAY.fullmatch(text.strip())
    if found is None:
        return float("nan")
    hours, minutes, seconds, half = int(found[1]), int(found[2] or 0), float(found[3] or 0), found[4]
    if half:
        hours = hours % 12 + 12 * (half in "Pp") if 1 <= hours <= 12 else 99
    return (
        3600.0 * hours + 60 * minutes + seconds
        if hours <= 24 and minutes < 60 and seconds < 61
        else float("nan")
    )


def separator_of(header: str) -> str:
    """What is between two cells: the first of comma, semicolon, tab and bar that cuts the names apart.

    >>> separator_of("when;heat;load"), separator_of('"heat, inside",load'), separator_of("load")
    (';', ',', ',')
    """
    return next((sign for sign in SEPARATORS if len(next(csv.reader([header], delimiter=sign), ())) > 1), ",")


def header_in(lines: Iterable[str]) -> tuple[int, str]:
    """How many lines are before the one with the names, and that line: the first that is neither blank nor a comment.

    Comments begin with #. If what follows them has numbers, the last one holds the names.

    >>> header_in(["# station 7", "", "heat,load", "20,1.5"]), header_in(["# heat,load", "20,1.5"])
    ((2, 'heat,load'), (0, ' heat,load'))
    >>> header_in(["#,load", "1,1.5"])  # a column of this name
    (0, '#,load')
    """
    place, names = 0, ""
    for number, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            bare = line.lstrip().lstrip("#")
            place, names = number, line if bare.lstrip(" ").startswith(SEPARATORS) else bare
        elif line.strip():
            cells = next(csv.reader([line], delimiter=separator_of(line)), ())
            return (place, names) if names and any(map(_is_number, cells)) else (number, line)
    return place, names


def _is_number(cell: str) -> bool:
    try:
        return float(cell) == float(cell)
    except ValueError:
        return False


def names_in(header: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """Names of columns without the blanks around them, and those that come more than once.

    >>> names_in(["when", " heat", "heat "])
    (['when', 'heat', 'heat'], frozenset({'heat'}))
    """
    names = [name.strip() for name in header]
    return names, frozenset(name for name, count in Counter(names).items() if name and count > 1)
