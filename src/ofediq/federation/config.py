"""`federation.toml` and `client.toml`, read from files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ofediq.errors import InputError, refusing
from ofediq.federation.choices import (
    FeatureChoice,
    MemoryChoice,
    MethodChoice,
    ModelChoice,
    PageChoice,
    PredictionChoice,
    SourceChoice,
)
from ofediq.federation.names import Name
from ofediq.federation.network.broker import Broker
from ofediq.federation.protocol.rules import Rules
from ofediq.settings import (
    FilePath,
    FolderPath,
    Seed,
    Settings,
    declared,
    from_table,
    refuse_unknown,
    setting,
)
from ofediq.storage import require_folder
from ofediq.tracking import TrackerChoice

if TYPE_CHECKING:
    from ofediq.federation.protocol.task import ModelSpec

VERSIONED = ("model", "features", "method")
"""The tables of federation.toml that make a version of the task."""


@dataclass(frozen=True, kw_only=True)
class FederationConfig(Settings):
    """All of `federation.toml`; `broker` is None for the embedded one."""

    name: Name = setting(..., "The federation's name, first part of all topics.")
    seed: Seed = setting(0, "Seed of all draws.")
    folder: FolderPath = setting(Path("state"), "Folder of the server's state, relative to the file.")
    start_from: FilePath | None = setting(
        None, "Begin with this model.safetensors, relative to the file; a state in the folder goes first."
    )
    model: ModelChoice
    features: FeatureChoice = field(default_factory=FeatureChoice)
    method: MethodChoice = field(default_factory=MethodChoice)
    rules: Rules = field(default_factory=Rules)
    broker: Broker | None = None
    page: PageChoice = field(default_factory=PageChoice)
    tracker: TrackerChoice = field(default_factory=TrackerChoice)
    versioned: dict[str, Any] = field(
        default_factory=dict
    )  # the tables that make a version, as the file has them

    def __post_init__(self) -> None:
        super().__post_init__()
        require_folder("folder", self.folder)

    def spec(self) -> ModelSpec:
        """The model, on features where clients make some."""
        made = self.features.enabled
        if made is None:
            made = self.method.automatic and len(self.model.shape or ()) == 1
            if not made and self.features != FeatureChoice():
                raise InputError(
                    "`enabled` in [features] must be true or false without preset auto, got nothing"
                )
        return self.model.spec(self.features.pipeline(self.model) if made else None)

    @classmethod
    def read(cls, path: str | Path) -> FederationConfig:
        """The configuration in a file; raises `InputError` with the table and key that is wrong."""
        path, content = Path(path), _load(path)
        tables = (*VERSIONED, "rounds", "clients", "rollout", "broker", "page", "tracker")
        top = _top(cls, content, tables)
        clients = from_table(Rules, content.get("clients", {}), "clients")
        clients.setdefault("open", not clients.get("roster"))
        return cls(
            **{**_relative(path, top, "start_from"), "folder": path.parent / top.get("folder", "state")},
            model=ModelChoice.from_table(content.get("model", {}), "model"),
            features=FeatureChoice.from_table(content.get("features", {}), "features"),
            method=MethodChoice.from_table(content.get("method", {}), "method"),
            rules=Rules(
                **from_table(Rules, content.get("rounds", {}), "rounds"),
                **from_table(Rules, content.get("rollout", {}), "rollout"),
                **clients,
            ),
            broker=_broker(path, content["broker"]) if "broker" in content else None,
            page=PageChoice.from_table(content.get("page", {}), "page"),
            tracker=TrackerChoice.from_table(content.get("tracker", {}), "tracker"),
            versioned={table: content.get(table, {}) for table in VERSIONED},
        )

    def as_version(self, tables: Mapping[str, Any]) -> FederationConfig:
        """The same with these [model], [features] and [method]."""
        return replace(
            self,
            start_from=self.start_from if tables == self.versioned else None,
            model=ModelChoice.from_table(tables["model"], "model"),
            features=FeatureChoice.from_table(tables["features"], "features"),
            method=MethodChoice.from_table(tables["method"], "method"),
            versioned=dict(tables),
        )


@dataclass(frozen=True, kw_only=True)
class ClientConfig(Settings):
    """All of `client.toml`."""

    name: Name = setting(..., "The client's name.")
    federation: Name = setting(..., "The federation's name.")
    broker: Broker
    source: SourceChoice = field(default_factory=SourceChoice)
    memory: MemoryChoice = field(default_factory=MemoryChoice)
    predictions: PredictionChoice = field(default_factory=PredictionChoice)

    def __post_init__(self) -> None:
        super().__post_init__()
        for table, path in (("memory", self.memory.path), ("predictions", self.predictions.path)):
            if path is not None and Path(path).is_dir():
                raise InputError(f"`path` in [{table}] must be a file, got the folder {path!r}")

    @classmethod
    def read(cls, path: str | Path) -> ClientConfig:
        """The configuration in a file; raises `InputError` with the table and key that is wrong."""
        path, content = Path(path), _load(path)
        source = from_table(SourceChoice, content.get("source", {}), "source")
        memory = from_table(MemoryChoice, content.get("memory", {}), "memory")
        told = from_table(PredictionChoice, content.get("predictions", {}), "predictions")
        top = _top(cls, content, ("broker", "source", "memory", "predictions"))
        memory = {"path": f"{top.get('name')}.memory.npz", **memory}
        return cls(
            **top,
            broker=_broker(path, content.get("broker", {})),
            source=SourceChoice(**_relative(path, source, "path")),
            memory=MemoryChoice(**_relative(path, memory, "path")),
            predictions=PredictionChoice(**_relative(path, told, "path")),
        )


def _load(path: str | Path) -> dict[str, Any]:
    with refusing("config", "a file that can be read", path):
        content = Path(path).read_bytes()
    # Of TOML, of UTF-8, of a number too long, of tables too deep.
    with refusing("config", "TOML", path, ValueError, RecursionError):
        return tomllib.loads(content.decode())


def _top(kind: type[Settings], content: Mapping[str, Any], tables: tuple[str, ...]) -> dict[str, Any]:
    """The settings above a file's tables, checked; and that there are no other tables."""
    refuse_unknown(content, (*(one.key for one in declared(kind)), *tables), "")
    return from_table(kind, {key: value for key, value in content.items() if key not in tables}, "")


def _broker(path: Path, content: object) -> Broker:
    return Broker(**_relative(path, from_table(Broker, content, "broker"), "ca", "certificate", "key"))


def _relative(path: Path, values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """`values` with the paths called `names` taken from the folder of the file `path`."""
    found = {name: str(path.parent / values[name]) for name in names if values.get(name) is not None}
    return {**values, **found}
