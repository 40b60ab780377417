"""Regret of a run: how much worse than the best fixed model in hindsight, and what the theorems promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ofediq.errors import InputError
from ofediq.methods import Method
from ofediq.methods.compress import Quantize
from ofediq.methods.participation import Bernoulli
from ofediq.methods.server import Descend
from ofediq.simulation.hindsight import Comparator, hindsight
from ofediq.theory import ofedavg_regret_bound, ofediq_regret_bound, quantizer_variance

if TYPE_CHECKING:
    from ofediq.simulation.result import Result


@dataclass(frozen=True, eq=False)
class Regret:
    """Regret up to each step, and its bound.

    Attributes:
        curve: cumulative loss minus that of the comparator, [steps].
        bound: Theorem 1's or 2's value at each step, or None where no theorem applies.
        reason: why there is no bound; empty if there is one.
        comparator: the best fixed model in hindsight (over all steps).
    """

    curve: npt.NDArray[np.float64]
    bound: npt.NDArray[np.float64] | None
    reason: str
    comparator: Comparator

    @property
    def estimate(self) -> bool:
        """Whether the comparator is only an estimate, so that the true regret may be larger."""
        return not self.comparator.exact


def regret_of(result: Result, tolerance: float, comparator: Comparator | None = None) -> Regret:
    """The regret of `result`; see `Result.regret`."""
    start = None if result.model.convex or result.params.ndim != 1 else result.params
    if comparator is None:
        comparator = hindsight(result.model, result.stream, tolerance, start)
    curve = np.cumsum(result.loss - comparator.losses)
    bound, reason = _bound(result, comparator)
    return Regret(curve, bound, reason, comparator)


def _bound(result: Result, comparator: Comparator) -> tuple[npt.NDArray[np.float64] | None, str]:
    """The theorem that covers the run, at every step; or the reason why none does."""
    method, model = result.method, result.model
    beta = model.smoothness(result.stream.x)
    reason = _uncovered(method, result)
    if reason or beta is None:
        return None, reason or "the smoothness of the model is not known"
    assert isinstance(method.server, Descend)
    steps = result.steps
    rates = method.participation.rates(result.stream.clients).astype(float)
    arguments: dict[str, Any] = {
        "clients": result.stream.clients,
        "steps": steps,
        "optimum_norm": float(np.linalg.norm(comparator.params)),
        "heterogeneity": comparator.heterogeneity,
        "smoothness": beta,
    }
    try:
        if isinstance(method.compress, Quantize) or method.period > 1:
            variance = 0.0
            if isinstance(method.compress, Quantize):
                variance = quantizer_variance(method.compress.levels, method.compress.blocks, model.dim)
            extra: dict[str, Any] = {"quantizer_variance": variance, "period": method.period}
            last = ofediq_regret_bound(method.server.step_size, rates, **arguments, **extra)
        else:
            last = ofedavg_regret_bound(method.server.step_size, rates, **arguments)
    except InputError as error:
        return None, str(error)
    # Both theorems are a + c T: the first term does not grow, the rest is linear in the number of steps.
    first = result.stream.clients * arguments["optimum_norm"] ** 2 / (2 * method.server.step_size)
    return first + (last - first) * np.arange(1, steps + 1) / steps, ""


def _uncovered(method: Method, result: Result) -> str:
    """Why the theorems do not cover this run; empty if they do."""
    if not result.model.convex:
        return "the model is not convex"
    if method.topology != "federated":
        return "the theorems speak of federated methods"
    if not isinstance(method.server, Descend) or method.server.name != "descend":
        return f"the theorems assume plain descent, not {method.server.name}"
    if not isinstance(method.participation, Bernoulli):
        return "the theorems assume independent participation"
    if method.period > 1 and not method.local.moves:
        return "the theorems assume local steps"
    if not result.stream.complete:
        return "the theorems assume that every client has a sample at every step"
    return ""
