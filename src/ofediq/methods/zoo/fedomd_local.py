"""FedOMD as its authors have it: a client predicts with its own model, which moves at every step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ofediq.arrays import Array
from ofediq.methods.client import ClientRule, Down, Window
from ofediq.methods.composition import Method
from ofediq.methods.mirror import Euclidean, MirrorMap, mirror_map
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import FromTotals, Totals
from ofediq.settings import Positive

Average = Literal["primal", "dual"]
"""Which mean is taken: of the models, or of their images under the mirror map."""


@piece
@dataclass(frozen=True)
class LocalMirror(ClientRule):
    """Predicts with y;  y <- back(dual(y) - eta g(y)); sends (w - y) / eta, or the sum of its gradients if dual."""

    step_size: Positive
    mirror: MirrorMap = field(default_factory=Euclidean)
    average: Average = "primal"
    divides = False
    personal = True

    def experts(self, window: Window, down: Down, memory: Any) -> tuple[tuple[Array, Array], ...]:
        """Its own model, wherever it is by now."""
        return ((np.float32(1), window.own),)

    def step(self, params: Array, gradients: Array) -> Array:
        """One mirror step."""
        return self.mirror.back(self.mirror.dual(params) - np.float32(self.step_size) * gradients)

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """How far it went, in the space in which the server takes the mean."""
        if self.average == "dual":
            return {"update": window.gradients}
        return {"update": (down.model - window.own) / np.float32(self.step_size)}


@piece
@dataclass(frozen=True)
class MirrorMean(FromTotals):
    """w <- the mean of the senders' models, or back(the mean of their duals)."""

    step_size: Positive
    mirror: MirrorMap = field(default_factory=Euclidean)
    average: Average = "primal"

    @property
    def name(self) -> str:
        """Short name."""
        return f"{self.average}_mean"

    def start(self, params: Array) -> Array:
        """The centre of the mirror map's domain where `params` lie outside."""
        return self.mirror.start(params)

    def moved(self, params: Array, totals: Totals, state: Any) -> tuple[Array, Any]:
        """Divided by the number of senders, whoever they are."""
        move = np.float32(self.step_size) * totals.vectors["update"] / totals.divisor
        if self.average == "primal":
            return params - move, state
        return self.mirror.back(self.mirror.dual(params) - move), state


@named(
    "fedomd_local",
    source="A. Mitra, H. Hassani, G. Pappas: Online Federated Learning, 2021, in the original form",
    spend=lambda terms, given: {"period": math.ceil(1.0 / terms.budget - 1e-9)},
)
def fedomd_local(
    period: int, step_size: float = 0.01, mirror: str = "euclidean", average: Average = "primal"
) -> Method:
    """FedOMD in the original form: local mirror descent that predicts with the moving local model.

    Client:  y = w;  L times: predict with y, then y <- back(dual(y) - eta g(y)).
    Server:  w <- mean of y (`primal`), or back(mean of dual(y)) (`dual`), over those who had a sample.

    `fedomd` is the paper's version of it, which predicts with w until the window ends. This one has learnt from up to
    L - 1 samples more when it predicts, at the same bits, and most where every client has data of its own kind. Its
    losses are those of K models, so no theorem of the paper covers it. The two means are the same for `euclidean`; on
    the simplex the second is the normalised geometric mean. Costs 32 K D / L bits per step; no memory. Online it is
    the original; what is ours is that a client without a sample in a window is left out of the mean.

    Args:
        period: L; a budget rounds it up, so that it is not exceeded.
        mirror: euclidean, simplex or positive.
        average: `primal` or `dual`.
    """
    geometry = mirror_map(mirror)
    return method(
        client=LocalMirror(float(step_size), geometry, average),
        server=MirrorMean(float(step_size), geometry, average),
        period=period,
        name="FedOMD (local)",
    )
