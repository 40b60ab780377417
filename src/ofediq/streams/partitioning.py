"""`partition`: deal the samples of a dataset to clients and steps."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ofediq.errors import InputError, require_choice, require_integer
from ofediq.streams.dataset import Dataset
from ofediq.streams.draws import Draw, generator
from ofediq.streams.stream import Stream

Indices = NDArray[np.int32]
Kind = Literal["random", "passes"]
KINDS: tuple[str, ...] = get_args(Kind)


def partition(
    dataset: Dataset,
    clients: int,
    steps: int | None = None,
    kind: Kind = "random",
    seed: int = 0,
) -> Stream:
    """Deal the samples of `dataset` to `clients` for `steps` steps.

    Arguments:
        dataset: N samples.
        clients: K.
        steps: T; by default as many whole steps as one pass over the data gives, floor(N / K).
        kind: "random" (the paper: when N < K T everything is repeated floor(K T / N) times and filled up
            with a random subset, then shuffled as a whole and dealt) or "passes" (the data pass after pass,
            each freshly shuffled: what the authors' code does).
        seed: fixes every draw.

    >>> data = Dataset("toy", x=np.eye(6), y=range(6), task="regression")
    >>> stream = partition(data, clients=2, seed=1)
    >>> stream.steps, sorted(stream.order.ravel().tolist())
    (3, [0, 1, 2, 3, 4, 5])
    """
    require_choice("kind", kind, KINDS)
    clients = require_integer("clients", clients, 1)
    steps = _whole_steps(len(dataset), clients) if steps is None else require_integer("steps", steps, 1)
    rng = generator(seed, Draw.DEAL)
    deal = _shuffled_repeats if kind == "random" else _fresh_passes
    return Stream(
        dataset, deal(np.arange(len(dataset), dtype=np.int32), clients * steps, rng).reshape(steps, clients)
    )


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
    return np.concatenate([rng.permutation(pool) for _ in range(passes)])[:count]
