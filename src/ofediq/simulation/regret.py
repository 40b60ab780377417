"""Regret of a run: how much worse than the best fixed model in hindsight, and what the theorems promise."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ofediq.arrays import Floats, Vector
from ofediq.errors import InputError, require_integer
from ofediq.methods import Method
from ofediq.simulation.comparator import Comparator, hindsight, losses_of
from ofediq.theory import regret_bound_curve

if TYPE_CHECKING:
    from ofediq.simulation.result import Result

_PIECES = ("name", "client", "participation", "compress", "server", "period", "topology", "broadcast")
"""The parts of a method that the theorems have a word for."""


@dataclass(frozen=True, eq=False)
class Regret:
    """Regret up to each step, and its bound.

    Attributes:
        curve: cumulative loss minus that of the comparator, [steps].
        bound: Theorem 1's or 2's value at each step, or None where no theorem applies. It bounds the mean over the
            draws of participation and quantiser; where nothing is drawn, the regret itself.
        reason: why there is no bound; empty if there is one.
        comparator: the best fixed model in hindsight (over all steps).
        idle: the regret of keeping the first model for ever, [steps]: what learning has to stay under.
    """

    curve: Floats
    bound: Floats | None
    reason: str
    comparator: Comparator
    idle: Floats

    @property
    def estimate(self) -> bool:
        """Whether the comparator is only an estimate, so that the true regret may be larger."""
        return not self.comparator.exact


def regret_of(result: Result, tolerance: float, comparator: Comparator | None = None) -> Regret:
    """The regret of `result`; see `Result.regret`."""
    start = None if result.model.convex or result.params.ndim != 1 else result.params
    if comparator is None:
        comparator = hindsight(result.model, result.stream, tolerance=tolerance, start=start)
    curve = np.cumsum(result.loss - comparator.losses)
    try:
        bound, reason = _bound(result, comparator), ""
    except InputError as error:
        bound, reason = None, str(error)
    idle = np.cumsum(losses_of(result.model, result.stream, _first(result)) - comparator.losses)
    return Regret(curve, bound, reason, comparator, idle)


@dataclass(frozen=True, eq=False)
class DynamicRegret:
    """Regret against the best model of each window: what a learner that follows a drift is measured by.

    Attributes:
        curve: cumulative loss minus that of the comparators, [steps].
        comparators: the best fixed model of each window, in order; None where nobody had a sample.
    """

    curve: Floats
    comparators: tuple[Comparator | None, ...]

    @property
    def estimate(self) -> bool:
        """Whether a comparator is only an estimate, so that the true regret may be larger."""
        return not all(one.exact for one in self.comparators if one is not None)

    @property
    def path(self) -> float:
        """How far the best model moves: the sum of |w*_{i+1} - w*_i| over the windows."""
        places = [one.params for one in self.comparators if one is not None]
        return float(sum(np.linalg.norm(there - here) for here, there in pairwise(places)))


def dynamic_regret_of(result: Result, window: int, tolerance: float) -> DynamicRegret:
    """The regret of `result` against the best model of each window; see `Result.dynamic_regret`."""
    window, stream = require_integer("window", window, 1), result.stream
    start = None if result.model.convex or result.params.ndim != 1 else result.params
    best: list[Comparator | None] = []
    losses = np.zeros(result.steps)
    for first in range(0, result.steps, window):
        part = replace(stream, order=stream.order[first : first + window])
        best.append(
            hindsight(result.model, part, tolerance=tolerance, start=start) if part.present.any() else None
        )
        if best[-1] is not None:
            losses[first : first + window] = best[-1].losses
    return DynamicRegret(np.cumsum(result.loss - losses), tuple(best))


def _bound(result: Result, comparator: Comparator) -> Floats:
    """The theorem that covers the run, at every step; or an `InputError` that says why none does.

    A client without a sample has the loss zero at that step, which is convex and smooth: gaps are covered.
    """
    if not result.model.convex:
        raise InputError("the model is not convex")
    smoothness = result.model.smoothness(result.stream.x)
    clients, method = result.stream.clients, result.method
    step_size, variance = _terms(method, result.model.dim)
    if smoothness is None:
        raise InputError("the smoothness of the model is not known")
    return regret_bound_curve(
        step_size,
        method.participation.rates(clients).astype(float),
        distance=float(np.linalg.norm(_first(result) - comparator.params)),
        gradients=comparator.gradients,
        clients=clients,
        smoothness=smoothness,
        quantizer_variance=variance,
        period=method.period,
    )


def _first(result: Result) -> Vector:
    """The model before the first step, moved into the domain of the server's rule where it has one."""
    initial = result.model.initial(result.seed) if result.initial is None else result.initial
    return np.asarray(result.method.server.start(initial))


def _terms(method: Method, dim: int) -> tuple[float, float]:
    """eta and sigma_q^2 of a method that Theorem 1 or 2 covers; an `InputError` says why none does.

    The pieces themselves say what the theorems need to know. One that does not say it is not covered, and neither is
    a method with a part that the theorems have no word for.
    """
    if method.topology != "federated":
        raise InputError("the theorems speak of federated methods")
    step_size: float | None = _claim(method.server, "descent", "apply")
    if step_size is None:
        around = f" in {type(method.server).__name__}" if len(method.server.layers) > 1 else ""
        raise InputError(f"the theorems assume plain descent, not {method.server.name}{around}")
    if not _claim(method.participation, "independent", "active"):
        raise InputError("the theorems assume independent participation")
    if not method.broadcast.exact:
        raise InputError("the theorems assume that clients receive the whole model")
    proven = _claim(method.compress, "variance", "apply")
    variance: float | None = None if proven is None else proven(dim)
    if variance is None:
        name = type(method.compress).__name__
        raise InputError(f"the theorems assume messages of proven mean and variance, not {name}")
    local: float | None = _claim(method.client, "descent", "step")
    if method.period > 1 and local != step_size:
        found = type(method.client).__name__ if local is None else f"{local:g}"
        raise InputError(
            f"the theorems assume local steps of the server's step size {step_size:g}, not {found}"
        )
    if not method.client.plain:
        raise InputError(f"the theorems assume clients that send their gradients, not {method.client!r}")
    for part in fields(method):
        default = part.default_factory() if part.default_factory is not MISSING else part.default
        if part.name not in _PIECES and getattr(method, part.name) != default:
            raise InputError(f"the theorems do not speak of `{part.name}`")
    return step_size, variance


def _claim(piece: object, name: str, work: str) -> Any:
    """What `piece` says of itself, unless a subclass has changed how it works and left the word of its parent."""
    for kind in type(piece).__mro__:
        if name in vars(kind):
            return getattr(piece, name)
        if work in vars(kind):
            return None
    return None
