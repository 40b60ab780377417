"""`federation.toml` and `client.toml`: read, check, say what is wrong."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from ofediq.errors import InputError, require, require_choice, require_fraction, require_integer
from ofediq.federation.names import require_name
from ofediq.federation.network.link import Broker
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.task import ModelSpec
from ofediq.methods import Method, at_budget, server_rule, with_server
from ofediq.tracking import TrackerChoice

T = TypeVar("T")


@dataclass(frozen=True)
class MethodChoice:
    """`[method]`: which method, and what it may spend.

    Attributes:
        key: as in `ofediq run`.
        budget: fraction of FedOGD's uplink bits.
        step_size: eta.
        preset: `paper` or `authors`.
        planner: `paper` or `exact`.
        server: descend, adam or coin; the preset's own if left out.
        clients: K that the plan is made for; the roster's length if left out.
        steps: horizon of methods that spend a budget over a whole run.
    """

    key: str = "ofediq"
    budget: float = 0.01
    step_size: float = 0.01
    preset: str = "paper"
    planner: Literal["paper", "exact"] = "paper"
    server: str | None = None
    clients: int | None = None
    steps: int | None = None

    def build(self, dim: int, clients: int) -> Method:
        """The method for a model of `dim` parameters."""
        expected = require_integer("clients", self.clients or clients or 1, 1)
        require_fraction("budget", self.budget)
        require_choice("planner", self.planner, ("paper", "exact"))
        chosen = at_budget(
            self.key, self.budget, dim, expected, self.step_size, self.preset, self.planner, self.steps
        )
        return (
            chosen if self.server is None else with_server(chosen, server_rule(self.server, self.step_size))
        )


@dataclass(frozen=True)
class PageChoice:
    """`[page]`: where the live page is served; a token is needed anywhere but on loopback."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 8321
    token: str | None = None


@dataclass(frozen=True)
class FederationConfig:
    """All of `federation.toml`.

    Attributes:
        name: the federation's, first part of all topics.
        seed: of all draws.
        folder: for the state; relative to the configuration file.
        model, method, rounds, page, tracker: tables of these names.
        broker: None for the embedded one.
    """

    name: str
    model: ModelSpec
    seed: int = 0
    folder: Path = Path("state")
    method: MethodChoice = field(default_factory=MethodChoice)
    rules: Rules = field(default_factory=Rules)
    broker: Broker | None = None
    page: PageChoice = field(default_factory=PageChoice)
    tracker: TrackerChoice = field(default_factory=TrackerChoice)

    @classmethod
    def read(cls, path: str | Path) -> FederationConfig:
        """The configuration in a file; raises `InputError` with the table and key that is wrong."""
        path = Path(path)
        content = _load(path)
        known = (
            "name",
            "seed",
            "folder",
            "model",
            "method",
            "broker",
            "rounds",
            "clients",
            "page",
            "tracker",
        )
        _refuse_unknown("", content, known)
        return cls(
            name=require_name("name", content.get("name")),
            seed=require_integer("seed", content.get("seed", 0), 0, 2**32 - 1),
            folder=path.parent / str(content.get("folder", "state")),
            model=_model(_table(content, "model")),
            method=_fill(MethodChoice, "method", _table(content, "method")),
            rules=_rules(content),
            broker=None if "broker" not in content else _broker(path, _table(content, "broker")),
            page=_fill(PageChoice, "page", _table(content, "page")),
            tracker=_fill(TrackerChoice, "tracker", _table(content, "tracker")),
        )


@dataclass(frozen=True)
class SourceChoice:
    """`[source]`: where a client's samples come from.

    Attributes:
        kind: `lines` (JSON lines on standard input), `csv`, or `replay` (a recorded .npz).
        path: the file of `csv` and `replay`; relative to the configuration file.
        target: the column of `csv` to predict.
        features: the columns of `csv` to predict from.
    """

    kind: str = "lines"
    path: str | None = None
    target: str | None = None
    features: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, ("lines", "csv", "replay"))
        if self.kind != "lines":
            require(
                self.path is not None, "path", f"must be given for a source of kind {self.kind}", self.path
            )
        if self.kind == "csv":
            require(self.target is not None, "target", "must name the column to predict", self.target)


