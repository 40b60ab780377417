"""tables.md: the claims and values of a reproduction as Markdown, to be pasted where people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ofediq.report.words import markdown_table
from ofediq.reproduction.page import VALUE_COLUMNS, panel_rows, panel_title

_HOLDS = {True: "holds", False: "does not hold", None: "not known"}


def render_tables(results: Mapping[str, Any]) -> str:
    """A table of claims, and one per panel."""
    claims = [(one["statement"], _HOLDS[one["holds"]], _why(one["sentence"])) for one in results["claims"]]
    parts = ["### Claims", markdown_table(("claim", "here", "why"), claims)]
    for name, panel in results["panels"].items():
        parts += [f"### {panel_title(name, panel)}", markdown_table(VALUE_COLUMNS, panel_rows(panel))]
        if panel["same_order"] is not None:
            parts.append(
                f"The methods rank {'as' if panel['same_order'] else 'differently from'} the authors'."
            )
    return "\n\n".join(parts) + "\n"


def _why(sentence: str) -> str:
    """A claim's sentence without the verdict, which has a column of its own.

    >>> _why("Holds here: on MNIST (3 seeds).")
    'on MNIST (3 seeds).'
    """
    verdict, found, rest = sentence.partition(" here: ")
    return rest if found else verdict
