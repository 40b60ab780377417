"""Whom the others oppose: evidence gathered over many updates, for few members and in any number of dimensions.

In a few rounds of a few members every cosine may be chance. Over many it is not: with x the product of each update
of member l and what member k wanted before it, the sum of x over the root of the sum of x^2 is about normal, with
deviation 1, where l knows nothing of k's wish, whatever the tails and the scales (V. de la Pena, M. Klass, T. Lai:
Self-normalized processes, 2004). Each other member has such a vote on k. Of n that mean nothing the middle one lies
within 3 of its deviations, 1.25 / sqrt(n); where it is below that most of them oppose k, and k does not count. Votes
of those who do not count are not counted either, and so on until nothing changes.

Two things make honest members oppose each other, and both are measured on all of them. Two samples with different
labels pull apart a little, those with the same label together a lot: as long as l has said little, its vote is
likely to be of the first kind alone, and its own squares are too small. So squares are at least those that are usual
for as many updates. And whatever the model has followed of the noise in a wish, the others take back: opposition
counts from that to the middle member on.

Where data differ everyone is opposed a little: what they want adds up to nothing where the model comes to rest. So
this is asked only where most want nothing of their own that the others do not want.
"""

from __future__ import annotations

import numpy as np

from ofediq.arrays import Floats
from ofediq.methods.robust.directions import lower_median

SURE = 3.0
"""Deviations of chance from which the middle vote is none."""

ALIKE, APART = 2.5, 4.0
"""How much more the middle member agrees with itself than the others do with it, in deviations of one vote: up to
this members are alike, and from this on their data differ."""

_MEDIAN = 1.25  # deviation of the median of n normal numbers, times sqrt(n)
_NORMAL = 1.48  # deviation of normal numbers in median distances from their median
_TURNS = 6  # of leaving out whom the others oppose


def trusted(sums: Floats, squares: Floats, counts: Floats) -> Floats:
    """Weights in [0, 1] of members by the votes of the others.

    Arguments:
        sums: of products of the updates of l with what k wanted before, [l, k].
        squares: of their squares.
        counts: how many updates of l they are of, [l].

    >>> sums = np.array([[0, 2, 1, 2, -9], [1, 1, 2, 0, -9], [2, 2, 0, 1, -9], [2, 1, 1, 0, -9], [-9, -9, -9, -9, 9]])
    >>> trusted(sums, np.full((5, 5), 9.0), np.full(5, 9.0)).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """
    own, others = np.diag(sums) / np.sqrt(np.maximum(np.diag(squares), 1e-30)), len(sums) - 1
    counts = np.maximum(counts, 1.0)
    usual = lower_median((squares.sum(1) - np.diag(squares)) / (others * counts))
    votes = sums / np.sqrt(np.maximum(np.maximum(squares, usual * counts[:, None]), 1e-30))
    np.fill_diagonal(votes, np.inf)
    weights = np.ones(len(votes))
    for _ in range(_TURNS):
        middle = _medians(votes, weights)
        spread = np.maximum(1.0, _NORMAL * _medians(np.abs(votes - middle), weights))
        opposed = middle - min(0.0, lower_median(middle))
        found = np.clip(SURE + opposed * np.sqrt(others) / (_MEDIAN * spread), 0.0, 1.0)
        if 2 * found.sum() <= len(votes):  # whom the others oppose are few
            return np.ones(len(votes))
        if np.array_equal(found, weights):
            break
        weights = found
    gap = lower_median(own) - max(0.0, lower_median(middle))
    doubted: Floats = 1 - (1 - weights) * np.clip((APART - gap) / (APART - ALIKE), 0.0, 1.0)
    return doubted


def _medians(votes: Floats, weights: Floats) -> Floats:
    """Of each column the upper median by the weights of its rows; the largest vote is the member's own place."""
    order = np.argsort(votes, axis=0)
    reached = np.cumsum(weights[order[:-1]], axis=0)
    places = (reached <= reached[-1] / 2).sum(0)
    found: Floats = np.take_along_axis(votes, order, axis=0)[places, np.arange(len(votes))]
    return found
