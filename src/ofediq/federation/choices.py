"""The tables of `federation.toml` and `client.toml`: every key with type, range and meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from ofediq.errors import InputError, require
from ofediq.settings import (
    FilePath,
    Fraction,
    NonNegative,
    Positive,
    Settings,
    accepted_by,
    limited,
    one_of,
    setting,
)

if TYPE_CHECKING:
    from ofediq.federation.protocol.task import ModelSpec
    from ofediq.methods import Method
    from ofediq.models import Model
    from ofediq.streams.features import Pipeline

_Size = Annotated[int, limited(1, 10**7)]
_Names = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(max_length=4096)]
USUAL_METHOD = "ofedgrid"
_MOST_PARAMETERS = 2**28  # a broadcast of 1 GiB


@dataclass(frozen=True, kw_only=True)
class ModelChoice(Settings):
    """`[model]`: a built-in model, and what its samples look like."""

    name: Annotated[str, accepted_by("ofediq.models.catalog:checked_name")] = setting(
        "auto", "auto, linear, softmax, mlp, cnn, or layers: 'conv 32, pool, dense 10'."
    )
    features: _Size | None = setting(None, "Numbers per sample; or give `shape`.")
    shape: Annotated[tuple[_Size, ...], Meta(min_length=1, max_length=8)] | None = setting(
        None, "Height and width of images, such as [28, 28]."
    )
    names: _Names = setting((), "Names of the numbers of a sample: clients read dicts and tables by them.")
    labels: _Names = setting(
        (), "Texts of the labels, in their order; without them labels are numbers from 0."
    )
    task: Literal["classification", "regression"] | None = setting(
        None, "What is predicted.", shown="classification where `classes` or `labels` are given"
    )
    classes: Annotated[int, limited(2, 10**6)] | None = setting(
        None, "Number of classes; left out for regression, and where `labels` are given."
    )
    hidden: Annotated[tuple[_Size, ...], Meta(max_length=64)] = setting((64, 64), "Layer sizes of the mlp.")
    l2: NonNegative | None = setting(None, "Weight of the penalty on squares.", shown="the model's own")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features is not None:
            require(self.shape is None, "features", "excludes `shape` in [model]", self.features)
            object.__setattr__(self, "shape", (self.features,))
            object.__setattr__(self, "features", None)
        if self.names and self.shape is None:
            object.__setattr__(self, "shape", (len(self.names),))
        if self.shape is None:
            raise InputError("`shape` (or `features`) must be given in [model]")
        fits = not self.names or len(self.names) == len(set(self.names)) == math.prod(self.shape)
        require(fits, "names", f"must be {math.prod(self.shape)} different names", self.names)
        distinct = len(self.labels) == len(set(self.labels)) != 1
        require(distinct, "labels", "must be two or more different texts", self.labels)
        if self.labels and self.classes is None:
            object.__setattr__(self, "classes", len(self.labels))
        if self.task is None:
            object.__setattr__(self, "task", "regression" if self.classes is None else "classification")
        dim = self.spec().build().dim  # says what does not fit together
        limit = f"must have at most {_MOST_PARAMETERS:,} parameters"
        require(dim <= _MOST_PARAMETERS, "model", limit, dim)

    def spec(self, pipeline: Pipeline | None = None) -> ModelSpec:
        """The model's description for server and clients, on what a `pipeline` makes of samples if there is one."""
        from ofediq.federation.protocol.task import ModelSpec

        return ModelSpec(
            self.name,
            self.shape or (),
            str(self.task),
            self.classes,
            self.hidden,
            self.l2,
            self.names,
            self.labels,
            pipeline,
        )


