"""`Walk`: clients that go on learning by themselves between two broadcasts, and send how far they came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from ofediq.arrays import Array, float32, namespace
from ofediq.methods.budgets.loudness import cosine, length
from ofediq.methods.client import Down, Sample, Window
from ofediq.methods.mixture import LARGEST, finite
from ofediq.methods.pieces import piece
from ofediq.methods.server.rule import ServerRule, Totals, unless_empty
from ofediq.methods.zoo.fedpoe import Mixed
from ofediq.settings import Factor

_PACE = 0.3  # how fast q follows the walks
_USUAL = 0.1  # agreement that asks for no change
_SHARES = np.float32(0.2), np.float32(4)  # of q


@piece
@dataclass(frozen=True)
class Walk(Mixed):
    """A client whose own model walks from the common one, by AdaGrad; it predicts with both.

    With v the common model and a its weight in the client's predictions so far, a window opens with

        own <- own + a (v - own),   begun <- own

    and at every sample, with g the gradient at own, in each coordinate

        s <- s + g^2,   u <- eta g / sqrt(s),   own <- own - u min(1, 2 loss / <g, u>).

    No step goes beyond the place where a linear model's squared error at this sample is nothing.

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
        gain, most = (gradient * step).sum(-1), 2 * finite(sample.losses[1])
        share = xp.where(gain > most, most / xp.where(gain > most, gain, np.float32(1)), np.float32(1))
        moved = {"own": notes["own"] - share[:, None] * step, "squares": squares}
        return window._replace(notes={**notes, **moved, **self._odds(notes, sample.losses)})

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """How far it came, with the sign of a gradient."""
        return {"update": window.notes["begun"] - window.notes["own"]}


class Stride(NamedTuple):
    """What `MeanWalk` keeps."""

    share: Array  # q
    last: Array  # the move before
    along: Array  # how far the mean walk before went along it


@piece
@dataclass(frozen=True)
class MeanWalk(ServerRule):
    """The server where clients walk: it goes where they went on average, and farther than each of them.

        w' = w - r total / K,   r = min(2.5 q, f)   with f = 1 / (1 - exp(-L / D)),   or q min(2.5, f) if q < 1

    A client's walk of L steps brings it about 1 - exp(-L / D) of the way, since one sample says one thing about D
    numbers; its length is limited by its noise, of which the mean of many walks has little. With a the cosine of this
    mean walk and the move before it,

        q <- q exp(.3 (a - .1)),   at least .2 and at most 4:

    walks that go on where the last move led say that it was too short, walks back that it was too long. Along the
    last move two mean walks say where they would end: there w' goes no farther than the secant through them, and at
    least as far as with the least q. One direction in which all clients agree is overshot otherwise again and again.

    Attributes:
        reach: how much farther than the mean walk the first move is, at most.
    """

    reach: Factor = 2.5
    # A rule that takes walks for gradients would follow their signs, or their lengths, once more.
    alone = (
        "`server` must be left out where OFedDuplex's clients walk by themselves, "
        "or `ofedduplex(walks=False)` be said"
    )

    def init(self, params: Array) -> Stride:
        """Nothing moved yet."""
        xp = namespace(params)
        one = xp.ones((), np.float32)
        return Stride(one, xp.zeros_like(params), 0 * one)

    def apply(self, params: Array, total: Array, clients: int, state: Stride) -> tuple[Array, Stride]:
        """A window of one step."""
        return self._moved(params, total, clients, 1, state)

    def close(self, params: Array, totals: Totals, period: int, state: Stride) -> tuple[Array, Stride]:
        """The model moved, unless nobody sent."""
        moved = self._moved(params, totals.vectors["update"], totals.clients, period, state)
        after: tuple[Array, Stride] = unless_empty(totals, moved, (params, state))
        return after

    def _moved(
        self, params: Array, total: Array, clients: int, period: Array, state: Stride
    ) -> tuple[Array, Stride]:
        xp, mean = namespace(params), -total / np.float32(clients)
        agreement = cosine(mean, state.last, unknown=_USUAL)
        share = xp.clip(state.share * xp.exp(np.float32(_PACE) * (agreement - np.float32(_USUAL))), *_SHARES)
        whole = -1 / xp.expm1(-float32(period) / np.float32(params.shape[-1]))
        reach = np.float32(self.reach)
        farther = xp.where(share < 1, share * xp.minimum(reach, whole), xp.minimum(reach * share, whole))
        size, here = length(state.last), _along(mean, state.last)
        told = (
            state.along - here
        )  # by so much a walk along the last move got shorter, and the move had this size
        beyond = (size > 0) & (told * farther > size)
        secant = xp.where(beyond, size / xp.where(beyond, told, np.float32(1)), farther)
        secant = xp.maximum(secant, xp.minimum(farther, _SHARES[0] * xp.minimum(reach, whole)))
        move = farther * mean + (secant - farther) * here * _unit(state.last)
        return params + move, Stride(share, move, _along(mean, move))


def _unit(vector: Array) -> Array:
    xp, size = namespace(vector), length(vector)
    return vector / xp.where(size > 0, size, np.float32(1))


def _along(vector: Array, other: Array) -> Array:
    """How far `vector` goes in the direction of `other`; 0 if that has none."""
    return (vector * _unit(other)).sum()


def walk(inner: Any, step_size: float) -> Walk:
    """Clients that walk with AdaGrad's `step_size` (eta) from the model that `inner` starts with.

    >>> from ofediq.methods import hold
    >>> rule, v = walk(hold(), 0.1), np.zeros(2, np.float32)
    >>> memory = {name: np.asarray(leaf)[None] for name, leaf in rule.memory(v).items() if name != "inner"}
    >>> memory |= {"inner": ()}
    >>> down = Down(v, {}, {})
    >>> window = Window(v, np.zeros((1, 2), np.float32), np.zeros(1, np.float32), rule.notes(down, memory))
    >>> one = Sample(lambda at: np.array([[4.0, -0.5]], np.float32), (np.ones(1, np.float32),) * 2)
    >>> rule.finish(rule.learn(window, one, down, memory), down, memory)["update"]
    array([[ 0.1, -0.1]], dtype=float32)
    """
    return Walk(inner, step_size)
