"""LASG: lazy gradients that look at one sample with two models, so that noise does not count as change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.methods.client import Down, Outcome, Sample, Window
from ofediq.methods.composition import Method
from ofediq.methods.pieces import piece
from ofediq.methods.registry import named
from ofediq.methods.zoo.laq import Lazy, laq, spend_lazily, squares


@piece
@dataclass(frozen=True)
class LazySameSample(Lazy):
    """As `Lazy`, but sends if ||g(w now) - g(w when it last sent)||^2 >= trigger, both at the same samples."""

    def memory(self, params: Array) -> dict[str, Array]:
        """And the model of the last message."""
        return {**super().memory(params), "model": params}

    def notes(self, down: Down, memory: Any) -> Array:
        """How much the gradient has changed with the model, added up over the window."""
        return namespace(down.model).zeros_like(memory["heard"])

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """Two gradients of one sample."""
        fresh = sample.gradient(window.own)
        notes = window.notes + fresh - sample.gradient(memory["model"])
        return window._replace(gradients=window.gradients + fresh, notes=notes)

    def change(self, wanted: Array, window: Window, memory: Any) -> tuple[Array, Array]:
        """The change at the same samples, and nothing for the rounding."""
        return squares(window.notes), np.float32(0)

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """The model of a message that counted is kept."""
        xp = namespace(window.taken)
        model = xp.where(outcome.accepted[:, None], down.model, memory["model"])
        return {**super().settle(memory, window, outcome, down), "model": model}


@named(
    "lasg",
    source="T. Chen, Y. Sun, W. Yin: LASG: Lazily Aggregated Stochastic Gradients, 2020, rule WK2 as a third "
    "party's public simulator of it has it",
    memory="what the server has of it and an old model (2 D numbers), an error, a clock",
    spend=spend_lazily,
)
def lasg(
    bits: int = 4, threshold: float = 0.6, patience: int = 100, period: int = 1, step_size: float = 0.02
) -> Method:
    """LASG: LAQ's stochastic form, in which a client is silent while the model has not changed its gradient much.

    At the same sample x:  sends iff ||g(w; x) - g(w'; x)||^2 >= c / (10 eta^2) sum of the last ten ||move of w||^2,
    with w' the model of its last message, or after 100 silent windows.  What is sent, and the server: as `laq`.

    Two gradients per sample instead of one, and a second vector of memory. LAQ never skips here because two samples
    differ; this rule does, where eta times the curvature is small, and the more the smoother the loss. What the
    server keeps of a silent client is a gradient at an old sample: the price is noise that does not average out over
    the silence. Up 32 + b D bits per message (the original sends whole gradients), down 32 D and 32 for the
    trigger. A budget is kept as if everyone always sent.

    The rule and its ten moves are those of a public simulator of the paper, whose text was not at hand. It weighs
    each move by 0.1 / eta^2, which is c eta^2 = 1 here, divides by the squared number of clients twice, and lets
    nobody be silent for more than 50 steps; c eta^2 = 0.6 and 100 steps are from memory.

    Args:
        bits: b.
        threshold: c eta^2.
        patience: windows after which a client speaks in any case.
        period: L; gradients at w are added up.
    """
    return replace(
        laq(bits, threshold, patience, period, step_size), client=LazySameSample(bits, patience), name="LASG"
    )
