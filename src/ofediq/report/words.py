"""Values as people read them, the same in tables, pictures and on the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

NAIVE_NAMES = {
    "majority": "majority class",
    "mean": "running mean",
    "own majority": "own majority",
    "own mean": "own running mean",
    "constant": "best constant",
    "last": "last value",
    "season": "a season ago",
}


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table in Markdown.

    >>> print(markdown_table(("method", "value"), [("a|b", "1")]))
    | method | value |
    |---|---|
    | a\|b | 1 |
    """
    head, *rest = (" | ".join(cell.replace("|", r"\|") for cell in row) for row in (columns, *rows))
    return "\n".join([f"| {head} |", "|" + "---|" * len(columns), *(f"| {line} |" for line in rest)])


def value_text(value: float, metric: str) -> str:
    """A value as it is written beside a line.

    >>> value_text(0.98643, "accuracy"), value_text(0.0025713, "mse")
    ('98.6%', '0.00257')
    """
    if not math.isfinite(value):
        return "diverged"
    return f"{100 * value:.1f}%" if metric == "accuracy" else f"{value:.3g}"


def skill_text(skill: float | None) -> str:
    """A skill with its sign; nothing where there is none. What has diverged needs no digits.

    >>> skill_text(0.114), skill_text(None), skill_text(-1e9)
    ('+11.4%', '', 'below -1,000%')
    """
    if skill is None:
        return ""
    return "below -1,000%" if skill < -10 else f"{100 * skill:+.1f}%"


def bits_text(bits: float) -> str:
    """A number of bits for people.

    >>> bits_text(61_508_700.0), bits_text(6.24e9), bits_text(0.0)
    ('61.5 Mbit', '6.24 Gbit', '0 bit')
    """
    return _counted(bits, "bit")


def bytes_text(count: float) -> str:
    """A number of bytes for people.

    >>> bytes_text(61_508_700.0)
    '61.5 MB'
    """
    return _counted(count, "B")


def _counted(count: float, unit: str) -> str:
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:
            return f"{count / size:.3g} {prefix}{unit}"
    return f"{count:.3g} {unit}"
