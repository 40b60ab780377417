"""The API reference: one page for each room, from its docstrings."""

from __future__ import annotations

import importlib
from types import ModuleType

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOMS = (
    "theory",
    "codec",
    "methods",
    "models",
    "streams",
    "simulation",
    "experiment",
    "report",
    "federation",
    "dashboard",
    "tracking",
    "testing",
    "randomness",
    "errors",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each room with public names, and one that leads to them."""
    found = {name: importlib.import_module(f"ofediq.{name}") for name in ROOMS}
    rooms = {name: room for name, room in found.items() if getattr(room, "__all__", True)}
    pages = {f"api/{name}.md": page(f"ofediq.{name}", room) for name, room in rooms.items()}
    pages["api/index.md"] = overview(rooms)
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def page(name: str, room: ModuleType) -> str:
    """The public names of a room, in the order in which it lists them.

    >>> import ofediq.simulation
    >>> page("ofediq.simulation", ofediq.simulation).splitlines()[0]
    '# ofediq.simulation'
    """
    public = getattr(room, "__all__", None)
    shown = "" if public is None else f"      members: {list(public)}\n"
    options = f"    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n{shown}"
    return "\n".join([f"# {name}", "", f"::: {name}", options])


def overview(rooms: dict[str, ModuleType]) -> str:
    """One line for each room: the first of its docstring."""
    lines = [
        "# API",
        "",
        "The names that `import ofediq` offers are the rooms below and, from them, the most used:",
        "",
    ]
    lines += [
        "`simulate`, `plan`, `load`, `load_file`, `partition`, `synthetic`, `naive_references`, and the classes",
        "",
    ]
    lines += ["`Result`, `Regret`, `Stream`, `Dataset`, `Plan`.", "", "| room | |", "|---|---|"]
    for name, room in rooms.items():
        first = (room.__doc__ or "").strip().splitlines()[0]
        lines.append(f"| [`ofediq.{name}`]({name}.md) | {first} |")
    return "\n".join(lines)
