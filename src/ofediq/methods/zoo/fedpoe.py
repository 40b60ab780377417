"""Fed-POE: every client mixes the common model with one of its own, at no bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ofediq.arrays import Array, map_leaves, namespace
from ofediq.arrays import column as as_column
from ofediq.errors import require, require_choice, require_integer, require_positive
from ofediq.methods.client import ClientRule, Down, Outcome, Sample, Window
from ofediq.methods.composition import Method
from ofediq.methods.pieces import piece
from ofediq.methods.registry import Terms, make, named

_LARGEST = np.float32(1e18)  # a loss that counts as infinite; times the largest rate it is a number still
_CERTAIN = np.float32(87.0)  # log of the odds from which on the other side has no weight at all
_NONE = np.float32(1e-18)


@piece
@dataclass(frozen=True)
class Mixed(ClientRule):
    """`inner`, and beside it a model of the client's own; the outputs of both are mixed.

    own <- own - eta g(own) at every sample. With G = sum of (loss of own - loss of common), the odds of the common
    model are exp(r G). The rate r is 1 / sqrt(T) where T is known, 1 / sqrt(t) where it is not, or AdaHedge's.

    Attributes:
        inner: what is sent and how the common model is learnt.
        step_size: eta of the own model.
        steps: T; None if it is not known.
        mixing: `root` or `adaptive`.
    """

    inner: ClientRule
    step_size: float
    steps: int | None = None
    mixing: Literal["root", "adaptive"] = "root"
    personal = True
    idle = False  # who does not send goes on learning

    def __post_init__(self) -> None:
        require_positive("step_size", self.step_size)
        require_choice("mixing", self.mixing, ("root", "adaptive"))
        if self.steps is not None:
            require_integer("steps", self.steps, 1)
        require(not isinstance(self.inner, Mixed), "inner", "must not be mixed already", "fedpoe")

    @property
    def moves(self) -> bool:  # type: ignore[override]  # the inner rule's, an attribute in the base class
        """As `inner`."""
        return self.inner.moves

    @property
    def divides(self) -> bool:  # type: ignore[override]  # the inner rule's, an attribute in the base class
        """As `inner`."""
        return self.inner.divides

    @property
    def receipts(self) -> bool:  # type: ignore[override]  # the inner rule's, an attribute in the base class
        """As `inner`."""
        return self.inner.receipts

    def memory(self, params: Array) -> dict[str, Any]:
        """Of `inner`; the own model, which starts as the common one; G = 0; what the rate depends on."""
        zero = np.zeros((), np.float32)
        return {"inner": self.inner.memory(params), "own": params, "gap": zero, "spent": zero}

    def sends(self, dim: int) -> dict[str, int]:
        """As `inner`."""
        return self.inner.sends(dim)

    def start(self, down: Down, memory: Any) -> Array:
        """As `inner`."""
        return self.inner.start(down, memory["inner"])

    def notes(self, down: Down, memory: Any) -> dict[str, Any]:
        """Of `inner`, and what moves inside a window."""
        kept = {name: memory[name] for name in ("own", "gap", "spent")}
        return {"inner": self.inner.notes(down, memory["inner"]), **kept}

    def experts(self, window: Window, down: Down, memory: Any) -> tuple[tuple[Array, Array], ...]:
        """What `inner` predicts with, and the own model."""
        found = self.inner.experts(_inside(window), down, memory["inner"])
        require(len(found) == 1, "inner", "must predict with one model", f"{len(found)} experts")
        common, own = self._weights(window.notes["gap"], window.notes["spent"])
        return ((common, found[0][1]), (own, window.notes["own"]))

    def step(self, params: Array, gradients: Array) -> Array:
        """As `inner`."""
        return self.inner.step(params, gradients)

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """Both models learn, and the odds follow their losses."""
        notes = window.notes
        common, own = (_finite(loss) for loss in sample.losses)
        inner = self.inner.learn(
            _inside(window), sample._replace(losses=sample.losses[:1]), down, memory["inner"]
        )
        moved = {
            "inner": inner.notes,
            "own": notes["own"] - np.float32(self.step_size) * sample.gradient(notes["own"]),
            "gap": namespace(own).clip(notes["gap"] + (own - common), -_LARGEST, _LARGEST),
            "spent": notes["spent"] + self._spent(notes["gap"], notes["spent"], common, own),
        }
        return inner._replace(notes=moved)

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """As `inner`."""
        return self.inner.finish(_inside(window), down, memory["inner"])

    def offer(self, wanted: Mapping[str, Array], window: Window, down: Down, memory: Any) -> Array:
        """As `inner`."""
        return self.inner.offer(wanted, _inside(window), down, memory["inner"])

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Any]:
        """The inner memory as `inner` settles it; the rest is what the window came to."""
        xp = namespace(window.taken)
        inner = self.inner.settle(memory["inner"], _inside(window), outcome, down)
        if self.inner.idle:  # it expects to be asked by senders only
            inner = map_leaves(
                lambda new, old: xp.where(as_column(outcome.accepted, new), new, old), inner, memory["inner"]
            )
        return {"inner": inner, **{name: window.notes[name] for name in ("own", "gap", "spent")}}

    def _rate(self, spent: Array) -> Array:
        """r: how far the odds follow the losses."""
        xp = namespace(spent)
        if self.mixing == "adaptive":
            return np.float32(math.log(2)) / xp.maximum(spent, _NONE)
        if self.steps is not None:
            return np.float32(1 / math.sqrt(self.steps))
        return 1 / xp.sqrt(1 + xp.maximum(spent, np.float32(0)))

    def _weights(self, gap: Array, spent: Array) -> tuple[Array, Array]:
        """Of the common and of the own model; they add up to one."""
        xp = namespace(gap)
        odds = self._rate(spent) * xp.clip(gap, -_LARGEST, _LARGEST)
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
            xp.maximum(common, own) < _LARGEST, more, np.float32(0)
        )  # a model is gone: no more doubt


def _inside(window: Window) -> Window:
    return window._replace(notes=window.notes["inner"])


def _finite(loss: Array) -> Array:
    xp = namespace(loss)
    return xp.where(xp.isfinite(loss), xp.minimum(loss, _LARGEST), _LARGEST)


def _share(odds: Array) -> Array:
    """1 / (1 + exp(-odds)), and nothing at all where that is next to nothing."""
    xp = namespace(odds)
    return xp.where(odds < -_CERTAIN, np.float32(0), 1 / (1 + xp.exp(-xp.clip(odds, -_CERTAIN, _CERTAIN))))


def _soft_minimum(gap: Array, rate: Array) -> Array:
    """-1/r log((1 + exp(-r gap)) / 2): between 0 and `gap`, the smaller the nearer."""
    xp = namespace(gap)
    apart = xp.minimum(rate * xp.abs(gap), _CERTAIN)
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
    return replace(chosen, client=client, name=f"Fed-POE({chosen.name})")
