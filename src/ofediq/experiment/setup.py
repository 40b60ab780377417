"""`Experiment`: from the choices of a configuration to streams, model and methods."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from ofediq.arrays import Vector
from ofediq.errors import BudgetError, InputError, require
from ofediq.experiment import auto
from ofediq.experiment.archive import load_result
from ofediq.experiment.config import Config
from ofediq.federation.model_file import start_from
from ofediq.federation.protocol.task import ModelSpec
from ofediq.methods import (
    Method,
    at_budget,
    attacked,
    combine_rule,
    mixed,
    own_server,
    server_rule,
    untuned,
    usual_budget,
    with_combine,
    with_server,
)
from ofediq.methods.budgets.connection import fedogd_bytes
from ofediq.methods.budgets.steered import attended
from ofediq.methods.privacy import promise_of
from ofediq.methods.registry import entry, parse
from ofediq.methods.round import formula_bits
from ofediq.models import Model, build
from ofediq.simulation import Result, simulate
from ofediq.streams import Dataset, Stream, load, load_file, partition, synthetic
from ofediq.streams.features import Pipeline


@dataclass(frozen=True, eq=False)
class Experiment:
    """The parts of an experiment.

    Attributes:
        config: the choices behind it, with those that had to wait for the data.
        deal: the stream of a seed.
        model: what learns.
        methods: by key, each with the parameters that the budget buys. All seeds share them, and with them the
            compiled code.
        notes: what a user should know before reading the result, a sentence each.
        spec: the model as its file describes it.
        initial: where the model starts, if not at its own start.
        readings: the first seed's stream before clients make features of it.
        origin: makes it again, in another process; None if nobody can.
    """

    config: Config
    deal: Callable[[int], Stream]
    model: Model
    methods: Mapping[str, Method]
    notes: tuple[str, ...]
    origin: Callable[[], Experiment] | None = None
    spec: ModelSpec | None = None
    initial: Vector | None = None
    readings: Stream | None = None

    @classmethod
    def set_up(cls, config: Config) -> Experiment:
        """Load the data and choose model and methods; every error in a configuration shows up here.

        >>> experiment = Experiment.set_up(Config(clients=20, steps=10, methods=("fedogd", "fedomd")))
        >>> experiment.model.dim, experiment.deal(0).order.shape
        (650, (10, 20))
        >>> experiment.notes[0]
        'FedOMD never sends: its period of 100 steps is longer than the run of 10 (a budget of 0.1 would do).'
        """
        origin = partial(cls.set_up, config)
        prepared = auto.prepare(config, _load_options(config)) if config.automatic else None
        deal = _dealer(config) if prepared is None else lambda _: prepared.stream
        stream = deal(config.seed)
        assumed: tuple[str, ...] = ()
        if prepared is None:
            model = build(
                config.model, stream.x.shape[1:], stream.task, classes=stream.classes, hidden=config.hidden
            )
        else:
            model, assumed = auto.model_for(config, stream, prepared.pipeline), prepared.assumed
        config, allowed = _allowance(config, model.dim)
        pipeline = None if prepared is None else prepared.pipeline
        methods = _methods(config, model, stream, pipeline)
        methods = _told_apart({key: _in_company(one, config) for key, one in methods.items()})
        assumed = (*assumed, *allowed, *_own_servers(config, methods))
        notes = [f"Assumed: {'; '.join(assumed)}."] if assumed else []
        budget = cast(float, config.budget)
        notes += [note for one in methods.values() for note in _concerns(one, budget, model, stream)]
        spec = _spec(config, stream, pipeline)
        initial = None if config.start_from is None else start_from(config.start_from, model, spec)
        readings = stream if prepared is None else prepared.readings
        return cls(config, deal, model, methods, tuple(notes), origin, spec, initial, readings)

    def simulate(self, key: str, stream: Stream, seed: int, **more: Any) -> Result:
        """Run one method with one seed, whose `stream` it is; `more` is for `ofediq.simulate`."""
        return simulate(self.methods[key], stream, self.model, seed, initial=self.initial, **more)

    def load(self, path: Path, key: str, stream: Stream, seed: int) -> Result:
        """The result of one method with one seed that is kept in `path`."""
        return load_result(path, self.methods[key], self.model, stream, seed, self.initial)

    def unaffordable(self, config: Config) -> dict[str, str]:
        """Of the methods of `config`, another budget for this model and stream, those that need more, and why."""
        stream, refused = self.deal(self.config.seed), dict[str, str]()
        for key in config.methods:
            try:
                _methods(replace(config, methods=(key,)), self.model, stream)
            except BudgetError as error:
                refused[key] = str(error)
        return refused


def _allowance(config: Config, dim: int) -> tuple[Config, tuple[str, ...]]:
    """The configuration with a budget, and how it came to it where nobody said."""
    if config.bytes_per_hour is not None:
        share = config.bytes_per_hour * config.step_seconds / 3600 / fedogd_bytes(dim)
        config = replace(config, bytes_per_hour=None, budget=min(1.0, share), budget_of="total")
        return config, (f"{config.budget:.3g} of all bytes of FedOGD, as the bytes per hour allow",)
    if config.budget is None:
        config = replace(config, budget=usual_budget(dim))
        return config, (f"{config.budget:.0%} of FedOGD's bits with {dim:,} parameters (--budget)",)
    return config, ()


def _own_servers(config: Config, methods: Mapping[str, Method]) -> tuple[str, ...]:
    """Which methods of preset `auto` are not without a step size, because their server is part of them."""
    kept = [one.name for one in methods.values() if one.topology == "federated" and own_server(one)]
    if not config.automatic or not kept:
        return ()
    return (f"{', '.join(kept)} with the server and step size of the method (--step-size)",)


def _methods(
    config: Config, model: Model, stream: Stream, pipeline: Pipeline | None = None
) -> dict[str, Method]:
    """The methods by their keys, at the budget; features of a pipeline are learnt by a common and an own model."""
    methods = {
        key: at_budget(
            key,
            cast(float, config.budget),
            model.dim,
            stream.clients,
            step_size=config.step_size,
            preset="paper" if config.automatic else str(config.preset),
            planner=config.planner,
            steps=stream.steps,
            epsilon=config.epsilon,
            delta=config.delta,
            budget_of=config.budget_of,
            features=math.prod(stream.x.shape[1:]),
        )
        for key in config.methods
    }
    if config.budget_of == "formula":
        share = float(stream.present.mean())
        methods = {
            key: one if entry(parse(key)[0]).counts == "total" else attended(one, share)
            for key, one in methods.items()
        }
    if config.server is not None:
        rule = server_rule(config.server, config.step_size)
        methods = {key: with_server(one, rule) for key, one in methods.items()}
    elif config.automatic:
        busy = None if pipeline is None else pipeline.busy
        fitted = partial(untuned, dim=model.dim, outputs=model.linear_outputs, busy=busy)
        methods = {key: fitted(one, deep=model.deep, clients=stream.clients) for key, one in methods.items()}
        if pipeline is not None and config.personal is not False:
            methods = {
                key: mixed(one, model.dim, stream.clients, model.linear_outputs)
                for key, one in methods.items()
            }
    if config.epsilon is not None and not any(map(promise_of, methods.values())):
        raise InputError(
            "`epsilon` must go with a method that promises it, such as private: `ofediq methods` lists them, "
            f"got {', '.join(config.methods)}"
        )
    return methods


def _spec(config: Config, stream: Stream, pipeline: Pipeline | None) -> ModelSpec:
    """The model as its file describes it."""
    data = stream.dataset
    names = data.feature_names if pipeline is None else pipeline.readings.names
    shape = stream.x.shape[1:] if pipeline is None else (len(names),)
    return ModelSpec(
        config.model,
        shape,
        stream.task,
        stream.classes,
        config.hidden,
        features=names if len(set(names)) == len(names) else (),
        labels=data.label_names,
        pipeline=pipeline,
    )


def _told_apart(methods: Mapping[str, Method]) -> dict[str, Method]:
    """Methods by key; those with a name in common carry what their keys say beside it."""
    names = Counter(one.name for one in methods.values())

    def shown(key: str, name: str) -> str:
        said = key.partition("(")[2].removesuffix(")")
        return f"{name} ({said})" if said and names[name] > 1 else name

    return {key: replace(one, name=shown(key, one.name)) for key, one in methods.items()}


def _in_company(method: Method, config: Config) -> Method:
    """A federated method with the chosen way to combine messages, and with the attack on it."""
    if method.topology != "federated":
        return method
    guarded = config.combine is None and config.attack is not None and method.combine.adds
    guarded &= promise_of(method) is None  # which is one of sums; a live server has no guard then, either
    combine = "guard" if guarded else config.combine
    if combine is not None:
        method = with_combine(method, combine_rule(combine))
    return method if config.attack is None else attacked(method, config.attack)


def _dealer(config: Config) -> Callable[[int], Stream]:
    """The function from a seed to its stream. Named data are loaded once; the first stream is kept."""
    if config.dataset == "synthetic":
        deal = partial(_synthetic, config)
    else:
        deal = partial(_deal, config, _load(config))
    first = deal(config.seed)
    return lambda seed: first if seed == config.seed else deal(seed)


def _concerns(method: Method, budget: float, model: Model, stream: Stream) -> list[str]:
    """Where a method does not do what its name and the budget promise."""
    if method.topology != "federated" or not method.participation.foreseeable:  # it keeps its budget itself
        return []
    sentences = []
    if method.period > stream.steps:
        sentences.append(
            f"{method.name} never sends: its period of {method.period:,} steps is longer than the run of "
            f"{stream.steps:,} (a budget of {1 / stream.steps:.3g} would do)."
        )
    messages = float(method.participation.rates(stream.clients).sum()) * (stream.steps // method.period)
    if 0 < messages < 1:
        sentences.append(
            f"{method.name} will hardly send: {messages:.2g} messages are expected in the whole run."
        )
    share = _expected_share(method, model, stream.clients)
    if method.name != "FedOGD" and share > budget * (1 + 1e-6):
        sentences.append(
            f"{method.name} spends {share:.3g} of FedOGD's bits, more than the budget of {budget:g}."
        )
    return sentences


def _expected_share(method: Method, model: Model, clients: int) -> float:
    """Expected uplink bits by the formula, as a share of FedOGD's."""
    rate = float(method.participation.rates(clients).astype(float).mean())
    return rate / method.period * formula_bits(method, model.dim) / (32 * model.dim)