@dataclass(frozen=True)
class ClientConfig:
    """All of `client.toml`."""

    name: str
    federation: str
    broker: Broker
    source: SourceChoice = field(default_factory=SourceChoice)

    @classmethod
    def read(cls, path: str | Path) -> ClientConfig:
        """The configuration in a file; raises `InputError` with the table and key that is wrong."""
        path = Path(path)
        content = _load(path)
        _refuse_unknown("", content, ("name", "federation", "broker", "source"))
        source = dict(_table(content, "source"))
        if isinstance(source.get("path"), str):
            source["path"] = str(path.parent / source["path"])
        return cls(
            name=require_name("name", content.get("name")),
            federation=require_name("federation", content.get("federation")),
            broker=_broker(path, _table(content, "broker")),
            source=_fill(SourceChoice, "source", source),
        )


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"`config` must be a file that can be read, got {str(path)!r}: {error.strerror}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"`config` must be TOML, got {str(path)!r}: {error}") from None


def _table(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = content.get(name, {})
    require(isinstance(table, Mapping), name, f"must be a table, [{name}]", table)
    return cast(Mapping[str, Any], table)


def _refuse_unknown(table: str, content: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in content:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"it knows {', '.join(known)}"
            where = f"[{table}]" if table else "the configuration"
            raise InputError(f"`{key}` is not known in {where}: {hint}")


def _fill(kind: type[T], table: str, content: Mapping[str, Any]) -> T:
    """A dataclass from a table; a value of another type than the default's is refused."""
    slots = {slot.name: slot for slot in fields(kind)}  # type: ignore[arg-type]  # a dataclass, by every caller
    _refuse_unknown(table, content, tuple(slots))
    values = {}
    for key, value in content.items():
        default = slots[key].default
        number = isinstance(default, (int, float)) and not isinstance(default, bool)
        if number and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise InputError(f"`{key}` in [{table}] must be a number, got {value!r}")
        if isinstance(default, (bool, str)) and type(value) is not type(default):
            wanted = "true or false" if isinstance(default, bool) else "a text"
            raise InputError(f"`{key}` in [{table}] must be {wanted}, got {value!r}")
        values[key] = tuple(value) if isinstance(value, list) else value
    missing = [
        name for name, slot in slots.items() if slot.default is MISSING and slot.default_factory is MISSING
    ]
    for name in missing:
        require(name in values, name, f"must be given in [{table}]", None)
    return kind(**values)


def _model(content: Mapping[str, Any]) -> ModelSpec:
    values = dict(content)
    if "features" in values:
        require("shape" not in values, "features", "excludes `shape` in [model]", values["features"])
        values["shape"] = [values.pop("features")]
    values.setdefault("name", "auto")
    values.setdefault("task", "classification" if "classes" in values else "regression")
    shape = values.get("shape")
    require(
        isinstance(shape, list) and len(shape) > 0, "shape", "(or `features`) must be given in [model]", shape
    )
    for size in cast(list[Any], shape):
        require_integer("shape", size, 1)
    spec = _fill(ModelSpec, "model", values)
    require_choice("task", spec.task, ("classification", "regression"))
    spec.build()  # every other rule is the model's own
    return spec


def _rules(content: Mapping[str, Any]) -> Rules:
    rounds, clients = dict(_table(content, "rounds")), _table(content, "clients")
    _refuse_unknown(
        "rounds", rounds, ("pace", "interval", "deadline", "min_clients", "start_clients", "count", "clip")
    )
    _refuse_unknown("clients", clients, ("roster", "open"))
    values = {**rounds, **clients}
    if "count" in values:
        values["rounds"] = values.pop("count") or None
    if values.get("clip") == 0:
        values["clip"] = None
    values.setdefault("open", not values.get("roster"))
    values["roster"] = tuple(values.get("roster", ()))
    return Rules(**values)


def _broker(path: Path, content: Mapping[str, Any]) -> Broker:
    values = dict(content)
    for name in ("ca", "certificate", "key"):
        if isinstance(values.get(name), str):
            values[name] = str(path.parent / values[name])
    return _fill(Broker, "broker", values)
