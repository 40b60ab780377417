"""`Walk`: clients that go on learning by themselves between two broadcasts, and send how far they came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.methods.client import Down, Sample, Window
from ofediq.methods.mixture import LARGEST
from ofediq.methods.pieces import piece
from ofediq.methods.server.rule import Descend
from ofediq.methods.zoo.fedpoe import Mixed


@piece
@dataclass(frozen=True)
class Walk(Mixed):
    """A client whose own model walks from the common one, by AdaGrad; it predicts with both.

    With v the common model and a its weight in the client's predictions so far, a window opens with

        own <- own + a (v - own),   begun <- own

    and at every sample, with g the gradient at own, in each coordinate

        s <- s + g^2,   own <- own - eta g / sqrt(s).

    What is sent is begun - own: the mean of K walks has the noise of K times as many samples, goes as far as they
    did, and needs no step size of the server's. Where there are few messages, each of them says more than a gradient.
    The outputs of v and own are mixed as in `Mixed`, so that a client whose messages are few is no worse than alone.

    Attributes:
        step_size: eta.
    """

    mixing: Literal["root", "adaptive"] = "adaptive"

    def first(self, params: Array) -> dict[str, Array]:
        """The own model, which starts as the common one, its squares, and what the weights depend on."""
        return super().first(params) | {"squares": params * np.float32(0), "begun": params}

    def notes(self, down: Down, memory: Any) -> dict[str, Any]:
        """The window opens: the own model moves towards the common one, the more the better that one did."""
        trust = self._weights(memory["gap"], memory["spent"])[0][:, None]
        own = memory["own"] + trust * (down.model - memory["own"])
        return super().notes(down, memory) | {"own": own, "begun": own}

    def learn(self, window: Window, sample: Sample, down: Down, memory: Any) -> Window:
        """The own model takes a step, and the odds follow the losses; no gradient at the common model is needed."""
        notes, xp = window.notes, namespace(window.taken)
        gradient = sample.gradient(notes["own"])
        gradient = xp.where(xp.isfinite(gradient), gradient, np.float32(0))
        squares = xp.minimum(notes["squares"] + gradient * gradient, LARGEST)
        step = np.float32(self.step_size) * gradient / xp.sqrt(xp.where(squares > 0, squares, np.float32(1)))
        moved = {"own": notes["own"] - step, "squares": squares}
        return window._replace(notes={**notes, **moved, **self._odds(notes, sample.losses)})

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """How far it came, with the sign of a gradient."""
        return {"update": window.notes["begun"] - window.notes["own"]}


@piece
@dataclass(frozen=True)
class MeanWalk(Descend):
    """The server where clients walk: it goes as far as they did on average, w' = w - total / K."""

    step_size: float = 1.0
    # A rule that takes walks for gradients would follow their signs, or their lengths, once more.
    alone = (
        "`server` must be left out where OFedDuplex's clients walk by themselves, "
        "or `ofedduplex(walks=False)` be said"
    )


def walk(inner: Any, step_size: float) -> Walk:
    """Clients that walk with AdaGrad's `step_size` (eta) from the model that `inner` starts with.

    >>> from ofediq.methods import hold
    >>> rule, v = walk(hold(), 0.1), np.zeros(2, np.float32)
    >>> memory = {name: np.asarray(leaf)[None] for name, leaf in rule.memory(v).items() if name != "inner"}
    >>> memory |= {"inner": ()}
    >>> down = Down(v, {}, {})
    >>> window = Window(v, np.zeros((1, 2), np.float32), np.zeros(1, np.float32), rule.notes(down, memory))
    >>> one = Sample(lambda at: np.array([[4.0, -0.5]], np.float32), (np.ones(1), np.ones(1)))
    >>> rule.finish(rule.learn(window, one, down, memory), down, memory)["update"]
    array([[ 0.1, -0.1]], dtype=float32)
    """
    return Walk(inner, step_size)
