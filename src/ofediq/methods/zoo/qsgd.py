"""QSGD: gradients quantised without bias, bucket by bucket."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ofediq.codec.kit import MAX_LEVELS
from ofediq.codec.schemes import Bucketed
from ofediq.methods.client import local_ogd
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import descend
from ofediq.methods.terms import Terms
from ofediq.theory import quantizer_variance


@piece
@dataclass(frozen=True)
class QuantizeBuckets(Bucketed, Compressor):
    """QSGD's quantiser, see `codec.Bucketed`."""

    def variance(self, dim: int) -> float:
        """min(c / s^2, sqrt(c) / s) for buckets of c; with the largest size as norm it is smaller still."""
        return quantizer_variance(*self.shape(dim), dim)


def levels_within(room: float, dim: int, norms: int) -> int:
    """s of messages of at most `room` bits, 32 for each norm and 1 + log2(s + 1) per number; at least 1.

    >>> levels_within(32 + 4 * 100, 100, 1), levels_within(1.0, 100, 1)
    (7, 1)
    """
    exponent = (room - 32 * norms) / dim - 1
    return max(1, min(MAX_LEVELS, math.floor(2 ** min(16.0, exponent) + 1e-9) - 1))


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """As many levels as the formula allows; if not even one, fewer senders."""
    rate, bucket = float(given.get("rate", 1.0)), int(given.get("bucket", 512))
    room = terms.bits_each
    levels = int(given.get("levels", levels_within(room / rate, terms.dim, -(-terms.dim // bucket))))
    each = Bucketed(levels, bucket).formula_bits(terms.dim)
    return {"levels": levels, "rate": min(rate, room / each)}


@named(
    "qsgd",
    source="D. Alistarh et al.: QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding, 2017",
    theorem="2",
    spend=_spend,
)
def qsgd(
    levels: int = 7,
    bucket: int = 512,
    norm: Literal["max", "euclidean"] = "max",
    coding: Literal["entropy", "packed"] = "entropy",
    rate: float = 1.0,
    step_size: float = 0.01,
) -> Method:
    """QSGD: every client sends its gradient with s random levels per coordinate and a norm for each bucket.

    Q(u)_i = N sign(u_i) m_i / s with m_i = |u_i| s / N rounded at random to a neighbour, N the norm of the bucket;
    w <- w - eta / K sum of Q(g_k). Costs at most 32 per bucket and D (1 + log2(s + 1)) bits per message; an entropy
    code for the symbols takes the place of the original's Elias codes and is shorter. No memory. Good where every
    client can send at every step and 1 to 5 bits per coordinate are affordable; below that, fewer senders
    (`rate`, not in the original) or `topk_ef`.

    The theorem is about the Euclidean norm; the originals' experiments divide by the largest size instead, as the
    default here does (4 bits with their sign, buckets of 512). It is unbiased as well, and the theorem's variance
    bounds it. With one Euclidean bucket it is the paper's (s, b = 1) quantiser, and with `rate` OFedIQ's. Buckets are
    as equal as possible, where the original leaves a short one at the end. Online nothing changes: QSGD is online.

    Args:
        levels: s; 7 is the originals' 4 bits.
        bucket: the most coordinates that share a norm.
        norm: `max` or `euclidean`.
        coding: `entropy` or `packed`.
        rate: p, with which a client sends at a step.
    """
    return method(
        local_ogd(step_size),
        descend(step_size),
        bernoulli(rate),
        QuantizeBuckets(levels, bucket, norm, coding),
        name="QSGD",
    )
