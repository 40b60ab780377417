"""Clients that predict with several models at once, by how each of them has done: at no bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from ofediq.arrays import Array, map_leaves, namespace
from ofediq.arrays import column as as_column
from ofediq.errors import require
from ofediq.methods.client import ClientRule, Down, Outcome, Sample, Window
from ofediq.methods.pieces import piece
from ofediq.methods.ridge import DRIFTS, first_ridge, learn_ridge
from ofediq.settings import Factor, NonNegative
from ofediq.wrapping import of_inner

LARGEST = np.float32(1e18)  # a loss that counts as infinite; times the largest rate it is a number still
CERTAIN = np.float32(87.0)  # log of the odds from which on the other side has no weight at all
NOTHING = np.float32(1e-18)


@dataclass(frozen=True)
class Beside(ClientRule):
    """The base of rules that put something beside an `inner` rule: what is sent, and where it is learnt, is inner's.

    What moves inside a window is in the notes under the names of `kept`, and is remembered from window to window.
    """

    inner: ClientRule
    personal = True
    idle = False  # who does not send goes on learning
    mirror = of_inner()
    moves = of_inner()
    divides = of_inner()
    receipts = of_inner()
    kept = of_inner()
    says = of_inner()
    worded = of_inner()
    beside = of_inner()
    sends = of_inner()
    step = of_inner()

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not isinstance(self.inner, Beside), "inner", "must not be mixed already", "a mixture")

    def first(self, params: Array) -> dict[str, Array]:
        """What one client keeps beside the inner memory, before its first window."""
        raise NotImplementedError

    def memory(self, params: Array) -> dict[str, Any]:
        """Of `inner`, and what is kept beside it."""
        return {"inner": self.inner.memory(params), **self.first(params)}

    def start(self, down: Down, memory: Any) -> Array:
        """As `inner`."""
        return self.inner.start(down, memory["inner"])

    def notes(self, down: Down, memory: Any) -> dict[str, Any]:
        """Of `inner`, and what moves inside a window."""
        return {**memory, "inner": self.inner.notes(down, memory["inner"])}

    def common(self, window: Window, down: Down, memory: Any) -> Array:
        """The one model that `inner` predicts with."""
        found = self.inner.experts(inside(window), down, memory["inner"])
        require(len(found) == 1, "inner", "must predict with one model", f"{len(found)} experts")
        return found[0][1]

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """As `inner`."""
        return self.inner.finish(inside(window), down, memory["inner"])

    def offer(self, wanted: Mapping[str, Array], window: Window, down: Down, memory: Any) -> Array:
        """As `inner`."""
        return self.inner.offer(wanted, inside(window), down, memory["inner"])

    def cleared(self, memory: Any, first: Any) -> dict[str, Any]:
        """What stands beside the inner rule is the client's own."""
        return {**memory, "inner": self.inner.cleared(memory["inner"], first["inner"])}

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Any]:
        """The inner memory as `inner` settles it; the rest is what the window came to."""
        xp = namespace(window.taken)
        inner = self.inner.settle(memory["inner"], inside(window), outcome, down)
        if self.inner.idle:  # it expects to be asked by senders only
            inner = map_leaves(
                lambda new, old: xp.where(as_column(outcome.accepted, new), new, old), inner, memory["inner"]
            )
        return {**window.notes, "inner": inner}


def inside(window: Window) -> Window:
    """The window as the inner rule sees it."""
    return window._replace(notes=window.notes["inner"])


def finite(loss: Array) -> Array:
    """A loss that is a number: what is not counts as the largest one."""
    xp = namespace(loss)
    return xp.where(xp.isfinite(loss), xp.minimum(loss, LARGEST), LARGEST)


