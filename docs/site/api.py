"""The API reference: one page for each room, from its docstrings."""

from __future__ import annotations

import importlib
import sys
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

    A function that is called like a module, such as `simulation.reference`, hides it for Python but not for a reader
    of the source; it is named by its full path.

    >>> import ofediq.simulation
    >>> page("ofediq.simulation", ofediq.simulation).splitlines()[-1]
    '::: ofediq.simulation.reference.reference'
    """
    public = getattr(room, "__all__", None)
    hidden = [one for one in public or () if f"{name}.{one}" in sys.modules and callable(getattr(room, one))]
    shown = "" if public is None else f"      members: {[one for one in public if one not in hidden]}\n"
    options = f"    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n{shown}"
    others = [f"::: {getattr(room, one).__module__}.{one}" for one in hidden]
    return "\n".join([f"# {name}", "", f"::: {name}", options, *others])


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
