"""Fed-POE: every client mixes the common model with one of its own, at no bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.errors import require
from ofediq.methods.client import Down, Sample, Window
from ofediq.methods.composition import Method
from ofediq.methods.mixture import CERTAIN, LARGEST, NOTHING, Beside, finite, inside
from ofediq.methods.pieces import piece
from ofediq.methods.registry import make, named
from ofediq.methods.terms import Terms
from ofediq.settings import Count, Positive


@piece
@dataclass(frozen=True)
class Mixed(Beside):
    """`inner`, and beside it a model of the client's own; the outputs of both are mixed.

    own <- own - eta g(own) at every sample. With G = sum of (loss of own - loss of common), the odds of the common
    model are exp(r G). The rate r is 1 / sqrt(T) where T is known, 1 / sqrt(t) where it is not, or AdaHedge's.

    Attributes:
        inner: what is sent and how the common model is learnt.
        step_size: eta of the own model.
        steps: T; None if it is not known.
        mixing: `root` or `adaptive`.
    """

    step_size: Positive = 0.01
    steps: Count | None = None
    mixing: Literal["root", "adaptive"] = "root"

    def first(self, params: Array) -> dict[str, Array]:
        """The own model, which starts as the common one; G = 0; what the rate depends on."""
        zero = np.zeros((), np.float32)
        return {"own": params, "gap": zero, "spent": zero}

    def experts(self, window: Window, down: Down, memory: Any) -> tuple[tuple[Array, Array], ...]:
        """What `inner` predicts with, and the own model."""
        shares = self._weights(window.notes["gap"], window.notes["spent"])
        return ((shares[0], self.common(window, down, memory)), (shares[1], window.notes["own"]))

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """Both models learn, and the odds follow their losses."""
        notes = window.notes
        inner = self.inner.learn(
            inside(window), sample._replace(losses=sample.losses[:1]), down, memory["inner"]
        )
        own = notes["own"] - np.float32(self.step_size) * sample.gradient(notes["own"])
        return inner._replace(notes={"inner": inner.notes, "own": own, **self._odds(notes, sample.losses)})

    def _odds(self, notes: Mapping[str, Array], losses: tuple[Array, ...]) -> dict[str, Array]:
        """What the weights depend on, after one more sample."""
        common, own = (finite(loss) for loss in losses)
        return {
            "gap": namespace(own).clip(notes["gap"] + (own - common), -LARGEST, LARGEST),
            "spent": notes["spent"] + self._spent(notes["gap"], notes["spent"], common, own),
        }

    def _rate(self, spent: Array) -> Array:
        """r: how far the odds follow the losses."""
        xp = namespace(spent)
        if self.mixing == "adaptive":
            return np.float32(math.log(2)) / xp.maximum(spent, NOTHING)
        if self.steps is not None:
            return np.float32(1 / math.sqrt(self.steps))
        return 1 / xp.sqrt(1 + xp.maximum(spent, np.float32(0)))

    def _weights(self, gap: Array, spent: Array) -> tuple[Array, Array]:
        """Of the common and of the own model; they add up to one."""
        xp = namespace(gap)
        odds = self._rate(spent) * xp.clip(gap, -LARGEST, LARGEST)
        return _share(odds), _share(-odds)

    def _spent(self, gap: Array, spent: Array, common: Array, own: Array) -> Array:
        """One more sample, or AdaHedge's mixability gap: the mean loss less the loss of the soft minimum."""
        xp = namespace(gap)
        if self.mixing == "root":
            return xp.ones_like(spent)
        rate = self._rate(spent)
        first, second = self._weights(gap, spent)
        moved = common + _soft_minimum(gap + (own - common), rate) - _soft_minimum(gap, rate)
        more = xp.maximum(first * common + second * own - moved, np.float32(0))
        return xp.where(
            xp.maximum(common, own) < LARGEST, more, np.float32(0)
        )  # a model is gone: no more doubt


def _share(odds: Array) -> Array:
    """1 / (1 + exp(-odds)), and nothing at all where that is next to nothing."""
    xp = namespace(odds)
    return xp.where(odds < -CERTAIN, np.float32(0), 1 / (1 + xp.exp(-xp.clip(odds, -CERTAIN, CERTAIN))))


def _soft_minimum(gap: Array, rate: Array) -> Array:
    """-1/r log((1 + exp(-r gap)) / 2): between 0 and `gap`, the smaller the nearer."""
    xp = namespace(gap)
    apart = xp.minimum(rate * xp.abs(gap), CERTAIN)
    return xp.minimum(gap, np.float32(0)) - (xp.log1p(xp.exp(-apart)) - np.float32(math.log(2))) / rate


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """The inner method spends the budget; mixing costs nothing."""
    return {"steps": terms.steps}


@named(
    "fedpoe",
    source="P. M. Ghari, Y. Shen: Personalized Federated Learning with Mixture of Models, 2024; the "
    "equations from their public code (regression); their list of past models is left out",
    memory="a model of its own, two numbers, and what the inner method remembers",
    spend=_spend,
)
def fedpoe(
    inner: Method | str = "ofediq",
    step_size: float = 0.01,
    steps: int | None = None,
    mixing: Literal["root", "adaptive"] = "root",
) -> Method:
    """Fed-POE around any method: predict with a mixture of the common model and one that learns alone. No bits.

    f = (a f_common + b f_own) / (a + b);  a *= exp(-r loss_common), b *= exp(-r loss_own), r = 1 / sqrt(T);
    own <- own - eta g(own). What is sent, and the common model, are those of the inner method.

    Good where clients differ, or where nobody knows whether they do. With losses in [0, B] that are convex in the
    outputs, a client loses at most (log 2 + B^2 / 8) sqrt(T) more than the better of the two. That says little where
    losses are far below 1, as squared errors of scaled targets are: the weights then stay near one half.
    `mixing="adaptive"` (ours: AdaHedge, de Rooij et al. 2014) needs no scale and no T. Outputs are mixed, so class
    scores for a classification. Where T is not known, r = 1 / sqrt(t). The originals' script for regression keeps a
    and b from one of its 20 repetitions to the next, so all but the first start with weights already learnt.

    Args:
        inner: the method that it wraps, such as ofediq or fedavg(period=4).
        step_size: eta of the own model.
        steps: T; a budget sets it.
        mixing: `root` as in the original, or `adaptive`.
    """
    chosen = make(inner, step_size=step_size) if isinstance(inner, str) else inner
    require(chosen.topology == "federated", "inner", "must be a federated method", chosen.name)
    client = Mixed(chosen.client, step_size, steps, mixing)
    return replace(
        chosen, client=client, name=f"Fed-POE({chosen.name}{', adaptive' * (mixing == 'adaptive')})"
    )
