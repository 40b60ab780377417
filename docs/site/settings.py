"""The reference of all files that a user writes, made from the declarations that they are checked against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ofediq.experiment import Config
from ofediq.federation import Broker, ClientConfig, FederationConfig, Rules
from ofediq.federation.choices import (
    FeatureChoice,
    MemoryChoice,
    MethodChoice,
    ModelChoice,
    PageChoice,
    PredictionChoice,
    SourceChoice,
)
from ofediq.settings import declared, rule
from ofediq.tracking import TrackerChoice

PAGE = "commands/settings.md"
FILES: dict[str, dict[str, type[Any]]] = {
    "federation.toml": {
        "": FederationConfig,
        "model": ModelChoice,
        "features": FeatureChoice,
        "method": MethodChoice,
        "rounds": Rules,
        "clients": Rules,
        "rollout": Rules,
        "broker": Broker,
        "page": PageChoice,
        "tracker": TrackerChoice,
    },
    "client.toml": {
        "": ClientConfig,
        "broker": Broker,
        "source": SourceChoice,
        "memory": MemoryChoice,
        "predictions": PredictionChoice,
    },
    "config.json": {"": Config},
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    files.append(File.generated(config, PAGE, content=reference()))
    return files


def reference() -> str:
    """All files on one page: each key, what it means, what it may be, and its default.

    >>> "| `deadline` | Seconds after which a round closes" in reference()
    True
    """
    lines = ["# All settings", "", "Every value is checked before anything starts; nothing is converted."]
    for file, tables in FILES.items():
        lines += ["", f"## {file}"]
        for table, kind in tables.items():
            lines += ["", *([f"### [{table}]", ""] if table else []), *_table(table, kind)]
    return "\n".join(lines)


def _table(table: str, kind: type[Any]) -> Iterator[str]:
    yield from ("| key | | must | default |", "|---|---|---|---|")
    for one in declared(kind, table or None):
        default = (
            "none, it must be given" if one.default is MISSING else one.note.shown or _default(one.default)
        )
        yield f"| `{one.key}` | {_cell(one.note.doc)} | {_cell(rule(one.kind))} | {_cell(default)} |"


def _default(value: Any) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, bool):
        return f"`{value}`".lower()
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def _cell(text: str) -> str:
    """Text that is safe in a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;")
