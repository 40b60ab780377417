"""The exact minimum of the regret constant over all integers (levels, blocks).

What is minimised. A message of q = 32 b + D (1 + log2(s + 1)) bits and an allowance of G = 32 gamma D bits per client
and step leave the mean rate m = min(1, G / q). With p_min = f(m) (f(m) = m for equal rates), minimise

    alpha / 2 - 1 = (1 / f(m) - 1) + sigma_q^2 (m + 1/K) / f(m)

over s = 1, ..., 2^15 and b = 1, ..., D. Among equal values the shorter message wins.

How. Two monotonicities suffice: the objective grows with q at fixed sigma_q^2 (f(m) and f(m) / m both grow with m),
and it grows with sigma_q^2 at fixed q. q grows with s and b, sigma_q^2 falls with s and b. So inside a box
[s1, s2] x [b1, b2] nothing is better than the value at (q(s1, b1), sigma_q^2(s2, b2)). A box whose bound is not below
the best point seen so far is dropped, the others are split, until none is left: branch and bound. The result is the
minimum over all points, without any assumption on the shape in between (it jumps wherever ceil(D / b) does).

How fast. Cutting at geometric means finds the scale of s and b in a few rounds; near the minimum, which is quadratic,
about sqrt(b) boxes of width 1 survive. For 10^9 parameters that is some 10 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Floats
from ofediq.theory.quantizer import MAX_LEVELS, Ints, VarianceBound, bits_on_grid, variance_on_grid


@dataclass(frozen=True)
class Objective:
    """alpha / 2 - 1 as a function of message bits and quantiser variance: exact where alpha itself rounds to 2.

    Attributes:
        dim: D.
        clients: K.
        allowance: G, the bits that a client may send per step on average.
        variance: which bound on sigma_q^2 to use.
        lowest_rate: f, the rate of the slowest client as a function of the mean rate.
    """

    dim: int
    clients: int
    allowance: float
    variance: VarianceBound
    lowest_rate: Callable[[Floats], Floats]

    def value(self, bits: Floats, variance: Floats) -> Floats:
        """The objective where a message has `bits` and the quantiser `variance`."""
        mean = np.minimum(1.0, self.allowance / bits)
        inverse = 1 / self.lowest_rate(mean)
        return (inverse - 1) + variance * (mean + 1 / self.clients) * inverse

    def bits(self, levels: Ints, blocks: Ints) -> Floats:
        """Bits of a message."""
        return bits_on_grid(levels, blocks, self.dim)

    def noise(self, levels: Ints, blocks: Ints) -> Floats:
        """Variance of the quantiser."""
        return variance_on_grid(levels, blocks, self.dim, self.variance)


class _Best(NamedTuple):
    """The best point so far; compares by value, then by bits."""

    value: float
    bits: float
    levels: int
    blocks: int


def minimise(objective: Objective) -> tuple[int, int]:
    """The (levels, blocks) with the smallest objective.

    >>> minimise(Objective(34826, 1000, 0.01 * 32 * 34826, "sqrt", lambda mean: mean))
    (3, 492)
    """
    best = _Best(np.inf, np.inf, 0, 0)
    boxes = np.array([[1, MAX_LEVELS, 1, objective.dim]], dtype=np.int64)
    while len(boxes):
        best = min(best, _best_centre(objective, boxes))
        fewest_bits = objective.bits(boxes[:, 0], boxes[:, 2])
        bound = objective.value(fewest_bits, objective.noise(boxes[:, 1], boxes[:, 3]))
        alive = (bound < best.value) | ((bound == best.value) & (fewest_bits < best.bits))
        boxes = _split(boxes[alive])
    return best.levels, best.blocks


def _best_centre(objective: Objective, boxes: Ints) -> _Best:
    """The best of the boxes' centres. A box of one point is its own centre."""
    levels, blocks = _middle(boxes[:, 0], boxes[:, 1]), _middle(boxes[:, 2], boxes[:, 3])
    bits = objective.bits(levels, blocks)
    value = objective.value(bits, objective.noise(levels, blocks))
    first = np.lexsort((bits, value))[0]
    return _Best(float(value[first]), float(bits[first]), int(levels[first]), int(blocks[first]))


def _split(boxes: Ints) -> Ints:
    """Cut each box at its centre along both axes; a box of one point is done."""
    boxes = boxes[(boxes[:, 0] < boxes[:, 1]) | (boxes[:, 2] < boxes[:, 3])]
    for low, high in ((0, 1), (2, 3)):
        middle = _middle(boxes[:, low], boxes[:, high])
        wide = boxes[:, low] < boxes[:, high]
        lower, upper = boxes.copy(), boxes[wide]
        lower[:, high] = middle
        upper[:, low] = middle[wide] + 1
        boxes = np.concatenate((lower, upper))
    return boxes


def _middle(low: Ints, high: Ints) -> Ints:
    """The geometric mean of each pair, rounded down: low <= middle, and middle < high unless low == high."""
    middle = (np.sqrt(low) * np.sqrt(high)).astype(np.int64)
    return np.clip(middle, low, np.maximum(low, high - 1))
