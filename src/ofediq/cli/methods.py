"""`ofediq methods`: the methods that come by name, and a page about one of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated

import typer

from ofediq.cli.answers import JsonOption
from ofediq.report.words import markdown_table

if TYPE_CHECKING:
    from ofediq.methods.registry import Entry


def methods(
    name: Annotated[str | None, typer.Argument(help="Explain this one.", show_default="list all")] = None,
    as_json: JsonOption = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print as Markdown: the list, or the page about one.")
    ] = False,
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
        if as_json:
            typer.echo(json.dumps(found.describe(), indent=2))
        elif markdown:
            typer.echo(page(found))
        else:
            _explain(found)
        return
    if as_json:
        typer.echo(json.dumps([one.describe() for one in entries().values()], indent=2))
        return
    if markdown:
        typer.echo(table())
        return
    from ofediq.cli import render

    cells = [
        (one.name, one.remembers or "none", one.theorem or "none", one.summary) for one in entries().values()
    ]
    render.show(render.table(("method", "memory", "theorem", "what it does"), cells, words=True))


def table() -> str:
    """The methods of this package as a Markdown table: what `docs/methods.md` holds."""
    from ofediq.methods.registry import entries

    rows = [
        (f"`{one.name}`", one.summary, one.remembers or "nothing", one.source)
        for one in entries().values()
        if one.build.__module__.startswith("ofediq.")
    ]
    return markdown_table(("name", "what it does", "a client remembers", "from"), rows)


def page(found: Entry) -> str:
    """Everything about a method as Markdown, under a heading of the second level.

    >>> from ofediq.methods.registry import entry
    >>> page(entry("fedsgd")).splitlines()[0]
    '## fedsgd'
    """
    facts = [f"- {name}: {_plain(fact)}" for name, fact in _facts(found).items()]
    cells = [" | ".join(map(_plain, row)) for row in _parameters(found)]
    lines = [f"## {found.name}", "", _plain(_text(found)), "", *facts, ""]
    return "\n".join(
        [*lines, "| parameter | default | meaning |", "|---|---|---|", *(f"| {one} |" for one in cells)]
    )


def _plain(text: str) -> str:
    """Text in which Markdown finds no marks but its code spans."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_|\[\]])", r"\\\1", part).replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def _text(found: Entry) -> str:
    return found.documentation.partition("\nArgs:")[0].strip()


def _facts(found: Entry) -> dict[str, str]:
    return {
        "source": found.source,
        "memory": found.remembers or "none",
        "model": found.model or "any",
        "budget": "sets its parameters" if found.budgeted else "leaves it as it is",
        "theorem": f"Theorem {found.theorem} of the paper" if found.theorem else "none",
    }


def _parameters(found: Entry) -> list[tuple[str, str, str]]:
    return [
        (one.name, "must be given, or by the budget" if one.required else str(one.default), one.meaning)
        for one in found.parameters
    ]


def _explain(found: Entry) -> None:
    from ofediq.cli import render

    render.show(
        render.heading(found.name),
        _text(found),
        render.facts(_facts(found)),
        render.table(("parameter", "default", "meaning"), _parameters(found), words=True),
    )
