"""One HTML page about a run or a live federation: skill over time, clients, drift, bytes. No script, no request."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ofediq.report.words import skill_text

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 860, 300, 60, 30
_COLOURS = ("#1668b0", "#c2571a", "#2a8a4a", "#8a3fa0", "#6b6b6b", "#b8860b")
_LOWEST = -1.0  # of a skill in the picture: what is worse is cut
_MOST_POINTS = 400
_PER_ROW = 4  # names below the picture
_APART = 14.0  # height of a letter
_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .9rem .2rem 0;text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left}svg{width:100%;min-width:36rem;height:auto}.soft{color:#666}
.wide{overflow-x:auto}
@media(prefers-color-scheme:dark){body{background:#16181b;color:#ddd}.soft{color:#999}
svg *{filter:brightness(1.6)}}"""


class SkillCurve(NamedTuple):
    """Skill over time of one method.

    Attributes:
        name: what it is called.
        steps: of the points.
        skills: 1 - error / error of the naive forecast up to each.
        drift: steps at which errors had risen.
    """

    name: str
    steps: Sequence[float]
    skills: Sequence[float]
    drift: Sequence[int] = ()


def skill_page(
    title: str, curves: Sequence[SkillCurve], tables: Mapping[str, Sequence[Sequence[str]]], note: str = ""
) -> str:
    """The page: a picture of `curves`, then `tables` by their headings, first row first.

    >>> text = skill_page("plant", [SkillCurve("OFedIQ", [1, 2], [0.0, 0.1], [2])], {"Bytes": [["up"], ["5 kB"]]})
    >>> "polyline" in text and "OFedIQ" in text and "<script" not in text
    True
    """
    parts = [f"<h1>{html.escape(title)}</h1>", f'<p class="soft">{html.escape(note)}</p>' if note else ""]
    shown = {"Skill over time": skill_picture(curves) or "<p>Nothing was predicted yet.</p>"}
    shown |= {heading: _table(rows) for heading, rows in tables.items()}
    for heading, content in shown.items():  # on a telephone each scrolls by itself
        parts += [f"<h2>{html.escape(heading)}</h2>", f'<div class="wide">{content}</div>']
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>{html.escape(title)}</title><style>{_STYLE}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = []
    for place, row in enumerate(rows):
        tag = "th" if place == 0 else "td"
        lines.append("<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def skill_picture(curves: Sequence[SkillCurve], *, ink: str = "currentColor") -> str:
    """The picture of `curves` as SVG, letters in `ink`; empty where nothing was predicted yet."""
    values = [max(_LOWEST, value) for one in curves for value in one.skills if value == value]
    if not values:
        return ""
    last = max(step for one in curves for step in one.steps)
    low, high = min(0.0, *values), max(0.02, *values)

    def across(step: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 10) * step / max(last, 1)

    def down(value: float) -> float:
        return 10 + (_HEIGHT - _BOTTOM - 10) * (high - max(low, value)) / (high - low)

    parts = []
    # A lowest value that lies on the zero line would write over its name.
    marked = [value for value in (low, high) if abs(down(value) - down(0.0)) > _APART] + [0.0]
    for value in marked:
        y = down(value)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8886"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:+.0%}</text>')
    for place, one in enumerate(curves):
        colour = _COLOURS[place % len(_COLOURS)]
        stride = max(1, len(one.steps) // _MOST_POINTS)  # counted from the end, which every curve shows
        points = zip(one.steps[::-stride], one.skills[::-stride], strict=True)
        line = " ".join(f"{across(step):.1f},{down(value):.1f}" for step, value in points if value == value)
        dashes = ' stroke-dasharray="7 4"' * (place >= len(_COLOURS))  # of another one in the same colour
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        for step in one.drift:
            x = across(step)
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{_HEIGHT - _BOTTOM}" stroke="{colour}" '
                'stroke-opacity=".5" stroke-dasharray="2 5">'
                f"<title>{html.escape(one.name)}: errors rose</title></line>"
            )
        name = html.escape(f"{one.name} {skill_text(float(one.skills[-1]))}" if len(one.skills) else one.name)
        row, column = divmod(place, _PER_ROW)
        x, y = _LEFT + 10 + 160 * column, _HEIGHT - 6 + 18 * row
        mark = " - -" * bool(dashes)
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{name}{mark}</text>')
    parts.append(f'<text x="{_WIDTH}" y="{_HEIGHT - 6}" text-anchor="end">step {last:,.0f}</text>')
    height = _HEIGHT + 18 * ((len(curves) - 1) // _PER_ROW)
    frame = f'viewBox="0 0 {_WIDTH} {height}" font-size="13" fill="{ink}" role="img"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>{"".join(parts)}</svg>'