def _load(config: Config) -> Dataset:
    scaling = cast(Any, config.scaling)  # checked by the configuration, and again by the loaders
    options = _load_options(config)
    if config.data is None:
        return load(str(config.dataset), scaling, **options)
    return load_file(
        config.data,
        str(config.target),
        client_column=config.client_column,
        time_column=config.time_column,
        scaling=scaling,
        **options,
    )


def _load_options(config: Config) -> dict[str, Any]:
    """More arguments for loading the data."""
    if config.data is None:
        return dict(config.options)
    known = ("features", "task", "scaling_fit", "missing", *(("strays",) if config.preset == "auto" else ()))
    options = _known_options(load_file, config.options, known)
    if isinstance(options.get("features"), str):
        options["features"] = options["features"].split(",")
    return options


def _deal(config: Config, dataset: Dataset, seed: int) -> Stream:
    kind = cast(Any, config.partition)
    return partition(
        dataset, config.clients, config.steps, kind=kind, seed=seed, alpha=config.alpha, labels=config.labels
    )


def _synthetic(config: Config, seed: int) -> Stream:
    """A fresh stream; dealt anew only if the configuration asks for something else than its own clients."""
    require(
        config.scaling in ("auto", "none"),
        "scaling",
        "must be auto or none for synthetic data",
        config.scaling,
    )
    options = _known_options(
        synthetic, config.options, ("task", "features", "classes", "heterogeneity", "noise", "drift")
    )
    clients, steps = cast(int, config.clients), cast(int, config.steps)  # decided by the configuration
    stream = synthetic(clients=clients, steps=steps, seed=seed, **options)
    return stream if config.partition == "column" else _deal(config, stream.dataset, seed)


def _known_options(
    maker: Callable[..., Any], options: Mapping[str, Any], known: tuple[str, ...]
) -> dict[str, Any]:
    """`options`, if `maker` has them all; a number where the default is one."""
    parameters = inspect.signature(maker).parameters
    for name, value in options.items():
        if name not in known:
            raise InputError(f"`options` must be among {', '.join(known)}, got {name!r}")
        default = parameters[name].default if name in parameters else None
        if isinstance(default, (int, float)) and not isinstance(value, (int, float)):
            raise InputError(f"`{name}` must be a number, got {value!r}")
    return dict(options)