@dataclass(frozen=True, kw_only=True)
class FeatureChoice(Settings):
    """`[features]`: what every client makes of its readings, online, before the model sees them."""

    enabled: bool | None = setting(
        None, "Whether they do.", shown="with preset auto, where a sample is a row of numbers"
    )
    baseline: Annotated[str, accepted_by("ofediq.streams.features:checked_baseline")] = setting(
        "auto", "Naive forecast that the model adds to: auto, last, mean, season(24) or none."
    )
    lags: Annotated[int, limited(0, 1000)] | None = setting(
        None, "Past targets among the features.", shown="4 numbers, or 2 labels if there are at most 20"
    )
    horizon: Annotated[int, limited(1, 10_000)] = setting(
        1, "Rows after a client's last known target that are predicted; 1 is the target of the row at hand."
    )
    flags: _Names = setting((), "Those of the names that are 0 or 1.")
    gaps: _Names = setting((), "Those that may be missing.")
    calendar: bool = setting(False, "Whether the time of day and of the week are features.")
    scaling: Annotated[str, one_of("ofediq.streams.features.pipeline:SCALES")] = setting(
        "standard", "standard: mean and deviation so far; robust: outliers are cut before they count."
    )

    def pipeline(self, model: ModelChoice) -> Pipeline:
        """What clients do for this model."""
        from ofediq.streams.features import checked_baseline, pipeline_for

        shape = model.shape or ()
        require(len(shape) == 1, "features", "need samples that are rows of numbers", shape)
        names = model.names or tuple(f"x{place}" for place in range(shape[0]))
        for key in ("flags", "gaps"):
            unknown = sorted(set(getattr(self, key)) - set(names))
            require(not unknown, key, f"must be among the names {', '.join(names)}", ", ".join(unknown))
        baseline, season = checked_baseline(self.baseline)
        return pipeline_for(
            names,
            model.classes,
            baseline,
            season or 0,
            flags=self.flags,
            gaps=self.gaps,
            calendar=self.calendar,
            lags=self.lags,
            ahead=self.horizon,
            scaling=self.scaling,
        )


