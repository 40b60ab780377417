"""Streams made from streams: clients that join late or pause, and a world that changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ofediq.arrays import Flags, Numbers
from ofediq.errors import (
    InputError,
    require,
    require_integer,
    require_kind,
    require_nonnegative,
    require_positive,
)
from ofediq.streams.dataset import UNKNOWN_LABEL, Dataset
from ofediq.streams.draws import Draw, generator
from ofediq.streams.stream import ABSENT, Stream


def availability(
    stream: Stream,
    *,
    join: float | ArrayLike = 0.0,
    pause: float = 0.0,
    pause_length: float = 10.0,
    seed: int = 0,
) -> Stream:
    """`stream` with some clients away some of the time; what they would have seen is lost.

    Arguments:
        stream: the stream to mask.
        join: the share of clients that join late, each at a step drawn uniformly from 1..T-1; or the first step of
            each client, [clients].
        pause: the expected share of steps that a client is away. Coming and going is a Markov chain, already
            mixed at the first step.
        pause_length: mean length of a pause, in steps.
        seed: fixes every draw.

    >>> data = Dataset("toy", x=np.eye(6), y=range(6), task="regression")
    >>> stream = Stream(data, np.arange(6).reshape(3, 2))
    >>> availability(stream, join=[0, 2]).order.tolist()
    [[0, -1], [2, -1], [4, 5]]
    """
    require_kind(Stream, "stream", stream)
    rng = generator(seed, Draw.AVAILABILITY)
    first = _first_steps(join, stream.steps, stream.clients, rng)
    here = np.arange(stream.steps)[:, None] >= first
    here &= ~_pauses(pause, pause_length, stream.order.shape, rng)
    return replace(stream, order=np.where(here, stream.order, ABSENT))


def drift(stream: Stream, at: int) -> Stream:
    """`stream` whose meaning changes at step `at`: each label becomes the next one, each target is mirrored.

    Labels move to (label + 1) mod classes; targets y to low + high - y within the range of the dataset. The
    samples seen from step `at` on are copied once.

    >>> data = Dataset("toy", x=np.eye(4), y=[0, 1, 2, 0], task="classification")
    >>> changed = drift(Stream(data, [[0], [1], [2], [3]]), at=2)
    >>> [int(changed.step(t)[1][0]) for t in range(4)]
    [0, 1, 0, 1]
    """
    require_kind(Stream, "stream", stream)
    at = require_integer("at", at, 1, stream.steps - 1)
    later = stream.order[at:]
    used, place = np.unique(later, return_inverse=True)
    absent = int(used[0] == ABSENT)
    used = used[absent:]
    moved = np.where(later == ABSENT, ABSENT, len(stream.dataset) - absent + place.reshape(later.shape))
    return Stream(_with_copies(stream.dataset, used), np.concatenate([stream.order[:at], moved]))


def _first_steps(
    join: float | ArrayLike, steps: int, clients: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    try:
        given = np.asarray(join)
    except ValueError:  # lists of several lengths
        given = np.empty((0, 0))
    if given.ndim == 0:
        require(given.dtype.kind in "iuf", "join", "must be a share in [0, 1] or one step per client", join)
        require(0 <= float(given) <= 1, "join", "must be a share in [0, 1] or one step per client", join)
        late = rng.permutation(clients) < round(float(given) * clients)
        return np.where(late, rng.integers(min(1, steps - 1), steps, size=clients), 0)
    if given.shape != (clients,) or given.dtype.kind not in "iu" or given.min() < 0:
        raise InputError(
            f"`join` must be {clients} steps >= 0, one per client, got shape {list(given.shape)}"
        )
    return given.astype(np.int64)


def _pauses(share: float, length: float, shape: tuple[int, ...], rng: np.random.Generator) -> Flags:
    """Whether each client is away at each step, [steps, clients]."""
    require(require_nonnegative("pause", share) < 1, "pause", "must be a share in [0, 1)", share)
    come_back = 1 / max(1.0, require_positive("pause_length", length))
    go_away = come_back * share / (1 - share)
    if go_away > 1:
        raise InputError(f"`pause` {share} needs `pause_length` >= {share / (1 - share):.3g}, got {length}")
    draws = rng.random(shape)
    away = np.empty(shape, dtype=np.bool_)
    now = draws[0] < share
    away[0] = now
    for t in range(1, shape[0]):
        now = np.where(now, draws[t] >= come_back, draws[t] < go_away)
        away[t] = now
    return away


def _with_copies(dataset: Dataset, used: Numbers) -> Dataset:
    """`dataset` followed by changed copies of the samples `used`."""
    optional: dict[str, Any] = {}
    for name in ("previous", "season"):
        if (past := getattr(dataset, name)) is not None:
            optional[name] = np.concatenate([past, _changed(dataset, past[used])])
    if dataset.time is not None:
        optional["time"] = np.concatenate([dataset.time, dataset.time[used]])
    if dataset.client_ids is not None:
        optional["client_ids"] = np.concatenate([dataset.client_ids, dataset.client_ids[used]])
    return replace(
        dataset,
        x=np.concatenate([dataset.x, dataset.x[used]]),
        y=np.concatenate([dataset.y, _changed(dataset, dataset.y[used])]),
        **optional,
    )


def _changed(dataset: Dataset, targets: Numbers) -> Numbers:
    if dataset.classes is not None:
        return np.where(targets == UNKNOWN_LABEL, UNKNOWN_LABEL, (targets + 1) % dataset.classes)
    return np.asarray(dataset.y.min() + dataset.y.max() - targets)
