"""`Config`: every choice that decides the outcome of an experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ofediq.errors import (
    DataError,
    InputError,
    require,
    require_choice,
    require_fraction,
    require_integer,
    require_positive,
)
from ofediq.methods import KEYS, PRESETS, SERVERS
from ofediq.streams import KINDS, NAMES

_MODELS = ("auto", "linear", "softmax", "mlp", "cnn")
_SCALINGS = ("auto", "none", "minmax", "standard", "authors")
_PLANNERS = ("paper", "exact")
_LAST_SEED = 2**32 - 1
DEFAULT_CLIENTS, DEFAULT_STEPS = 1000, 300


@dataclass(frozen=True, kw_only=True)
class Config:
    """Every choice of an experiment. What is left open is decided at once, so that a file says all of it.

    Attributes:
        dataset: one of the named datasets, digits by default; None when `data` is given.
        data: a CSV, Parquet or npz file instead.
        target: the column of `data` to predict.
        client_column: the column of `data` that says whose sample it is.
        time_column: the column of `data` to sort by.
        options: more arguments for `ofediq.streams.load`, `load_file` or `synthetic`, by name.
        methods: keys of the methods to compare.
        budget: gamma, the fraction of FedOGD's uplink bits that each method may spend.
        clients: K; None: 1000, or all clients of the data for partition "column".
        steps: T; None: 300, or as long as the data last for partition "column".
        step_size: eta.
        preset: `paper` or `authors`.
        server: descend, adam or coin, which needs no step size; None: the preset's own.
        model: auto, linear, softmax, mlp or cnn.
        hidden: layer sizes of the mlp.
        seeds: number of seeds: partition, model and draws change together.
        seed: the first of them.
        partition: who sees what; by default "column" where the data name clients, "sequential" where they only
            have a time, "passes" for the authors' preset, else "random".
        alpha: concentration of partition "dirichlet".
        labels: labels per client of partition "label".
        scaling: of the features.
        planner: how OFedIQ's parameters are chosen, `paper` or `exact`.
        regret: whether to compute regrets; None: if the model is convex.
        devices: devices to split the clients over.

    >>> config = Config(dataset="digits", methods=("fedogd", "ofediq"), clients=20)
    >>> config.partition, config == Config.from_dict(config.to_dict())
    ('random', True)
    """

    dataset: str | None = None
    data: str | None = None
    target: str | None = None
    client_column: str | None = None
    time_column: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ("fedogd", "ofedavg", "fedomd", "ofediq")
    budget: float = 0.01
    clients: int | None = None
    steps: int | None = None
    step_size: float = 0.01
    preset: str = "paper"
    server: str | None = None
    model: str = "auto"
    hidden: tuple[int, ...] = (64, 64)
    seeds: int = 1
    seed: int = 0
    partition: str | None = None
    alpha: float = 0.5
    labels: int = 2
    scaling: str = "auto"
    planner: str = "paper"
    regret: bool | None = None
    devices: int = 1

    def __post_init__(self) -> None:
        self._decide()
        self._check_source()
        self._check_methods()
        require_fraction("budget", self.budget)
        require_positive("step_size", self.step_size)
        require_positive("alpha", self.alpha)
        for name in ("clients", "steps"):
            if getattr(self, name) is not None:
                require_integer(name, getattr(self, name), 1)
        for name in ("seeds", "labels", "devices"):
            require_integer(name, getattr(self, name), 1)
        require_integer("seed", self.seed, 0, _LAST_SEED + 1 - self.seeds)
        for size in self.hidden:
            require_integer("hidden", size, 1)
        choices = {"preset": PRESETS, "model": _MODELS, "scaling": _SCALINGS, "planner": _PLANNERS}
        for name, allowed in {**choices, "partition": KINDS}.items():
            require_choice(name, getattr(self, name), allowed)
        if self.server is not None:
            require_choice("server", self.server, SERVERS)

    @property
    def name(self) -> str:
        """What the data are called: the dataset's name, or the file's without its ending."""
        return str(self.dataset) if self.data is None else Path(self.data).name.split(".")[0]

    @property
    def all_seeds(self) -> range:
        """The seeds, in order."""
        return range(self.seed, self.seed + self.seeds)

    @property
    def own_clients(self) -> bool:
        """Whether clients and time are those of the data."""
        return self.partition == "column" and self.dataset != "synthetic"

    def to_dict(self) -> dict[str, Any]:
        """The choices as JSON has them."""
        plain: dict[str, Any] = json.loads(json.dumps({**asdict(self), "options": dict(self.options)}))
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Config:
        """The inverse of `to_dict`; what is missing gets its default."""
        known = {one.name for one in fields(cls)}
        for name in plain:
            require(name in known, "config", f"must hold only {', '.join(sorted(known))}", name)
        listed = {name: _tuple(name, plain[name]) for name in ("methods", "hidden") if name in plain}
        return cls(**{**plain, **listed})

    @classmethod
    def read(cls, path: str | Path) -> Config:
        """The configuration in a JSON file: a run's config.json or summary.json, or the bare choices."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise DataError(f"`config` must be a readable JSON file, got {str(path)!r} ({why})") from None
        if not isinstance(content, dict) or not isinstance(content.get("config", {}), dict):
            raise DataError(f"`config` must hold a JSON object, got {str(path)!r}")
        return cls.from_dict(content.get("config", content))

    def difference(self, other: Config) -> str:
        """The first choice in which two configurations differ, in words; empty if they agree.

        >>> Config(budget=0.1).difference(Config())
        'budget is 0.1, not 0.01'
        """
        mine, theirs = self.to_dict(), other.to_dict()
        return next(
            (f"{name} is {mine[name]}, not {theirs[name]}" for name in mine if mine[name] != theirs[name]), ""
        )

    def _decide(self) -> None:
        """Fill in what depends on other choices."""
        if self.dataset is None and self.data is None:
            object.__setattr__(self, "dataset", "digits")
        if self.partition is None:
            object.__setattr__(self, "partition", self._usual_partition())
        if not self.own_clients:
            object.__setattr__(self, "clients", DEFAULT_CLIENTS if self.clients is None else self.clients)
            object.__setattr__(self, "steps", DEFAULT_STEPS if self.steps is None else self.steps)

    def _usual_partition(self) -> str:
        if self.client_column is not None or self.dataset == "synthetic":
            return "column"
        if self.time_column is not None:
            return "sequential"
        return "passes" if self.preset == "authors" else "random"

    def _check_source(self) -> None:
        if self.data is None:
            require_choice("dataset", str(self.dataset), NAMES)
            for name in ("target", "client_column", "time_column"):
                require(getattr(self, name) is None, name, "needs `data`, a file", getattr(self, name))
            return
        if self.dataset is not None:
            raise InputError(
                f"`data` and `dataset` exclude each other, got {self.data!r} and {self.dataset!r}"
            )
        if self.target is None:
            raise InputError("`target` must name the column of `data` to predict, got nothing")

    def _check_methods(self) -> None:
        require(len(self.methods) > 0, "methods", "must name at least one method", self.methods)
        for key in self.methods:
            require_choice("methods", key, KEYS)
        require(len(set(self.methods)) == len(self.methods), "methods", "must differ", ",".join(self.methods))


def _tuple(name: str, value: Any) -> tuple[Any, ...]:
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    require(listed, name, "must be a list", value)
    return tuple(value)
