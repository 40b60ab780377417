"""Equations: a fenced block `math` with LaTeX becomes MathML, which browsers draw without a script."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

_BLOCK = re.compile(r"^```math\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_SCROLLED = '<div style="overflow-x: auto">'  # on a telephone the page would be as wide as the equation
_ALIGNED = re.compile(r'columnalign="(left|right)"')


def on_page_markdown(markdown: str, **_: Any) -> str:
    r"""Replace every block.

    >>> on_page_markdown("```math\nx^2\n```")[:40]
    '<div style="overflow-x: auto"><math xmln'
    """
    return _BLOCK.sub(lambda block: f"{_SCROLLED}{_mathml(block[1])}</div>", markdown)


def _mathml(latex: str) -> str:
    """MathML of a displayed equation; columns are aligned the way that browsers of today understand."""
    drawn: str = convert(latex, display="block")
    return _ALIGNED.sub(r'style="text-align: \1"', drawn)
