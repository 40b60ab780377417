"""The command reference, made from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ofediq.cli.app import app

PAGE = "commands/index.md"
_EXAMPLES = "Examples:"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    guides = [file.src_uri.split("/")[1] for file in files if file.src_uri.startswith("commands/")]
    files.append(File.generated(config, PAGE, content=reference(guides)))
    return files


def reference(guides: list[str]) -> str:
    """All commands on one page: usage, what it does, options, examples.

    Args:
        guides: the hand-written pages beside this one, such as `run.md`; a command links to its own.

    >>> page = reference(["plan.md"])
    >>> "## ofediq plan" in page, "[More](plan.md)" in page, "| `--budget" in page
    (True, True, True)
    """
    root: Any = typer.main.get_command(app)
    lines = ["# All commands", "", root.help, "", *_shell("ofediq --help"), ""]
    for path, command in _walk("ofediq", root):
        lines += [f"{'#' * (1 + path.count(' '))} {path}", "", *_describe(path, command), ""]
        if f"{path.split()[-1]}.md" in guides and path.count(" ") == 1:
            lines += [f"[More]({path.split()[-1]}.md)", ""]
    return "\n".join(lines)


def _walk(path: str, group: Any) -> Iterator[tuple[str, Any]]:
    """Every command below `group` with its full name, groups before what they hold."""
    for name, command in group.commands.items():
        if not command.hidden:
            yield f"{path} {name}", command
            if hasattr(command, "commands"):
                yield from _walk(f"{path} {name}", command)


def _describe(path: str, command: Any) -> Iterator[str]:
    text, _, examples = (command.help or "").partition(_EXAMPLES)
    context = typer.Context(command, info_name=path)
    yield from _shell(command.get_usage(context).removeprefix("Usage:").strip())
    yield from ("", text.strip(), "")
    records = [parameter.get_help_record(context) for parameter in command.params if not parameter.hidden]
    if any(records):
        yield from ("| option | meaning |", "|---|---|")
        yield from (f"| `{record[0]}` | {_cell(record[1])} |" for record in records if record)
        yield ""
    if examples.strip():
        yield from _shell(*(line.strip() for line in examples.strip().splitlines()))


def _shell(*lines: str) -> list[str]:
    return ["```sh", *lines, "```"]


def _cell(text: str) -> str:
    """Text that is safe in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
