"""How results look on a terminal: the only place that knows rich."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text


def heading(text: str) -> Text:
    """A line above what follows.

    >>> heading("Plan").plain
    'Plan'
    """
    return Text(text, style="bold")


def facts(values: Mapping[str, str]) -> Table:
    """Names and values, one per line.

    >>> facts({"levels": "3"}).row_count
    1
    """
    grid = Table(box=None, show_header=False)
    grid.add_column(style="cyan")
    grid.add_column()
    for name, value in values.items():
        grid.add_row(name, value)
    return grid


def table(columns: Iterable[str], rows: Iterable[Iterable[str]], *, words: bool = False) -> Table:
    """Rows under a header: the first column to the left, numbers to the right; all to the left if they are `words`.

    >>> table(("method", "bits"), [("FedOGD", "32"), ("OFedAvg", "16")]).row_count
    2
    """
    grid = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)  # eight columns fit into 80 letters
    for index, column in enumerate(columns):
        grid.add_column(column, justify="right" if index and not words else "left", no_wrap=not words)
    for row in rows:
        grid.add_row(*row)
    return grid


def show(*parts: RenderableType) -> None:
    """Print the parts to standard output, without colours when it is not a terminal.

    A table of numbers that is wider than the terminal runs over its edge: a cell that is cut says nothing.
    """
    console = Console(highlight=False)
    for part in parts:
        needed = _needed(console, part) if isinstance(part, Table) else 0
        wide = console if needed <= console.width else Console(highlight=False, width=needed)
        wide.print(part, markup=False)


def _needed(console: Console, table: Table) -> int:
    """The width below which a table whose cells must not be wrapped would have them cut."""
    whole = table.__rich_measure__(console, console.options.update_width(10_000)).maximum
    return whole if all(column.no_wrap for column in table.columns) else 0
