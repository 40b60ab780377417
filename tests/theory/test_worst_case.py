"""The regret bounds against the worst targets and first models that there are, found exactly.

For least squares, regret minus bound is a quadratic form in all targets and the first model together, at every step
and also in the mean over all draws of who sends. A bound holds for every stream with these features exactly if no
eigenvalue of the form is positive.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ofediq.theory import ofedavg_step_limit, ofediq_step_limit, regret_bound_curve

Floats = npt.NDArray[np.float64]
FEATURES: dict[str, Callable[[np.random.Generator, tuple[int, int, int]], Floats]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "equal": lambda rng, shape: np.ones(shape),
    "spiky": lambda rng, shape: (
        rng.standard_normal(shape) * np.where(rng.random(shape[:2]) < 0.3, 1, 0.05)[..., None]
    ),
}


class Game:
    """Clients with features x and gaps; the loss is (w.x - y)^2 + l2 / 2 ||w||^2, zero for who is absent."""

    def __init__(self, kind: str, steps: int, clients: int, dim: int, l2: float, absent: float) -> None:
        rng = np.random.default_rng(0)
        self.x: Floats = FEATURES[kind](rng, (steps, clients, dim))
        self.there = (rng.random((steps, clients)) >= absent).astype(float)
        self.there[0] = 1
        self.l2, self.smoothness = l2, 2 * float((self.x**2).sum(-1).max()) + l2
        self.steps, self.clients, self.dim = steps, clients, dim
        gram = 2 * np.einsum("tkd,tke,tk->de", self.x, self.x, self.there)
        self.inverse = np.linalg.pinv(gram + l2 * self.there.sum() * np.eye(dim))

    def above_bound(self, choices: Floats, rate: float, period: int, share: float) -> Floats:
        """Regret minus bound after each step, [steps, n], for n choices of all targets and a first model."""
        y, first = choices[:, : -self.dim].reshape(-1, self.steps, self.clients), choices[:, -self.dim :]
        best = 2 * np.einsum("tkd,ntk,tk->nd", self.x, y, self.there) @ self.inverse
        common: dict[str, Any] = {"clients": self.clients, "smoothness": self.smoothness}
        limit = (
            ofedavg_step_limit(rate, **common)
            if period == 1
            else ofediq_step_limit(rate, **common, period=period)
        )
        eta = share * limit
        terms = [
            regret_bound_curve(eta, rate, **common, period=period, distance=apart, gradients=[square])[0]
            for apart, square in ((1.0, 0.0), (0.0, 1.0))
        ]
        at_best = [self.gradients(np.repeat(best[:, None], self.clients, 1), y, t) for t in range(self.steps)]
        squares = np.cumsum([(one**2).sum((1, 2)) for one in at_best], axis=0)
        bound = terms[0] * ((first - best) ** 2).sum(1) + terms[1] * squares
        patterns = list(product((0, 1), repeat=self.clients * (self.steps // period))) if rate < 1 else [None]
        regret = np.zeros((self.steps, len(choices)))
        for pattern in patterns:
            sent = sum(pattern or ())
            chance = 1.0 if pattern is None else rate**sent * (1 - rate) ** (len(pattern) - sent)
            regret += chance * self.regret(y, first, best, pattern, rate, period, eta)
        return np.asarray(regret - bound)

    def regret(
        self,
        y: Floats,
        first: Floats,
        best: Floats,
        pattern: tuple[int, ...] | None,
        rate: float,
        period: int,
        eta: float,
    ) -> Floats:
        model, found, sends = first, [], iter(pattern or ())
        for begin in range(0, self.steps, period):
            own = np.repeat(model[:, None], self.clients, 1)
            total = np.zeros_like(own)
            for t in range(begin, min(begin + period, self.steps)):
                found.append(self.loss(model, y, t) - self.loss(best, y, t))
                gradients = self.gradients(own, y, t)
                own, total = own - eta * gradients, total + gradients
            if begin + period <= self.steps:
                counts = (
                    np.ones(self.clients)
                    if pattern is None
                    else [next(sends) / rate for _ in range(self.clients)]
                )
                model = model - eta / self.clients * np.einsum("k,nkd->nd", counts, total)
        return np.cumsum(found, axis=0)

    def loss(self, w: Floats, y: Floats, t: int) -> Floats:
        each = (w @ self.x[t].T - y[:, t]) ** 2 + self.l2 / 2 * (w * w).sum(1)[:, None]
        return np.asarray((each * self.there[t]).sum(1))

    def gradients(self, w: Floats, y: Floats, t: int) -> Floats:
        """Of each client at its own model, [n, clients, dim]."""
        each = 2 * ((w * self.x[t]).sum(-1) - y[:, t])[..., None] * self.x[t] + self.l2 * w
        return np.asarray(each * self.there[t][:, None])

    def worst(self, rate: float, period: int, share: float) -> float:
        """The largest eigenvalue of the form at any step, in units of its largest entry."""
        unit = np.eye(self.steps * self.clients + self.dim)
        pairs = list(combinations(range(len(unit)), 2))
        alone = self.above_bound(unit, rate, period, share)
        both = self.above_bound(np.array([unit[i] + unit[j] for i, j in pairs]), rate, period, share)
        forms = np.stack([np.diag(row) for row in alone])
        for place, (i, j) in enumerate(pairs):
            forms[:, i, j] = forms[:, j, i] = (both[:, place] - alone[:, i] - alone[:, j]) / 2
        return max(float(np.linalg.eigvalsh(form)[-1] / np.abs(form).max()) for form in forms)


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("absent", [0.0, 0.5])
@pytest.mark.parametrize("l2", [0.0, 0.5])
@pytest.mark.parametrize("period", [1, 2, 3, 8])
def test_no_stream_breaks_the_bound_where_everyone_sends(
    kind: str, absent: float, l2: float, period: int
) -> None:
    for steps, clients, dim in ((9, 1, 1), (6, 2, 2)):
        for share in (0.999, 0.2):  # of the largest step size
            assert Game(kind, steps, clients, dim, l2, absent).worst(1.0, period, share) <= 1e-12


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("rate", [0.7, 0.2])
@pytest.mark.parametrize("period", [1, 2])
def test_no_stream_breaks_the_bound_in_the_mean_over_who_sends(kind: str, rate: float, period: int) -> None:
    assert Game(kind, 4, 2, 1, 0.0, 0.0).worst(rate, period, 0.999) <= 1e-12


def test_a_step_size_beyond_the_limit_can_break_it() -> None:
    """The check can fail: with four times the largest step size some stream is above the bound's terms."""
    game = Game("equal", 9, 1, 1, 0.0, 0.0)
    game.smoothness /= 4  # a limit that is four times too large
    assert game.worst(1.0, 1, 0.999) > 1e-6
