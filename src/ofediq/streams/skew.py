"""Which label each client is to see at each step, for partitions that are not identically distributed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ofediq.errors import require_integer
from ofediq.streams.dataset import Dataset

Indices = NDArray[np.int32]
TARGET_GROUPS = 10


def label_groups(dataset: Dataset) -> Indices:
    """The group of each sample, 0..groups-1, none of them empty.

    The labels of a classification; for a regression the targets cut at their deciles, where equal targets stay
    together.

    >>> data = Dataset("toy", x=np.eye(20), y=range(20), task="regression")
    >>> label_groups(data).tolist()
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    """
    labels = dataset.y
    if dataset.task == "regression":
        cuts = np.quantile(labels, np.arange(1, TARGET_GROUPS) / TARGET_GROUPS)
        labels = np.searchsorted(cuts, labels, side="right")
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def dirichlet_labels(
    groups: Indices, clients: int, steps: int, alpha: float, rng: np.random.Generator
) -> Indices:
    """Groups [steps, clients], those of client k drawn from its own q_k ~ Dirichlet(alpha * groups * prior)."""
    prior = np.bincount(groups) / len(groups)
    shares = rng.dirichlet(alpha * len(prior) * prior, size=clients)
    draws = rng.random((steps, clients))
    edges = np.cumsum(shares, axis=1)[:, :-1]
    wanted = np.zeros((steps, clients), dtype=np.int32)
    for edge in edges.T:
        wanted += draws >= edge
    return wanted


def few_labels(groups: Indices, clients: int, steps: int, labels: int, rng: np.random.Generator) -> Indices:
    """Groups [steps, clients] where each client sees only `labels` different ones, equally often.

    Decks of all groups are shuffled and cut into hands of `labels`, one hand per client, so that the groups are
    spread over the clients as evenly as whole hands allow.
    """
    count = int(groups.max()) + 1
    labels = require_integer("labels", labels, 1, count)
    hands_per_deck = count // labels
    decks = -(-clients // hands_per_deck)
    shuffled = rng.permuted(np.tile(np.arange(count), (decks, 1)), axis=1)
    hands = shuffled[:, : hands_per_deck * labels].reshape(-1, labels)[:clients]
    turns = rng.permuted(np.tile(np.resize(np.arange(labels), steps), (clients, 1)), axis=1)
    return np.take_along_axis(hands, turns, axis=1).T.astype(np.int32)
