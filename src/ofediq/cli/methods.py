"""`ofediq methods`: the methods that come by name, and a page about one of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ofediq.methods.registry import Entry


def methods(
    name: Annotated[str | None, typer.Argument(help="Explain this one.", show_default="list all")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the list as a Markdown table.")] = False,
) -> None:
    """List the methods, or explain one: equations, parameters, memory, source.

    Every name works in run, frontier, up and federation.toml, with parameters
    in brackets. Packages add methods of their own through entry points.

    Examples:
      ofediq methods
      ofediq methods scaffold
      ofediq run --methods "fedogd,topk_ef(rate=0.3)"
    """
    from ofediq.methods.registry import entries, entry

    if name is not None:
        found = entry(name)
        typer.echo(json.dumps(found.describe(), indent=2)) if as_json else _explain(found)
        return
    if as_json:
        typer.echo(json.dumps([one.describe() for one in entries().values()], indent=2))
        return
    if markdown:
        typer.echo(table())
        return
    from ofediq.cli import render

    cells = [
        (one.name, one.memory or "none", one.theorem or "none", one.summary) for one in entries().values()
    ]
    render.show(render.table(("method", "memory", "theorem", "what it does"), cells, words=True))


def table() -> str:
    """The methods of this package as a Markdown table: what `docs/methods.md` holds."""
    from ofediq.methods.registry import entries

    rows = ["| name | what it does | a client remembers | from |", "|---|---|---|---|"]
    for one in entries().values():
        if one.build.__module__.startswith("ofediq."):
            cells = (f"`{one.name}`", one.summary, one.memory or "nothing", one.source)
            rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(rows)


def _explain(found: Entry) -> None:
    from ofediq.cli import render

    facts = {
        "source": found.source,
        "memory": found.memory or "none",
        "theorem": f"Theorem {found.theorem} of the paper" if found.theorem else "none",
    }
    cells = [
        (one.name, "must be given" if one.required else str(one.default), one.meaning)
        for one in found.parameters
    ]
    text = found.documentation.partition("\nArgs:")[0].strip()
    render.show(
        render.heading(found.name),
        text,
        render.facts(facts),
        render.table(("parameter", "default", "meaning"), cells, words=True),
    )
