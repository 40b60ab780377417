"""EDEN: rotated one-bit messages of drawn coordinates, for any number of bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ofediq import codec
from ofediq.errors import require_positive
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import federated
from ofediq.methods.registry import named
from ofediq.methods.terms import Terms

_LEAST = 1 / 16  # bits per coordinate below which a scale and a frame would cost more than they carry


@piece
@dataclass(frozen=True)
class EdenBits(codec.Eden, Compressor):
    """EDEN's quantiser, see `codec.Eden`."""

    coding = "entropy"


def fitting(room: float, dim: int, least: float = _LEAST) -> float:
    """R of messages of at most `room` bits, at least `least`.

    >>> fitting(3000.0, 1000), fitting(1.0, 1000)
    (2.0, 0.0625)
    """
    each = max(least, (room - EdenBits(1).formula_bits(1)) / dim)
    return each if each < 1 else float(min(4, math.floor(each)))


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """As many bits as fit if everyone sends; below a sixteenth per coordinate, fewer senders."""
    rate, room = float(given.get("rate", 1.0)), terms.bits_each
    bits = float(given.get("bits", fitting(room / rate, terms.dim)))
    return {"bits": bits, "rate": min(rate, room / EdenBits(bits).formula_bits(terms.dim))}


@named(
    "eden",
    source="S. Vargaftik et al.: EDEN: Communication-Efficient and Robust Distributed Mean Estimation for Federated "
    "Learning, 2022, and their public code",
    spend=_spend,
)
def eden(bits: float = 1.0, rate: float = 1.0, step_size: float = 0.01, preset: str = "paper") -> Method:
    """EDEN: updates are rotated at random and sent in R bits per coordinate; below one bit, of drawn coordinates.

    w <- w - eta/K sum of Q(u_k / p). With R < 1, as the originals' code does, k = R D coordinates are drawn, scaled
    by D / k, rotated, and sent as signs with a scale that makes the mean right. Both sides draw them, so positions
    cost nothing. Costs about R D + 32 bits. The error is (pi / 2 / R - 1) ||u||^2 for R <= 1: to send a tenth of a
    bit always and one bit at every tenth step is the same noise. Coordinates are drawn one from each run of D / k
    here, where the originals draw each by itself. The paper's theorems do not cover it.

    Args:
        bits: R, in (0, 1), or 1, 2, 3 or 4.
        rate: p, the probability that a client sends.
    """
    base = federated("EDEN", step_size, preset, compress=EdenBits(require_positive("bits", bits)))
    return replace(base, participation=bernoulli(rate))
