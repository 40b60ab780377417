"""Follow the regularised leader with error feedback, compressed in both directions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.errors import require_positive
from ofediq.methods.broadcast import Differences
from ofediq.methods.budgets.loudness import length
from ofediq.methods.composition import Method
from ofediq.methods.compress import keep_largest
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import ServerRule
from ofediq.methods.zoo.topk_ef import ErrorFeedback, spend_on_largest
from ofediq.settings import Positive


class Leader(NamedTuple):
    """What `Ftrl` keeps."""

    centre: Array  # w_0
    moves: Array  # -eta / K times all that was decoded


@piece
@dataclass(frozen=True)
class Ftrl(ServerRule):
    """w = w_0 - eta / K times the sum of all that was ever decoded, brought back into the ball around w_0.

    The minimiser of eta <sum, w> + ||w - w_0||^2 / 2 over the ball. Where descent forgets what projection cut off,
    the sum does not.

    Attributes:
        radius: of the ball; None for no end.
    """

    step_size: Positive
    radius: Positive | None = None
    name = "ftrl"
    alone = "`rule` must be FTRL's own, which keeps the sum of all rounds"

    def init(self, params: Array) -> Leader:
        """Nothing has arrived."""
        xp = namespace(params)
        return Leader(xp.array(params), xp.zeros_like(params))

    def apply(self, params: Array, total: Array, clients: int, state: Leader) -> tuple[Array, Leader]:
        """The leader after one more sum."""
        moves = state.moves - np.float32(self.step_size / clients) * total
        after = state._replace(moves=moves)
        if self.radius is None:
            return state.centre + moves, after
        xp, far = namespace(moves), length(moves)
        inside = xp.minimum(np.float32(1), np.float32(self.radius) / xp.maximum(far, np.float32(1e-30)))
        return state.centre + inside * moves, after


@named(
    "ftrl_ef",
    source="S. Yang, D.-Y. Li, L. Zhang: Distributed Online Convex Optimization with Compressed Communication: "
    "Optimal Regret and Applications, 2026; from its abstract",
    memory="an error vector of D numbers",
    spend=spend_on_largest,
)
def ftrl_ef(
    keep: int,
    keep_down: int | None = None,
    rate: float = 1.0,
    step_size: float = 0.01,
    radius: float | None = None,
) -> Method:
    """FTRL with error feedback in both directions: the k largest coordinates up and down, the rest remembered.

    Client:  a = e + u;  m = the k largest of a;  e <- a - m.  Server:  G <- G + 1/K sum of m;  w = the projection of
    w_0 - eta G onto a ball around w_0;  broadcast of the k' largest of w - v, which the clients add to v. What the
    broadcast left out is in the next difference. With compressors that keep a share delta of the squared norm the
    original has a regret of order delta^-1/2 sqrt(T) for convex losses, and proves that nothing does better.

    The original's scheme of how the server compresses over several rounds is not in its abstract; here it is this.
    Costs about k (32 + log2(D e / k)) bits up per message and as much with k' down, instead of 32 D.

    Args:
        keep: k.
        keep_down: k'; k if it is not given.
        rate: probability that a client sends at a step, not in the original.
        radius: of the ball; None for no projection.
    """
    base = method(
        client=ErrorFeedback(),
        server=Ftrl(require_positive("step_size", step_size), radius),
        participation=bernoulli(rate),
        compress=keep_largest(keep),
        name="FTRL-EF",
    )
    return replace(base, broadcast=Differences(keep_largest(keep if keep_down is None else keep_down)))
