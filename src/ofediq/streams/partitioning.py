"""`partition`: deal the samples of a dataset to clients and steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ofediq.errors import (
    DataError,
    InputError,
    require_choice,
    require_integer,
    require_kind,
    require_positive,
)
from ofediq.machine import memory
from ofediq.streams.clock import steps_of
from ofediq.streams.dataset import Dataset
from ofediq.streams.dealt import Dealt
from ofediq.streams.draws import Draw, generator
from ofediq.streams.skew import dirichlet_labels, few_labels, label_groups
from ofediq.streams.stream import ABSENT, Stream

Indices = NDArray[np.int32]
Kind = Literal["random", "passes", "dirichlet", "label", "column", "sequential", "stretches"]
KINDS: tuple[str, ...] = get_args(Kind)
LAID_OUT = 2**26
"""Places (clients x steps) that are laid out beforehand; more of them are made block by block, by other draws."""


def partition(
    dataset: Dataset,
    clients: int | None = None,
    steps: int | None = None,
    *,
    kind: Kind = "random",
    seed: int = 0,
    alpha: float = 0.5,
    labels: int = 2,
) -> Stream:
    """Deal the N samples of `dataset` to K clients for T steps.

    - "random", the paper's: when N < K T everything is repeated floor(K T / N) times and filled up with a random
      subset, then shuffled as a whole and dealt. When N >= K T, a random subset.
    - "passes", what the authors' code does: pass after pass over the data, each freshly shuffled.
    - "dirichlet": client k draws its own mix of labels, q_k ~ Dirichlet(alpha * classes * prior), then its labels
      from q_k; the samples of each label are dealt in passes. Small `alpha`: few labels per client; large: "random".
      Targets of a regression are first cut into ten groups of equal size.
    - "label": each client sees `labels` labels (or groups of targets) only, equally often.
    - "column": the clients of the source, at the source's own time (`steps_of`): who comes late starts late, who
      has no row at a moment is absent (-1), and no prediction has seen a later row.
    - "stretches": the source in its own order, cut into K pieces of equal length, one per client. Every client has
      a past of its own, and every sample is seen once.
    - "sequential": sample t K + k goes to client k at step t, and from the first one again after the last.

    Beyond 2^26 places (K T) "random", "passes" and "sequential" are not laid out but made block by block when a run
    asks for them (`Dealt`), from other draws of the same kind.

    Arguments:
        dataset: what to deal.
        clients: K. May be left out for "column": all clients of the source; otherwise its first K.
        steps: T; by default as many whole steps as one pass over the data gives, floor(N / K), and for "column"
            and "stretches" as long as the source lasts.
        kind: which of the above.
        seed: fixes every draw.
        alpha: concentration, for "dirichlet".
        labels: labels per client, for "label".

    >>> data = Dataset("toy", x=np.eye(6), y=range(6), task="regression")
    >>> stream = partition(data, clients=2, seed=1)
    >>> stream.steps, sorted(stream.order.ravel().tolist())
    (3, [0, 1, 2, 3, 4, 5])
    """
    require_kind(Dataset, "dataset", dataset)
    require_choice("kind", kind, KINDS)
    if kind == "column":
        return Stream(dataset, _by_column(dataset, clients, steps))
    if clients is None:
        raise InputError(f"`clients` must be given for a {kind!r} partition")
    clients = require_integer("clients", clients, 1)
    if kind == "stretches":
        require_integer("clients", clients, 1, len(dataset))
        return Stream(replace(dataset, previous=None), _stretches(len(dataset), clients, steps))
    steps = _whole_steps(len(dataset), clients) if steps is None else require_integer("steps", steps, 1)
    if _fits(1, clients) and steps * clients > LAID_OUT and kind in ("random", "passes", "sequential"):
        return Stream(dataset, Dealt(len(dataset), steps, clients, kind, require_integer("seed", seed, 0)))
    require_memory(steps, clients)
    if kind in ("dirichlet", "label"):
        groups, chooser = label_groups(dataset), generator(seed, Draw.LABELS)
        if kind == "dirichlet":
            wanted = dirichlet_labels(groups, clients, steps, require_positive("alpha", alpha), chooser)
        else:
            wanted = few_labels(groups, clients, steps, labels, chooser)
        deck = _deal_groups(groups, wanted.ravel(), generator(seed, Draw.DEAL))
    else:
        deal = {"random": _shuffled_repeats, "passes": _fresh_passes, "sequential": _in_order}[kind]
        everything = np.arange(len(dataset), dtype=np.int32)
        deck = deal(everything, clients * steps, generator(seed, Draw.DEAL))
    return Stream(dataset, deck.reshape(steps, clients))


def require_memory(steps: int, clients: int) -> None:
    """Refuse a stream that cannot fit, with its size, before anything is allocated."""
    if not _fits(steps, clients):
        raise InputError(
            f"`clients` x `steps` must fit in memory ({memory() // 4:,} places here), got {clients:,} x {steps:,}, "
            f"which takes {4 * steps * clients / 2**30:,.0f} GiB"
        )


def _fits(steps: int, clients: int) -> bool:
    return 4 * steps * clients <= memory()


def _whole_steps(samples: int, clients: int) -> int:
    if clients > samples:
        raise InputError(
            f"`clients` must be at most {samples} (the samples) unless `steps` is given, got {clients}"
        )
    return samples // clients


def _shuffled_repeats(pool: Indices, count: int, rng: np.random.Generator) -> Indices:
    """`count` entries: the pool as often as it fits, a random subset for the rest, shuffled as a whole."""
    repeats, rest = divmod(count, len(pool))
    deck = np.concatenate([np.tile(pool, repeats), rng.permutation(pool)[:rest]])
    rng.shuffle(deck)
    return deck


def _fresh_passes(pool: Indices, count: int, rng: np.random.Generator) -> Indices:
    """`count` entries: pass after pass over the pool, each in a fresh order."""
    passes = -(-count // len(pool))
    return rng.permuted(np.tile(pool, (passes, 1)), axis=1).ravel()[:count]


def _in_order(pool: Indices, count: int, rng: np.random.Generator) -> Indices:
    """`count` entries: one after another, and from the first one again."""
    return np.resize(pool, count)


def _deal_groups(groups: Indices, wanted: Indices, rng: np.random.Generator) -> Indices:
    """A sample of group `wanted[i]` for each i; within a group, pass after pass."""
    deck = np.empty(len(wanted), dtype=np.int32)
    for group in np.unique(wanted):
        places = np.flatnonzero(wanted == group)
        pool = np.flatnonzero(groups == group).astype(np.int32)
        deck[places] = _fresh_passes(pool, len(places), rng)
    return deck


def _by_column(dataset: Dataset, clients: int | None, steps: int | None) -> Indices:
    ids = dataset.client_ids
    if ids is None:
        raise DataError(f"dataset {dataset.name!r} does not say which client a sample belongs to")
    known = int(ids.max()) + 1
    clients = known if clients is None else require_integer("clients", clients, 1, known)
    rows = np.flatnonzero(ids < clients)
    step = steps_of(ids[rows], None if dataset.time is None else dataset.time[rows])
    longest = int(step.max()) + 1
    steps = longest if steps is None else require_integer("steps", steps, 1, longest)
    used = step < steps
    order = _empty_order(steps, clients)
    order[step[used], ids[rows[used]]] = rows[used]
    return order


def _stretches(samples: int, clients: int, steps: int | None) -> Indices:
    longest = -(-samples // clients)
    steps = longest if steps is None else require_integer("steps", steps, 1, longest)
    ends = np.arange(clients + 1) * samples // clients
    place = ends[:-1] + np.arange(steps)[:, None]
    order = _empty_order(steps, clients)
    return np.where(place < ends[1:], place, order).astype(np.int32)


def _empty_order(steps: int, clients: int) -> Indices:
    """Nobody sees anything yet."""
    require_memory(steps, clients)
    return np.full((steps, clients), ABSENT, dtype=np.int32)
