"""Preset `auto`: what is assumed about a stranger's data, so that the defaults learn.

Clients keep their own time, make features online, start from a naive forecast and learn what is to be added to it;
the server finds its step size on the way. What was assumed is said in one line, with the options that change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ofediq.errors import require
from ofediq.experiment.config import Config
from ofediq.models import Model, build, build_anchored, late
from ofediq.streams import Dataset, Stream, load, load_own, partition, usual_clients
from ofediq.streams.features import Pipeline, begun, checked_baseline, featurize, suggest

_SHOWN = 10  # names of columns in a sentence


class Prepared(NamedTuple):
    """Data that are ready to be learnt.

    Attributes:
        stream: with features as samples, where there is a pipeline.
        pipeline: what every client does; None for images and data without a time order.
        assumed: what nobody said, a phrase each.
        readings: the stream before features are made of it, as live clients read it.
    """

    stream: Stream
    pipeline: Pipeline | None
    assumed: tuple[str, ...]
    readings: Stream


def prepare(config: Config, options: dict[str, Any]) -> Prepared:
    """Load, deal and featurize the data of a configuration with preset `auto`; the same for every seed."""
    dataset, assumed = _load(config, options)
    owned = dataset.client_ids is not None
    ordered = config.data is not None or dataset.previous is not None or owned
    kind: Any = config.partition or ("column" if owned else "stretches" if ordered else "random")
    clients = config.clients
    if clients is None and kind != "column":
        clients = usual_clients(len(dataset))
        assumed.append(_said_clients(clients, len(dataset), kind))
    stream = partition(
        dataset, clients, config.steps, kind=kind, seed=config.seed, alpha=config.alpha, labels=config.labels
    )
    if config.steps is None:
        assumed.append(f"one pass of {_count(stream.steps, 'step')} (--steps)")
    if owned and 1 < stream.clients == len(dataset):
        assumed.append(f"each of {stream.clients:,} clients has one row, and so no past (--client-column)")
    ahead = config.horizon or 1
    if dataset.x.ndim != 2 or not ordered:
        require(ahead == 1, "horizon", "must be 1 for images and data without a time order", ahead)
        return Prepared(stream, None, tuple(assumed), stream)
    baseline, season = checked_baseline(config.baseline or "auto")
    pipeline = suggest(dataset, baseline, season, ahead)
    if config.baseline is None:
        assumed.append(
            "what is learnt is added to the best of last value and mean"
            + (f" and the value {pipeline.target.season} rows ago" if pipeline.target.season else "")
            + " (--baseline)"
        )
    made = begun(featurize(stream, pipeline), pipeline)
    return Prepared(made, pipeline, tuple(assumed), stream)


def model_for(config: Config, stream: Stream, pipeline: Pipeline | None) -> Model:
    """The model of a configuration: by default linear on features; beside a naive forecast where there is one."""
    if pipeline is None:
        return build(
            config.model, stream.x.shape[1:], stream.task, classes=stream.classes, hidden=config.hidden
        )
    model = build_anchored(
        config.model, len(pipeline.columns), stream.task, classes=stream.classes, hidden=config.hidden
    )
    return model if pipeline.target.ahead == 1 else late(model)


def _load(config: Config, options: dict[str, Any]) -> tuple[Dataset, list[str]]:
    scaling: Any = config.scaling
    if config.data is None:
        return load(str(config.dataset), scaling, **options), []
    own = load_own(
        config.data,
        str(config.target),
        client_column=config.client_column,
        time_column=config.time_column,
        scaling=scaling,
        **options,
    )
    assumed = []
    if config.time_column is None:
        found = "the order of the file" if own.time_column is None else own.time_column
        assumed.append(f"the order in time is {found} (--time-column)")
    if own.left_out:
        assumed.append(
            f"{_listed(own.left_out)} left out, neither numbers nor categories (--option features=...)"
        )
    for name, (cells, example) in list(own.unread.items())[:_SHOWN]:
        assumed.append(f"{_count(cells, 'cell')} of {name} without a number, such as {example!r}, missing")
    if own.strays:
        name, first = next(iter(own.strays.items()))
        cells = sum(one.cells for one in own.strays.values())
        where = name if len(own.strays) == 1 else f"{len(own.strays)} columns"
        assumed.append(
            f"{_count(cells, 'cell')} of {where} far from all others, such as {first.example:g} in {name}, missing "
            "(--option strays=keep)"
        )
    if own.dropped:
        needed = [str(config.target), config.client_column, own.time_column]
        without = " or ".join(name for name in needed if name)
        assumed.append(f"{_count(own.dropped, 'row')} without {without} left out")
    names = own.dataset.label_names
    if "task" not in options and len(names) > 2 and all(name.lstrip("-").isdigit() for name in names):
        assumed.append(f"{config.target} is one of {len(names)} labels (--option task=regression)")
    return own.dataset, assumed


def _listed(names: Sequence[str]) -> str:
    """Names with commas, the first ones of many."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number > 1)}"


def _said_clients(clients: int, samples: int, kind: str) -> str:
    if kind != "stretches":
        return f"{clients} clients (--clients)"
    if clients == 1:
        return f"1 client with all {samples:,} rows, because there are few (--client-column, --clients)"
    return (
        f"{_count(clients, 'client')}, each a stretch of about {samples // clients:,} rows, "
        "because no column names them (--client-column, --clients)"
    )