@dataclass(frozen=True, kw_only=True)
class MethodChoice(Settings):
    """`[method]`: which method, and what it may spend."""

    key: Annotated[str, accepted_by("ofediq.methods.registry:known")] = setting(
        USUAL_METHOD, "What runs; `ofediq methods` lists them."
    )
    budget: Fraction | None = setting(
        None,
        "Fraction of FedOGD's uplink bits, in (0, 1].",
        shown="0.01; 0.1 with fewer than 1000 parameters",
    )
    step_size: Positive | None = setting(None, "Learning rate.", shown="0.01, where one is needed")
    preset: Literal["auto", "paper", "authors"] | None = setting(
        None, "auto: nothing to tune; paper or authors.", shown="auto; paper where a step size is given"
    )
    planner: Literal["paper", "exact"] = setting("paper", "How OFedIQ's parameters are chosen.")
    server: Annotated[str, one_of("ofediq.methods:SERVERS")] | None = setting(
        None, "descend, adam, averaged, coin or adaptive.", shown="the preset's"
    )
    combine: Annotated[str, accepted_by("ofediq.methods:combine_rule")] = setting(
        "sum", "sum, coordinate_median, trimmed_mean(share=0.1), krum(hostile=0.2) or centred_clipping."
    )
    clients: Annotated[int, limited(1, 10**7)] | None = setting(
        None, "K that the plan is made for.", shown="the roster's length, or however many come"
    )
    steps: Annotated[int, limited(1, 10**15)] | None = setting(
        None, "Horizon of methods that spend a budget over a whole run."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.preset is None:
            object.__setattr__(self, "preset", "auto" if self.step_size is None else "paper")

    @property
    def automatic(self) -> bool:
        """Whether there is nothing to tune."""
        return self.preset == "auto"

    def budget_for(self, dim: int) -> float:
        """The budget for a model of `dim` parameters."""
        from ofediq.methods import usual_budget

        return usual_budget(dim) if self.budget is None else self.budget

    def build(self, model: Model, clients: int, pipeline: Pipeline | None = None) -> Method:
        """The method for a model, on the features of `pipeline` if there is one."""
        from ofediq.methods import (
            at_budget,
            combine_rule,
            mixed,
            server_rule,
            untuned,
            with_combine,
            with_server,
        )
        from ofediq.methods.budgets.steered import for_each
        from ofediq.models import Anchored

        expected, step_size = self.clients or clients or 1, self.step_size or 0.01
        preset = "paper" if self.automatic else str(self.preset)
        budget = self.budget_for(model.dim)
        chosen = at_budget(
            self.key,
            budget,
            model.dim,
            expected,
            step_size=step_size,
            preset=preset,
            planner=self.planner,
            steps=self.steps,
        )
        if not (self.clients or clients):
            chosen = for_each(chosen, expected)
        chosen = with_combine(chosen, combine_rule(self.combine))
        if self.server is not None:
            return with_server(chosen, server_rule(self.server, step_size))
        if not self.automatic:
            return chosen
        fitted = untuned(
            chosen,
            deep=model.deep,
            clients=expected,
            dim=model.dim,
            outputs=model.linear_outputs,
            busy=None if pipeline is None else pipeline.busy,
        )
        return (
            mixed(fitted, model.dim, expected, model.linear_outputs)
            if isinstance(model, Anchored)
            else fitted
        )


@dataclass(frozen=True, kw_only=True)
class PageChoice(Settings):
    """`[page]`: where the live page is served."""

    enabled: bool = setting(True, "Whether there is a page.")
    host: Annotated[str, Meta(pattern=r"\A[!-~]{1,255}\Z", extra={"rule": "be a host's name"})] = setting(
        "127.0.0.1", "Address to listen on; anywhere but on loopback a token is needed."
    )
    port: Annotated[int, limited(0, 65535)] = setting(8321, "Port of the live page; 0 for a free one.")
    token: (
        Annotated[
            str,
            Meta(
                pattern=r"\A[!-~]{1,1024}\Z",
                extra={"rule": "be a word of printable ASCII characters", "secret": True},
            ),
        ]
        | None
    ) = setting(None, "What a reader has to know.")


@dataclass(frozen=True, kw_only=True)
class SourceChoice(Settings):
    """`[source]`: where a client's samples come from."""

    kind: Literal["lines", "csv", "replay"] = setting(
        "lines", "lines: JSON lines on standard input; csv: a file; replay: a recorded .npz."
    )
    path: FilePath | None = setting(None, "The file of csv and replay, relative to client.toml.")
    target: str | None = setting(None, "The column of csv to predict.")
    features: tuple[str, ...] | None = setting(
        None, "The columns of csv to predict from.", shown="the names in the task, or all others"
    )
    time: str | None = setting(
        None,
        "Its column of dates (ISO 8601, or seconds since 1970), or parts: 'Date,Time' or 'year,month,day,hour'.",
    )
    follow: bool = setting(False, "Whether the file of csv grows: wait at its end for more lines.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind != "lines":
            require(
                self.path is not None, "path", f"must be given for a source of kind {self.kind}", self.path
            )
        else:
            require(self.path is None, "path", "must go with a source of kind csv or replay", self.path)
        if self.kind == "csv":
            require(self.target is not None, "target", "must name the column to predict", self.target)
        plain = self.kind == "csv" and not str(self.path).endswith(".gz")
        require(plain or not self.follow, "follow", "must go with a csv file that is not compressed", True)


@dataclass(frozen=True, kw_only=True)
class MemoryChoice(Settings):
    """`[memory]`: what outlives a client's process, for methods whose clients remember something."""

    path: FilePath | None = setting(
        None, "The file, relative to client.toml.", shown="NAME.memory.npz beside client.toml"
    )
    every: Annotated[int, limited(1, 10**9)] = setting(
        1, "Write it at the end of every so many rounds: flash wears out."
    )


@dataclass(frozen=True, kw_only=True)
class PredictionChoice(Settings):
    """`[predictions]`: where they go, beside the answers to JSON lines."""

    path: FilePath | None = setting(
        None, "File that a JSON line is added to for each, relative to client.toml."
    )
    publish: bool = setting(False, "Whether each is published to FEDERATION/p/NAME.")
    discovery: (
        Annotated[str, Meta(pattern=r"\A[\w/-]{1,64}\Z", extra={"rule": "be a prefix of topics"})] | None
    ) = setting(None, "Home Assistant's prefix, usually homeassistant: makes a sensor of that topic.")
