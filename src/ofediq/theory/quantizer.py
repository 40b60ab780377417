"""The (s, b)-stochastic quantiser of Definition 2 in two numbers: the bits of a message, and the variance it adds."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Floats
from ofediq.errors import require_choice, require_integer

Ints = NDArray[np.int64]
VarianceBound = Literal["min", "sqrt"]
"""`min`: both branches of Definition 2. `sqrt`: the square-root branch alone, as in Table 1."""

VARIANCE_BOUNDS: tuple[str, ...] = get_args(VarianceBound)

MAX_LEVELS = 2**15
"""Largest number of levels that a message on the wire can hold."""

MAX_DIM = 2**40
"""Largest number of model parameters: far beyond any model, and a plan still takes under a second."""

FLOAT_BITS = 32
"""Bits of one unquantised real number."""


def message_bits(levels: int, blocks: int, dim: int) -> float:
    """Bits of one quantised update: one float per block, a sign and a level per coordinate.

        q = 32 b + D (1 + log2(s + 1))

    Args:
        levels: s.
        blocks: b, from 1 to `dim`.
        dim: D.

    >>> message_bits(levels=3, blocks=777, dim=34826)
    129342.0
    """
    levels, blocks, dim = _checked(levels, blocks, dim)
    return float(bits_on_grid(np.array(levels), np.array(blocks), dim))


def quantizer_variance(levels: int, blocks: int, dim: int, variance: VarianceBound = "min") -> float:
    """Relative variance of the quantiser: E||Q(u) - u||^2 <= sigma_q^2 ||u||^2.

        min:   sigma_q^2 = min(c / s^2, sqrt(c) / s)   with c = ceil(D / b), the longest block
        sqrt:  sigma_q^2 = sqrt(D / b) / s             Table 1 and Corollary 1

    Table 1 drops the ceiling. When b does not divide D its value lies a little below what Definition 2 proves
    (unless c <= s^2, where the other branch is smaller): use it to reproduce the paper, `min` for a guarantee.

    Args:
        levels: s.
        blocks: b, from 1 to `dim`.
        dim: D.
        variance: which of the two bounds, `min` or `sqrt`.

    >>> quantizer_variance(levels=4, blocks=25, dim=100)
    0.25
    >>> quantizer_variance(levels=4, blocks=25, dim=100, variance="sqrt")
    0.5
    """
    levels, blocks, dim = _checked(levels, blocks, dim)
    require_choice("variance", variance, VARIANCE_BOUNDS)
    return float(variance_on_grid(np.array(levels), np.array(blocks), dim, variance))


def bits_on_grid(levels: Ints, blocks: Ints, dim: int) -> Floats:
    """`message_bits` for arrays, unchecked: the inner loop of the planner."""
    return np.asarray(FLOAT_BITS * blocks + dim * (1 + np.log2(levels + 1)))


def variance_on_grid(levels: Ints, blocks: Ints, dim: int, variance: VarianceBound) -> Floats:
    """`quantizer_variance` for arrays, unchecked. It falls with the levels and with the blocks."""
    if variance == "sqrt":
        return np.asarray(np.sqrt(dim / blocks) / levels)
    # sqrt(c)/s = x and c/s^2 = x^2: the second branch is the smaller one exactly when x < 1.
    ratio = np.sqrt(-(-dim // blocks)) / levels
    return np.asarray(np.minimum(ratio, ratio**2))


def _checked(levels: int, blocks: int, dim: int) -> tuple[int, int, int]:
    dim = require_integer("dim", dim, 1, MAX_DIM)
    return require_integer("levels", levels, 1, MAX_LEVELS), require_integer("blocks", blocks, 1, dim), dim
