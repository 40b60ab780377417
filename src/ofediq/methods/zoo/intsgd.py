"""IntSGD: everyone rounds to whole numbers on a scale that all know. The second ancestor of OFedGrid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Array, float32, namespace
from ofediq.methods.budgets.loudness import UNKNOWN, length, pack
from ofediq.methods.budgets.steered import Steering, steered
from ofediq.methods.budgets.steering import Budget
from ofediq.methods.composition import Method
from ofediq.methods.compress import grid
from ofediq.methods.participation import everyone
from ofediq.methods.pieces import piece
from ofediq.methods.presets import federated
from ofediq.methods.registry import named
from ofediq.settings import Fading, Ranged

_SPREAD = 1e-3  # grid steps: no update is so short that its client would rather be sampled


class IntegerScale(NamedTuple):
    """What `Integers` keeps."""

    value: Array  # 1 / alpha, as it is broadcast
    square: Array  # r


@piece
@dataclass(frozen=True)
class Integers(Ranged):
    """alpha = sqrt(D) / sqrt(2 K r), where r follows the squared norm of the mean update.

    r <- beta r + (1 - beta) ||sum / K||^2, from the first sum on. While nothing is known, messages are as fine as
    16-bit symbols are.

    Attributes:
        decay: beta.
    """

    decay: Fading = 0.9

    def init(self, dim: int, clients: int, period: int = 1) -> IntegerScale:
        """Nothing is known."""
        return IntegerScale(pack(np.float32(UNKNOWN)), np.float32(0))

    def regroup(self, signal: IntegerScale, dim: int, clients: int) -> IntegerScale:
        """The same: the next round divides by its own K."""
        return signal

    def next(
        self,
        signal: IntegerScale,
        *,
        total: Array,
        bits: Array,
        senders: Array,
        clients: Array,
        step: Array,
        period: int = 1,
    ) -> IntegerScale:
        """r and alpha after a round; one that brought nothing leaves them."""
        xp, count = namespace(total), float32(clients)
        new, share = (length(total) / count) ** 2, np.float32(self.decay)
        square = xp.where(signal.square > 0, share * signal.square + (1 - share) * new, new)
        square = xp.where(new > 0, square, signal.square)
        wanted = xp.sqrt(2 * count * square / np.float32(total.shape[-1]))
        return IntegerScale(xp.where(square > 0, pack(wanted), signal.value), square)


@named(
    "intsgd",
    source="K. Mishchenko, B. Wang, D. Kovalev, P. Richtarik: IntSGD: Adaptive Floatless Compression of Stochastic "
    "Gradients, 2022, and their public code",
    spend=lambda terms, given: terms.steered,
)
def intsgd(
    bits_per_step: float | None = None,
    steps: int | None = None,
    step_size: float = 0.01,
    preset: str = "paper",
    decay: float = 0.9,
    extra_bits: float = 0.0,
) -> Method:
    """IntSGD: everyone sends whole numbers, its update times a scale that all know, rounded at random.

    m_k = round_at_random(alpha u_k);  w <- w - eta/(K alpha) sum of m_k. Unbiased; no norm is sent. Without a budget
    alpha is the originals', sqrt(D) / sqrt(2 K r) with r a running mean of ||sum of what was decoded / K||^2: the
    rounding of all clients together is then as large as the mean update, and bits come as they come. With a budget,
    alpha follows the bits instead, as `ofedgrid`'s does; that is `ofedgrid` with everyone sending.

    The originals take r from the moves of the model over eta, which is the same for plain descent, and send integers
    of 8 bits; here they are entropy-coded, so that zeros cost next to nothing, and 1 / alpha goes with the broadcast.
    Their first message is exact; here it has 16 bits per coordinate, or what the budget allows. A client's message is
    empty if everything was rounded to zero, but live it still pays for a frame.

    Args:
        bits_per_step: mean uplink bits per step on the wire, all clients together; None for the originals' alpha.
        steps: T, the horizon that the budget is spread over; None for a run without end.
        decay: beta of r.
        extra_bits: what a message costs beside its payload; counted against the budget.
    """
    rule: Steering = Integers(decay)
    if bits_per_step is not None:
        rule = Budget(bits_per_step, steps, spread=_SPREAD, extra_bits=extra_bits)
    base = federated("IntSGD", step_size, preset)
    return replace(base, participation=everyone(), compress=grid(_SPREAD), server=steered(base.server, rule))
