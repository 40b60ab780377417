"""What an entropy-coded message of the (s, b) quantiser costs, and what variance it adds: models of real updates.

The formula 32 b + D (1 + log2(s + 1)) and the bound on sigma_q^2 hold for every vector. Real messages are cheaper and
better: most symbols are 0, and an entropy code makes them cost little. With a = s |u_i| / ||u_block||, f its fraction
and m its rounding at random, averages over the coordinates give both:

    bits    = D H(signed m) + tables + 16 b,     at most D log2(2 s + 1) + 16 b      with 16-bit norms
    sigma^2 = sum of f (1 - f) (||u_block|| / s)^2 / ||u||^2

A model is either fitted to sample updates, or it assumes that the coordinates of a block are independent draws of one
distribution. Then a / s is close to |x| / sqrt(c) with x of variance 1 and c the size of the block, and both numbers
depend on r = s / sqrt(c) alone. P(m = k) = E max(0, 1 - |r x - k|) is a second difference of the density's second
antiderivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ofediq.arrays import Floats
from ofediq.errors import InputError, require
from ofediq.theory.quantizer import Ints

NORM_BITS = 16
"""Bits of a norm, rounded without bias; the variance of that, below 2^-17 of its square, is left out."""

_MANTISSA_BITS = 8  # of a 16-bit norm; the other eight are its exponent, which the entropy code models

_SLACK = 1.01  # a real entropy code stays within this factor of the ideal length
_CODER_BITS = 8 * 8 + 32  # the tables' lengths, a few classes of norms, the coder's last word
_FINE = 64.0  # cells per standard deviation from which a density is constant over a cell
_LARGEST = 1e100  # what squares without harm
_TAIL = 12.0  # standard deviations; beyond them a Laplace variable is found once in 10^7


class Cost(NamedTuple):
    """What a message is expected to cost.

    Attributes:
        bits: of the payload on the wire.
        variance: sigma^2 = E||Q(u) - u||^2 / ||u||^2.
    """

    bits: float
    variance: float


class RateModel(Protocol):
    """Bits and variance of a message as functions of levels and blocks. Any object with these two will do."""

    @property
    def name(self) -> str:
        """What the model rests on, for notes and tables."""

    def cost(self, levels: int, blocks: int, dim: int) -> Cost:
        """Cost of a message of `dim` coordinates in `blocks` blocks with `levels` levels."""


@dataclass(frozen=True)
class AssumedRates:
    """Coordinates of a block are independent draws of a symmetric distribution of variance 1.

    Attributes:
        name: of the distribution.
        entropy: its differential entropy in bits.
        twice: the second antiderivative of its density, precise for arguments <= 0.
    """

    name: str
    entropy: float
    twice: Callable[[float], float]

    def cost(self, levels: int, blocks: int, dim: int) -> Cost:
        """Cost of a message.

        >>> bits, variance = gaussian_rates().cost(levels=3, blocks=777, dim=34826)
        >>> round(bits / 34826, 2), round(variance, 2)
        (1.7, 0.82)
        """
        fineness = levels / math.sqrt(dim / blocks)
        if fineness > _FINE:
            per_symbol, variance = self.entropy + math.log2(fineness), 1 / (6 * fineness**2)
            classes = levels
        else:
            shares = self._shares(fineness)
            per_symbol = _signed_entropy(np.concatenate(([1 - shares.sum()], shares)))
            second = float(np.arange(1, shares.size + 1) ** 2 @ shares)
            variance = max(0.0, second / fineness**2 - 1)
            classes = int((shares * dim > 0.01).sum())
        return Cost(NORM_BITS * blocks + _symbol_bits(per_symbol, classes, levels, dim), variance)

    def _shares(self, fineness: float) -> Floats:
        """P(m = 1), P(m = 2), ..., signs together."""
        count = 2 + math.ceil(_TAIL * fineness)
        ends = np.array([self.twice(-k / fineness) for k in range(count + 1)])
        return np.asarray(2 * fineness * np.maximum(0, ends[:-2] - 2 * ends[1:-1] + ends[2:]))


@dataclass(frozen=True, eq=False)
class FittedRates:
    """Averages over sample updates.

    Attributes:
        updates: float64 [n, D], none of them 0.
        name: how many samples.
    """

    updates: Floats
    name: str

    def cost(self, levels: int, blocks: int, dim: int) -> Cost:
        """Cost of a message. Samples of another length are cut into blocks of the same size.

        >>> updates = np.random.default_rng(0).standard_normal((4, 1000))
        >>> bits, variance = fitted_rates(updates).cost(levels=3, blocks=20, dim=1000)
        >>> assumed = gaussian_rates().cost(levels=3, blocks=20, dim=1000)
        >>> 0.9 < bits / assumed.bits < 1, abs(variance / assumed.variance - 1) < 0.1  # norms take below 16 bits
        (True, True)
        """
        length = self.updates.shape[1]
        cut = blocks if length == dim else min(length, max(1, round(blocks * length / dim)))
        entropy = error = norm_bits = 0.0
        classes = 0
        for update in self.updates:
            norms, sizes = _block_norms(update, cut)
            live = np.repeat(norms > 0, sizes)  # coordinates of other blocks are not coded
            shares, wrong = _rounded(update[live], np.repeat(norms / levels, sizes)[live], levels)
            norm_bits += _norm_bits(norms) / len(self.updates)
            entropy += _signed_entropy(shares) * float(live.mean()) / len(self.updates)
            error += wrong
            classes = max(classes, int((shares[1:] * dim > 0.01).sum()))
        variance = error / float(np.square(self.updates).sum())
        bits = norm_bits * blocks + _symbol_bits(entropy, classes, levels, dim)
        return Cost(bits, variance)


def gaussian_rates() -> AssumedRates:
    """The model of Gaussian coordinates: dense updates, sums over many samples.

    >>> gaussian_rates().name
    'Gaussian coordinates'
    """
    return AssumedRates("Gaussian coordinates", math.log2(2 * math.pi * math.e) / 2, _gaussian_twice)


def laplace_rates() -> AssumedRates:
    """The model of Laplace-distributed coordinates: heavier tails, closer to gradients of single samples.

    >>> laplace_rates().cost(1, 34, 34826).bits < gaussian_rates().cost(1, 34, 34826).bits
    True
    """
    return AssumedRates("Laplace coordinates", math.log2(math.e * math.sqrt(2)), _laplace_twice)


def fitted_rates(updates: Any) -> FittedRates:
    """The model of sample updates: what clients really want to send.

    Args:
        updates: [n, D] or [D] finite numbers; a few dozen updates are enough. Those that are 0 are left out.

    >>> fitted_rates([[1.0, 0.0], [3.0, 4.0]]).name
    '2 sample updates'
    """
    try:
        array = np.atleast_2d(np.asarray(updates, np.float64))
    except (TypeError, ValueError):
        raise InputError("`updates` must be numbers of shape [updates, coordinates]") from None
    require(array.ndim == 2 and array.size > 0, "updates", "must be [updates, coordinates]", array.shape)
    largest = float(np.abs(array).max())
    require(0 < largest < _LARGEST, "updates", "must be finite and not all 0", largest)
    array = array[np.abs(array).max(axis=1) > 0]
    return FittedRates(array, f"{len(array)} sample updates")


def _block_norms(update: Floats, blocks: int) -> tuple[Floats, Ints]:
    """Norm and size of each block; sizes differ by at most one, the longer blocks come first."""
    size, longer = divmod(update.size, blocks)
    sizes = np.full(blocks, size)
    sizes[:longer] += 1
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return np.sqrt(np.add.reduceat(np.square(update), starts)), sizes


def _norm_bits(norms: Floats) -> float:
    """Bits of one norm: its exponent, entropy-coded, and its mantissa unless the norm is 0."""
    _, counts = np.unique(np.where(norms > 0, np.frexp(norms)[1], -(2**20)), return_counts=True)
    shares = counts / norms.size
    return float(-(shares * np.log2(shares)).sum() + _MANTISSA_BITS * (norms > 0).mean())


def _rounded(update: Floats, cells: Floats, levels: int) -> tuple[Floats, float]:
    """Expected shares of magnitudes 0, 1, ..., s among the coordinates, and the expected squared error."""
    scaled = np.abs(update) / cells
    base = np.minimum(scaled.astype(np.int64), levels)
    fraction = np.clip(scaled - base, 0, 1)
    shares = np.bincount(base, 1 - fraction, levels + 2) + np.bincount(base + 1, fraction, levels + 2)
    wrong = (
        fraction * (1 - fraction) * np.square(cells)
    ).sum()  # not a BLAS product: its threads get in the way
    return shares[: levels + 1] / update.size, float(wrong)


def _signed_entropy(shares: Floats) -> float:
    """Bits of a magnitude and, unless it is 0, its sign."""
    used = shares[shares > 0]
    return float(-(used * np.log2(used)).sum() + shares[1:].sum())


def _symbol_bits(per_symbol: float, classes: int, levels: int, dim: int) -> float:
    """Bits of all symbols with their tables; where the entropy code does not pay, those of a uniform code."""
    tables = _CODER_BITS + 8 * min(classes, 32 + 8 * math.log2(max(1.0, classes / 32)))
    coded = _SLACK * per_symbol * dim + tables
    return min(coded, dim * math.log2(2 * levels + 1) + 8)


def _gaussian_twice(x: float) -> float:
    below = math.erfc(-x / math.sqrt(2)) / 2
    return x * below + math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _laplace_twice(x: float) -> float:
    return math.exp(math.sqrt(2) * x) / (2 * math.sqrt(2))
