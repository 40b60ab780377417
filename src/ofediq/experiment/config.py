"""`Config`: every choice that decides the outcome of an experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from ofediq.differences import differing
from ofediq.errors import DataError, InputError, refusing, require
from ofediq.settings import (
    FilePath,
    Finite,
    Fraction,
    Positive,
    Seed,
    Settings,
    accepted_by,
    from_table,
    limited,
    one_of,
    setting,
)

DEFAULT_CLIENTS, DEFAULT_STEPS, DEFAULT_BUDGET = 1000, 300, 0.01
_PAPER_METHODS = ("fedogd", "ofedavg", "fedomd", "ofediq")
_AUTO_METHODS = ("fedogd", "ofediq", "ofedgrid", "local")
_PRIVATE_METHODS = ("fedogd", "private")
_LAST_SEED = 2**32 - 1
_DATA, _LEARNING, MACHINES = "Data and clients", "Methods and model", "Machines"  # parts of the help page

# The limits are far above what fits into memory today: what exceeds them is a slip, and gets a sentence at once.
Clients = Annotated[int, limited(1, 10**7)]
Steps = Annotated[int, limited(1, 10**8)]
Sizes = Annotated[tuple[Annotated[int, limited(1, 10**6)], ...], Meta(max_length=64)]

Options = Annotated[
    dict[str, str | bool | int | Finite | list[str]],
    Meta(extra={"rule": "be a table of texts, finite numbers, true and false"}),
]


@dataclass(frozen=True, kw_only=True)
class Config(Settings):
    """Every choice of an experiment. What is left open is decided at once, so that a file says all of it.

    The fields are also the options of `ofediq run`, `frontier` and `up`: a new one is declared here and nowhere else.

    >>> config = Config(dataset="digits", methods=("fedogd", "ofediq"), clients=20)
    >>> config.partition, config == Config.from_dict(config.to_dict())
    ('random', True)
    """

    dataset: Annotated[str, one_of("ofediq.streams:NAMES")] | None = setting(
        None, "Named dataset; `ofediq data` lists them.", shown="digits", panel=_DATA
    )
    data: FilePath | None = setting(None, "Your own .csv, .tsv, .parquet or .npz; needs --target.")
    target: str | None = setting(None, "Column of the file to predict.")
    client_column: str | None = setting(None, "Column that says whose row it is.")
    time_column: str | None = setting(None, "Column to sort by.")
    options: Options = setting(
        {}, "More for loading the data, such as missing=drop; repeatable.", option="option"
    )
    scaling: Annotated[str, one_of("ofediq.streams.scaling:Scaling")] = setting(
        "auto", "Features: auto, none, minmax, standard or authors."
    )
    clients: Clients | None = setting(None, "Number of clients.", shown="1000, or those of the file")
    steps: Steps | None = setting(None, "Number of time steps.", shown="300, or those of the file")
    partition: Annotated[str, one_of("ofediq.streams:KINDS")] | None = setting(
        None,
        "Who sees what: random, passes, dirichlet, label, column, sequential or stretches.",
        shown="random; passes for authors; a file's own clients, or stretches of it",
    )
    alpha: Positive = setting(0.5, "Concentration of dirichlet.")
    labels: Annotated[int, limited(1, 10**6)] = setting(2, "Labels per client of label.")
    methods: tuple[Annotated[str, accepted_by("ofediq.methods.registry:known")], ...] = setting(
        (),
        "Methods with commas, such as fedogd,ofediq(levels=7); `ofediq methods` lists them.",
        shown="the first four; fedogd, ofediq, ofedgrid, local for auto; fedogd, private with --epsilon",
        panel=_LEARNING,
    )
    budget: Fraction | None = setting(
        None,
        "Allowed uplink bits as a fraction of FedOGD's, in (0, 1].",
        shown="0.01; 0.1 for auto with fewer than 1000 parameters",
    )
    budget_of: Literal["formula", "uplink", "total"] = setting(
        "formula",
        "What the budget is a share of: formula (payload bits), uplink (all bytes up), total (all bytes, both ways).",
    )
    bytes_per_hour: Positive | None = setting(
        None, "Instead of a budget: bytes that one client may send and receive per hour."
    )
    step_seconds: Positive = setting(60.0, "Seconds between two steps, for bytes per hour.")
    step_size: Positive = setting(0.01, "Learning rate.")
    preset: Literal["auto", "paper", "authors"] | None = setting(
        None,
        "auto: nothing to tune; paper: descent, Bernoulli sampling, local steps; "
        "authors: Adam, fixed sampling, frozen weights.",
        shown="auto for a file, else paper",
    )
    baseline: Annotated[str, accepted_by("ofediq.streams.features:checked_baseline")] | None = setting(
        None, "Naive forecast that auto starts from: auto, last, mean, season(24) or none.", shown="auto"
    )
    horizon: Annotated[int, limited(1, 10_000)] | None = setting(
        None,
        "Rows after a client's last known target that auto predicts; 1 is the target of the row at hand.",
        shown="1",
    )
    personal: bool | None = setting(
        None,
        "Predict with the common model, the naive forecast and an own model, by how each has done; no bits.",
        shown="with auto, where there is a naive forecast",
    )
    server: Annotated[str, one_of("ofediq.methods:SERVERS")] | None = setting(
        None,
        "How the server moves the model: descend, adam, averaged, or, without a step size, coin or adaptive.",
        shown="the preset's",
    )
    epsilon: Positive | None = setting(
        None, "Privacy that private methods promise for each sample.", shown="4 where a method promises any"
    )
    delta: Fraction = setting(1e-5, "How likely that promise may fail.")
    combine: Annotated[str, accepted_by("ofediq.methods:combine_rule")] | None = setting(
        None,
        "Messages: sum, guard (as live), coordinate_median, trimmed_mean(share=0.1), krum(hostile=0.2) "
        "or centred_clipping.",
        shown="sum; guard with an attack",
    )
    attack: Annotated[str, accepted_by("ofediq.methods:attack")] | None = setting(
        None,
        "Hostile clients: flip(share=0.1, size=1), scale or constant, in place of some updates.",
        shown="none",
    )
    planner: Literal["paper", "exact"] = setting(
        "paper", "OFedIQ's parameters: paper (Algorithm 3) or exact (the optimum)."
    )
    model: Annotated[str, accepted_by("ofediq.models.catalog:checked_name")] = setting(
        "auto", "auto, linear, softmax, mlp, cnn, or layers: 'conv 32, pool, dense 10'."
    )
    hidden: Sizes = setting((64, 64), "Layer sizes of the mlp.")
    start_from: FilePath | None = setting(
        None, "Begin with the model of an earlier run or server: its model.safetensors."
    )
    seeds: Annotated[int, limited(1, 10**6)] = setting(1, "Number of seeds.")
    seed: Seed = setting(0, "The first seed.")
    regret: bool | None = setting(
        None, "Measure the regret.", shown="if the model is convex, but not for auto"
    )
    devices: Annotated[int, limited(1, 4096)] = setting(
        1, "Devices to split the clients over.", panel=MACHINES
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bytes_per_hour is not None and self.budget is not None:
            raise InputError(
                f"`budget` and `bytes_per_hour` exclude each other, got {self.budget} and {self.bytes_per_hour}"
            )
        self._decide()
        self._check_source()
        require(len(set(self.methods)) == len(self.methods), "methods", "must differ", ",".join(self.methods))
        last = _LAST_SEED + 1 - self.seeds
        require(self.seed <= last, "seed", f"must be an integer from 0 to {last}", self.seed)

    @property
    def name(self) -> str:
        """What the data are called: the dataset's name, or the file's without its ending."""
        return str(self.dataset) if self.data is None else Path(self.data).name.split(".")[0]

    @property
    def all_seeds(self) -> range:
        """The seeds, in order."""
        return range(self.seed, self.seed + self.seeds)

    @property
    def automatic(self) -> bool:
        """Whether the preset is `auto`: what is left open depends on the data."""
        return self.preset == "auto"

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
        return cls(**from_table(cls, plain, ""))

    @classmethod
    def read(cls, path: str | Path) -> Config:
        """The configuration in a JSON file: a run's config.json or summary.json, or the bare choices."""
        with refusing("config", "a readable JSON file", path, ValueError, RecursionError, kind=DataError):
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not isinstance(content.get("config", {}), dict):
            raise DataError(f"`config` must hold a JSON object, got {str(path)!r}")
        return cls.from_dict(content.get("config", content))

    def difference(self, other: Config) -> str:
        """The first choice in which two configurations differ, in words; empty if they agree.

        >>> Config(budget=0.1).difference(Config())
        'budget is 0.1, not 0.01'
        """
        found = differing(self.to_dict(), other.to_dict())
        return next((f"{name} is {mine}, not {theirs}" for name, mine, theirs in found), "")

    def _decide(self) -> None:
        """Fill in what depends on other choices."""
        if self.dataset is None and self.data is None:
            object.__setattr__(self, "dataset", "digits")
        if self.preset is None:
            object.__setattr__(self, "preset", "paper" if self.data is None else "auto")
        if not self.methods:
            usual = _AUTO_METHODS if self.automatic else _PAPER_METHODS
            object.__setattr__(self, "methods", usual if self.epsilon is None else _PRIVATE_METHODS)
        if self.automatic:
            return  # `auto` decides when it has seen the data
        for name in ("baseline", "horizon"):
            require(getattr(self, name) is None, name, "needs preset auto", getattr(self, name))
        require(
            not self.personal, "personal", "needs preset auto; elsewhere, methods fedpoe(NAME)", self.personal
        )
        if self.budget is None and self.bytes_per_hour is None:
            object.__setattr__(self, "budget", DEFAULT_BUDGET)
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
            for name in ("target", "client_column", "time_column"):
                require(getattr(self, name) is None, name, "needs `data`, a file", getattr(self, name))
            return
        if self.dataset is not None:
            raise InputError(
                f"`data` and `dataset` exclude each other, got {self.data!r} and {self.dataset!r}"
            )
        if self.target is None:
            raise InputError("`target` must name the column of `data` to predict, got nothing")
