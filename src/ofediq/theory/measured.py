"""The best (rate, levels, blocks) for a budget of bits on the wire, under a model of the updates.

A client sends its update over p, quantised, with probability p. Errors of different clients are independent, so the
variance of the sum is a sum over clients, each with E||Q(u)||^2 / p - ||u||^2. Relative to ||u||^2, minimise

    (1 + sigma^2(s, b)) / p      subject to   p bits(s, b) <= allowance,   p <= 1

The paper's bound instead adds up quantisation errors as if they could all point the same way, see `docs/theory.md`.

s and b are searched on a grid: all values up to 8, then four to an octave for s and two for b. Near the optimum the
objective is flat: a finer grid gains less than one per cent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ofediq.theory.coding import Cost, RateModel
from ofediq.theory.quantizer import MAX_LEVELS


class Candidate(NamedTuple):
    """A choice; compares by what is minimised, then by bits."""

    objective: float
    bits: float
    levels: int
    blocks: int
    rate: float
    variance: float


def best_measured(model: RateModel, dim: int, allowance: float) -> Candidate:
    """The best choice on the grid.

    >>> from ofediq.theory.coding import gaussian_rates
    >>> best = best_measured(gaussian_rates(), 34826, 0.01 * 32 * 34826)
    >>> best.levels / math.sqrt(34826 / best.blocks) < 1, best.rate * best.bits <= 0.01 * 32 * 34826
    (True, True)
    """
    best = Candidate(math.inf, math.inf, 0, 0, 0.0, 0.0)
    for blocks in spaced(dim, 2):
        for levels in spaced(MAX_LEVELS, 4):
            cost = model.cost(levels, blocks, dim)
            if max(1.0, cost.bits / allowance) > best.objective:
                break  # more levels take more bits, and no variance is below 0
            best = min(best, _candidate(cost, levels, blocks, allowance))
    return best


def spaced(last: int, per_octave: int) -> list[int]:
    """1 to 8, then `per_octave` numbers to an octave, up to `last`.

    >>> spaced(40, 2)
    [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 23, 32, 40]
    """
    octaves = max(0, math.ceil(per_octave * math.log2(max(1.0, last / 8))))
    above = {min(last, round(8 * 2 ** (step / per_octave))) for step in range(octaves + 1)}
    return sorted({value for value in {*range(1, 9), *above} if value <= last})


def _candidate(cost: Cost, levels: int, blocks: int, allowance: float) -> Candidate:
    rate = min(1.0, allowance / cost.bits)
    return Candidate((1 + cost.variance) / rate, cost.bits, levels, blocks, rate, cost.variance)