@piece
@dataclass(frozen=True)
class Mixture(Beside):
    """`inner`, the naive forecast, and models of the client's own; their outputs are mixed by AdaHedge.

    For models that start from a naive forecast (`ofediq.models.anchored`), where parameters that are all zero *are*
    that forecast. With C_i the losses of expert i so far, its weight is prior_i exp(-r C_i) over their sum, where
    r = log(experts) / (what mixing has cost so far): S. de Rooij et al., Follow the Leader If You Can, Hedge If You
    Must, 2014. It counts as 1 before the first sample, so that the prior does not go with the first difference; both
    sums fade over `horizon` samples. The own models of a linear model are two ridge regressions, one of them for
    weights that change (`ofediq.methods.ridge`); that of any other model learns by AdaGrad,

        own <- own - eta g / sqrt(sum of g^2)   in each coordinate, g the gradient at own.

    The prior is .2 for the common model and .05 for each own model, or .01 where that is a ridge regression of a
    number, which follows chance in its first rows; the rest is for the naive forecast (`docs/own-data.md` has the
    measurements).

    Attributes:
        own: eta of the own model; 0 for none.
        horizon: how many samples count.
        outputs: of a linear model without penalty, whose own models are ridge regressions; 0 for any other model.
    """

    own: NonNegative = 0.05
    horizon: Factor = 1000.0
    outputs: Annotated[int, Meta(ge=0)] = 0

    @property
    def prior(self) -> tuple[float, ...]:
        """Of the common model, the naive forecast, and each own model."""
        each = 0.01 if self.outputs == 1 else 0.05
        own = (each,) * ((len(DRIFTS) if self.outputs else 1) if self.own else 0)
        return (0.2, 0.8 - sum(own), *own)

    def first(self, params: Array) -> dict[str, Array]:
        """No losses yet; the own models, which start where the common one does."""
        lost = np.zeros(len(self.prior), np.float32)
        kept = {"lost": lost, "spent": np.ones((), np.float32)}
        if self.own and self.outputs:
            return kept | first_ridge(params, self.outputs)._asdict()
        return kept | ({"own": params, "squares": params * np.float32(0)} if self.own else {})

    def experts(self, window: Window, down: Down, memory: Any) -> tuple[tuple[Array, Array], ...]:
        """What `inner` predicts with, the naive forecast, and the own models."""
        common = self.common(window, down, memory)
        models = (common, namespace(common).zeros_like(down.model), *self._own(window.notes))
        weights = self.weights(window.notes["lost"], self._rate(window.notes["spent"]))
        return tuple((weights[:, place], model) for place, model in enumerate(models))

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """All models learn, and the weights follow their losses."""
        notes = window.notes
        xp = namespace(notes["lost"])
        losses = xp.stack([finite(loss) for loss in sample.losses], axis=-1)
        inner = self.inner.learn(
            inside(window), sample._replace(losses=sample.losses[:1]), down, memory["inner"]
        )
        fade = np.float32(1 - 1 / self.horizon)
        lost = fade * (notes["lost"] + losses)
        spent = fade * (notes["spent"] + self._cost(notes["lost"], notes["spent"], losses))
        lost = xp.minimum(
            lost - lost.min(-1, keepdims=True), LARGEST
        )  # what they have in common does not matter
        moved = {"inner": inner.notes, "lost": lost, "spent": spent}
        moved |= self._learn_own(notes, sample)
        return inner._replace(notes=moved)

    def weights(self, lost: Array, rate: Array) -> Array:
        """Of the experts, [n, experts]; they add up to one."""
        xp = namespace(lost)
        behind = lost - lost.min(-1, keepdims=True)
        odds = np.log(np.asarray(self.prior, np.float32)) - xp.minimum(rate[:, None] * behind, CERTAIN)
        shares = xp.where(odds > -CERTAIN, xp.exp(odds), np.float32(0))
        return shares / shares.sum(-1, keepdims=True)

    def _rate(self, spent: Array) -> Array:
        return np.float32(math.log(len(self.prior))) / namespace(spent).maximum(spent, NOTHING)

    def _cost(self, lost: Array, spent: Array, losses: Array) -> Array:
        """What mixing costs at this sample: the mean loss less the soft minimum, -1/r log(mean exp(-r loss))."""
        xp = namespace(lost)
        rate = self._rate(spent)
        weights = self.weights(lost, rate)
        behind = losses - losses.min(-1, keepdims=True)
        kept = (weights * xp.exp(-xp.minimum(rate[:, None] * behind, CERTAIN))).sum(-1)
        cost = xp.maximum(
            (weights * behind).sum(-1) + xp.log(xp.maximum(kept, NOTHING)) / rate, np.float32(0)
        )
        return xp.where(losses.max(-1) < LARGEST, cost, np.float32(0))  # a model is gone: no more doubt

    def _own(self, notes: Mapping[str, Array]) -> tuple[Array, ...]:
        """The own models, [n, dim] each."""
        if not self.own:
            return ()
        if self.outputs:
            return tuple(notes["weights"][:, place] for place in range(len(DRIFTS)))
        return (notes["own"],)

    def _learn_own(self, notes: Mapping[str, Array], sample: Sample) -> dict[str, Array]:
        if not self.own:
            return {}
        xp = namespace(notes["lost"])
        if self.outputs:
            made = [
                learn_ridge(own, notes["spread"][:, place], sample.gradient(own), self.outputs, DRIFTS[place])
                for place, own in enumerate(self._own(notes))
            ]
            return {
                name: xp.stack(parts, axis=1)
                for name, parts in zip(("weights", "spread"), zip(*made, strict=True), strict=True)
            }
        gradient = sample.gradient(notes["own"])
        gradient = xp.where(xp.isfinite(gradient), gradient, np.float32(0))
        squares = xp.minimum(notes["squares"] + gradient * gradient, LARGEST)
        move = gradient / xp.sqrt(xp.where(squares > 0, squares, np.float32(1)))
        return {"own": notes["own"] - np.float32(self.own) * move, "squares": squares}
