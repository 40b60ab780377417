"""How each method looks: the same colour, line and marker in every picture.

The colours are those of Okabe and Ito, which people with any common colour blindness can tell apart; line and
marker carry the same information once more, for print without colour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Dashes: TypeAlias = tuple[int, tuple[float, ...]] | str
"""A line style of matplotlib: a name, or (offset, (on, off, ...)) in line widths."""

GREY = "#6b6b6b"
GRID = "#e3e3e3"
TITLE_SIZE, LABEL_SIZE, TICK_SIZE, NOTE_SIZE = 13.0, 12.0, 11.0, 10.0
"""Font sizes in points."""


@dataclass(frozen=True)
class Look:
    """How one method is drawn."""

    colour: str
    dashes: Dashes = "-"
    marker: str = "o"
    width: float = 2.0


FIRST = ("FedOGD", "OFedIQ", "OFedAvg", "FedOMD", "OFedGrid", "OGD", "Local")
"""Who has a place of their own among the looks: readers compare the paper's figures across pages."""

_LOOKS = (
    Look("#000000", "-", "s"),
    Look("#0072b2", "-", "o", 2.6),
    Look("#d55e00", (0, (6.0, 2.0)), "^"),
    Look("#009e73", (0, (6.0, 1.5, 1.5, 1.5)), "D"),
    Look("#56b4e9", "-", "X", 2.6),
    Look("#cc79a7", (0, (2.5, 1.2)), "v"),
    Look("#e69f00", (0, (1.2, 1.2)), "P"),
    *(
        Look(colour, dashes, marker)
        for dashes, markers in (("-", "<>h"), ((0, (4.0, 2.0)), "p*d"), ((0, (1.2, 1.2)), "8H1"))
        for colour, marker in zip(("#332288", "#882255", "#999933"), markers, strict=True)
    ),
)
_NAIVE_DASHES: tuple[Dashes, ...] = ((0, (5.0, 3.0)), (0, (2.0, 2.0)), (0, (8.0, 2.0, 1.5, 2.0)))


def looks(names: Iterable[str]) -> dict[str, Look]:
    """The look of each name by order: the paper's methods first, then any other as it comes.

    >>> looks(["mine", "OFedIQ"])["OFedIQ"] == looks(["OFedIQ"])["OFedIQ"]
    True
    """
    wanted = list(dict.fromkeys(names))
    order = [*FIRST, *(name for name in wanted if name not in FIRST)]
    return {name: _LOOKS[order.index(name) % len(_LOOKS)] for name in wanted}


def naive_look(index: int) -> Look:
    """Grey and dashed: what a method must beat stays in the background.

    >>> naive_look(0).colour == naive_look(1).colour
    True
    """
    return Look(GREY, _NAIVE_DASHES[index % len(_NAIVE_DASHES)], "", 1.3)
