"""Examples in docstrings: a block that starts with `>>>` is shown as code."""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts a fence around every doctest before a docstring is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """One module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    r"""Doctests as fenced blocks; each ends at the next empty line.

    >>> fenced("A sum.\n\n>>> 1 + 1\n2\n\nDone.")
    'A sum.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nDone.'
    """
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        starts, ends = not inside and line.startswith(">>>"), inside and not line.strip()
        if starts:
            lines.append("```pycon")
        if ends:
            lines.append("```")
        inside = (inside or starts) and not ends
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
