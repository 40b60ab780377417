"""Differential privacy: how much noise a promise asks for, and what a noise promises. Needs `ofediq[privacy]`.

Two streams are neighbours if one sample of one member (unit `sample`) or all samples of one member (unit `member`)
count in one of them and are replaced by a gradient of zero in the other. A method keeps (epsilon, delta) if no event
about everything that is released is more than e^epsilon times as likely in one as in the other, plus delta. That a
member was there, and when, is not hidden.

The noise is Gaussian, or Skellam on whole numbers, which members can make together. The arithmetic of composing and
converting is that of Google's `dp-accounting`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ofediq.errors import extra, require, require_choice, require_positive

Unit = Literal["sample", "member"]
"""Whose influence is hidden: one sample, or everything that a member ever says."""

UNITS: tuple[Unit, ...] = ("sample", "member")


@dataclass(frozen=True)
class Promise:
    """(epsilon, delta)-differential privacy for a unit.

    >>> Promise(4.0, 1e-5, "sample").text
    'epsilon 4 at delta 1e-05 for each sample'
    """

    epsilon: float
    delta: float
    unit: Unit = "sample"

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_delta(self.delta)
        require_choice("unit", self.unit, UNITS)

    @property
    def text(self) -> str:
        """In words."""
        return f"epsilon {self.epsilon:.3g} at delta {self.delta:g} for each {self.unit}"


def require_delta(delta: float) -> float:
    """Return `delta` if it lies in (0, 1), or raise `InputError`."""
    require(0 < delta < 1, "delta", "must lie in (0, 1)", delta)
    return float(delta)


def skellam_epsilon(variance: float, square: int, keep: int, delta: float, releases: int = 1) -> float:
    """epsilon of so many releases of whole numbers with Skellam noise.

    The Renyi divergence of order a between sums that differ by an x of whole numbers with |x|_2^2 <= S and
    |x|_1 <= B = min(S, sqrt(k S)) is at most  a S / (2 v) + min(((2 a - 1) S + 6 B) / (4 v^2), 3 B / (2 v))
    (N. Agarwal, P. Kairouz, Z. Liu: The Skellam Mechanism for Differentially Private Federated Learning, 2021).

    Args:
        variance: v of the sum's noise in each coordinate.
        square: S.
        keep: k, the number of coordinates.
        delta: of the promise.
        releases: how many sums one unit can change.

    >>> skellam_epsilon(1e6, 10**4, 1000, 1e-5) < skellam_epsilon(1e5, 10**4, 1000, 1e-5)
    True
    """
    require_positive("variance", variance), require_delta(delta)
    rdp = extra("dp_accounting.rdp.rdp_privacy_accountant", "privacy")
    orders = np.asarray(rdp.DEFAULT_RDP_ORDERS, np.float64)
    total = min(square, math.sqrt(keep * square))  # whole numbers: |x| <= x^2
    with np.errstate(over="ignore"):  # next to no noise
        extra_terms = np.minimum(
            ((2 * orders - 1) * square + 6 * total) / variance / (4 * variance), 3 * total / (2 * variance)
        )
        divergence = releases * (orders * square / (2 * variance) + extra_terms)
    return float(rdp.compute_epsilon(orders, divergence, delta)[0])


def skellam_variance(epsilon: float, delta: float, square: int, keep: int, releases: int = 1) -> float:
    """The least variance of the sum's Skellam noise that keeps epsilon, to a part in ten thousand.

    >>> variance = skellam_variance(4.0, 1e-5, square=10**4, keep=1000)
    >>> 3.99 < skellam_epsilon(variance, 10**4, 1000, 1e-5) <= 4.0
    True
    """
    require_positive("epsilon", epsilon)
    low, high = 0.0, float(square)
    while skellam_epsilon(high, square, keep, delta, releases) > epsilon:
        low, high = high, 2 * high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        if skellam_epsilon(middle, square, keep, delta, releases) > epsilon:
            low = middle
        else:
            high = middle
    return high
