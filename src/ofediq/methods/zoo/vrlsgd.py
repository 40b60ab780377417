"""VRL-SGD: local steps without the drift, with nothing beside the model in either direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.methods.client import ClientRule, Down, Outcome, Sample, Window
from ofediq.methods.composition import Method
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import Descend
from ofediq.settings import Count, Positive


@piece
@dataclass(frozen=True)
class VarianceReduced(ClientRule):
    """y <- y - gamma (g(y) - Delta_k); sends u = (w - y) / gamma; Delta_k <- Delta_k + (next w - y) / (L gamma).

    The next w is known only when the next window opens, and a client may not be there then. But w is all that the
    server ever subtracts: Delta_k = m_k + w / (L gamma), with m_k <- m_k + u / L. So m_k is what is remembered, and
    Delta_k is right whenever the client comes back.
    """

    step_size: Positive
    period: Count
    warmup: bool = True
    divides = False
    receipts = True
    kept = 1.0

    @property
    def _scale(self) -> np.float32:
        return np.float32(1 / (self.step_size * self.period))

    def memory(self, params: Array) -> dict[str, Array]:
        """m_k, such that Delta_k = 0; and how many windows it has had, up to one."""
        return {"sum": -self._scale * params, "begun": namespace(params).zeros((), np.float32)}

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """One corrected step; in the warm-up y stays at w, and all gradients of the window are one step."""
        corrected = sample.gradient(window.own) - (memory["sum"] + self._scale * down.model)
        step = np.float32(self.step_size) * corrected
        if self.warmup:
            step = namespace(step).where(memory["begun"][:, None] > 0, step, np.float32(0))
        return window._replace(own=window.own - step, gradients=window.gradients + corrected)

    def says(self, update: Array, down: Down) -> Array:
        """The change of m_k."""
        return update / np.float32(self.period)

    def worded(self, said: Array, down: Down) -> Array:
        """u, from the change of m_k."""
        return np.float32(self.period) * said

    def beside(self, down: Down) -> Array:
        """w / (L gamma): with it m_k is Delta_k, and after u / L the mean gradient of the window."""
        return self._scale * down.model

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """m_k follows what the server decoded and used."""
        xp, counted = namespace(window.taken), outcome.accepted
        moved = xp.where(counted[:, None], outcome.decoded["update"], np.float32(0))
        return {
            "sum": memory["sum"] + self.says(moved, down),
            "begun": xp.where(counted, np.float32(1), memory["begun"]),
        }


@piece
@dataclass(frozen=True)
class MeanOfAll(Descend):
    """w <- w - gamma / K sum of u: the mean of all y, where y = w for those who had no sample."""

    alone = "`rule` must be VRL-SGD's own, which the clients' memories rely on"
    descent = None  # no theorem of the paper's covers it


@named(
    "vrlsgd",
    source="X. Liang et al.: Variance Reduced Local SGD with Lower Communication Complexity, 2019",
    memory="a correction of D numbers, and whether it has begun",
    spend=lambda terms, given: {"period": math.ceil(1.0 / terms.budget - 1e-9)},
)
def vrlsgd(period: int = 8, step_size: float = 0.01, warmup: bool = True) -> Method:
    """VRL-SGD: local steps with corrections that add up to zero, so that different data do not pull clients apart.

    Client:  y = w;  L times y <- y - gamma (g(y) - Delta_k);  Delta_k <- Delta_k + (next w - y) / (L gamma).
    Server:  w <- mean of y over all clients.

    SCAFFOLD with everyone, at half of its downlink: the mean that a client needs is the next model. Costs 32 K D / L
    bits per step up and 32 D per broadcast down. With L = 1 it is FedOGD. Good for large L and clients whose data
    differ in kind; everyone sends, so a budget sets L alone.

    Online: a client without a sample in a window counts as one that stayed at w, which keeps the sum of all Delta_k
    at zero, and a message that is lost counts in the same way. The original's warm-up is a first window of one step,
    from w, so that every Delta_k starts as a gradient there; windows are equally long here, so the warm-up takes all
    gradients of a client's first window at w and moves by their sum. w / (L gamma) is added to what is remembered:
    with a step size below about 1e-6 single precision is not enough for it. When u is compressed both sides use what
    was decoded.

    Args:
        period: L; a budget rounds it up, so that it is not exceeded.
        step_size: gamma.
        warmup: whether a client's first window is one step.
    """
    return method(
        client=VarianceReduced(float(step_size), period, warmup),
        server=MeanOfAll(float(step_size)),
        period=period,
        name="VRL-SGD",
    )
