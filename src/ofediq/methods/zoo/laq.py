"""LAQ: quantised changes of the gradient, from those whose gradient has changed enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ofediq.arrays import Array, Vector, float32, namespace
from ofediq.codec.schemes import Rounded
from ofediq.errors import InputError
from ofediq.methods.client import ClientRule, Down, Outcome, Window
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor
from ofediq.methods.participation import Participation
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import ServerRule, Totals
from ofediq.methods.terms import Terms
from ofediq.randomness import Address
from ofediq.settings import Count, NonNegative, Positive, limited

DEPTH = 10
"""How many of the model's last moves a client compares with: d = 1 .. 10."""


@piece
@dataclass(frozen=True)
class RoundToNearest(Rounded, Compressor):
    """LAQ's quantiser, see `codec.Rounded`."""

    coding = "packed"


@piece
@dataclass(frozen=True)
class OnDemand(Participation):
    """Who offers 1 sends, who offers less does not: clients decide, nobody draws."""

    foreseeable = False

    def rates(self, clients: int) -> Vector:
        """Up to everyone."""
        return np.ones(clients, np.float32)

    def active(self, seed: Array, step: Array, ids: Array, clients: int) -> Array:
        """Not known beforehand."""
        raise InputError("`participation` on demand needs the clients' offers, got none")

    def draw(
        self, address: Address, clients: int, offers: Array = None, signal: Array = None
    ) -> tuple[Array, Array]:
        """What the offers say."""
        return offers >= 1, (offers >= 1).astype(np.float32)


@piece
@dataclass(frozen=True)
class Lazy(ClientRule):
    """Sends Q, the rounded g - h, where h is what the server has of it, if enough has changed.

    That is if ||Q||^2 >= trigger + 3 (||error of Q||^2 + ||error of the last that was sent||^2), or after `patience`
    silent windows.
    """

    bits: Annotated[int, limited(1, 16)]
    patience: Count = 100
    moves = False
    divides = False
    idle = False
    receipts = True
    kept = 1.0

    def memory(self, params: Array) -> dict[str, Array]:
        """h = 0, and a client that has been silent long enough: everyone begins with a message."""
        xp = namespace(params)
        return {
            "heard": xp.zeros_like(params),
            "error": xp.zeros((), np.float32),
            "silent": xp.full((), np.float32(self.patience)),
        }

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """The innovation g - h."""
        return {"update": window.gradients - memory["heard"]}

    def change(self, wanted: Array, window: Window, memory: Any) -> tuple[Array, Array]:
        """What is compared with the trigger, and what is added to it, [n] each."""
        scheme = Rounded(self.bits)
        sent = scheme.values(*scheme.points(wanted))
        return squares(sent), np.float32(3) * (squares(wanted - sent) + memory["error"])

    def offer(self, wanted: Mapping[str, Array], window: Window, down: Down, memory: Any) -> Array:
        """1 for those who send."""
        change, allowed = self.change(wanted["update"], window, memory)
        loud = change >= down.scalars["trigger"] + allowed
        return (loud | (memory["silent"] >= self.patience)).astype(np.float32)

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """h <- h + what was decoded, if it counted; else one more silent window."""
        xp, counted = namespace(window.taken), outcome.accepted
        decoded = xp.where(counted[:, None], outcome.decoded["update"], np.float32(0))
        error = squares(outcome.wanted["update"] - decoded)
        return {
            "heard": memory["heard"] + decoded,
            "error": xp.where(counted, error, memory["error"]),
            "silent": xp.where(counted, np.float32(0), memory["silent"] + np.float32(1)),
        }


@piece
@dataclass(frozen=True)
class LazyServer(ServerRule):
    """total <- total + what arrived;  w <- w - eta / K total, also where nothing did.

    The trigger (threshold / (10 eta^2)) sum of the last ten ||move of w||^2 goes with every broadcast, so that
    clients need not remember models.
    """

    step_size: Positive
    threshold: NonNegative
    name = "lazy"
    scalars = ("trigger",)
    alone = "`server` must be left out and `step_size` be given where the server keeps what clients said last"

    def init(self, params: Array) -> dict[str, Array]:
        """Nothing heard, nothing moved."""
        xp = namespace(params)
        return {"total": xp.zeros_like(params), "moves": xp.zeros(DEPTH, np.float32)}

    def apply(self, params: Array, total: Array, clients: int, state: Any) -> tuple[Array, Any]:
        """One step along the sum of what everyone said last."""
        kept = state["total"] + total
        move = np.float32(self.step_size) * kept / float32(clients)
        moves = namespace(params).concatenate([squares(move[None]), state["moves"][:-1]])
        return params - move, {"total": kept, "moves": moves}

    def close(self, params: Array, totals: Totals, period: int, state: Any) -> tuple[Array, Any]:
        """A round in which nobody spoke moves the model as well: silence means that nothing changed."""
        return self.apply(params, totals.vectors["update"], totals.clients, state)

    def say(self, params: Array, state: Any) -> tuple[dict[str, Array], dict[str, Array]]:
        """The trigger goes with the model."""
        scale = np.float32(self.threshold / (DEPTH * self.step_size**2))
        return {}, {"trigger": scale * state["moves"].sum()}


def squares(rows: Array) -> Array:
    """The squared norm of each row, [n]."""
    return (rows * rows).sum(-1)


def spend_lazily(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is spent if everyone always sends: nobody knows beforehand how often clients are silent."""
    room = terms.bits_each
    bits = int(given.get("bits", 4))
    period = int(given.get("period", math.ceil((32 + bits * terms.dim) / room - 1e-9)))
    if "bits" not in given:
        bits = min(16, max(1, math.floor((room * period - 32) / terms.dim)))
    return {"bits": bits, "period": period}


@named(
    "laq",
    source="J. Sun, T. Chen, G. Giannakis, Z. Yang: Lazily Aggregated Quantized Gradients, 2019, and their public "
    "code",
    memory="what the server has of it (D numbers), an error, a clock",
    spend=spend_lazily,
)
def laq(
    bits: int = 4, threshold: float = 0.8, patience: int = 100, period: int = 1, step_size: float = 0.02
) -> Method:
    """LAQ: clients send what changed in their gradient, in b bits, and only if enough has changed.

    With h_k what the server has of client k, R = max |g - h_k|, tau = 1 / (2^b - 1):
    Q = g - h_k rounded to the nearest of 2^b points from -R to R;  sends Q iff
    ||Q||^2 >= xi / (10 eta^2) sum of the last ten ||move of w||^2 + 3 (||Q - (g - h_k)||^2 + ||last such error||^2),
    or after 100 silent windows;  h_k <- h_k + Q.  Server:  w <- w - eta / K sum of all h_k, at every step.

    As written, with eta = alpha K for the original's sum over clients. Up 32 + b D bits per message, down 32 D and 32
    for the trigger. It was made for whole gradients, which change slowly. Online, with one sample per step, two
    gradients of one client differ by their noise: it sends at nearly every step (and h_k is a gradient at an old
    sample where it does not), so use `lasg`. Where a gradient has few large coordinates and b is small, its own
    rounding error silences it instead. A budget is kept as if everyone always sent: b, or windows of L steps whose
    gradients at w are added up. A client that leaves for good stays in the sum.

    The quantiser, the trigger and the settings are those of the authors' code (b = 4, xi = 0.8, ten moves, 100 silent
    steps, alpha = 0.02, ten clients). That code does not count the 32 bits of R, weighs the moves of the first ten
    steps by 0.8 / t, and divides by zero where nothing has changed. Its version for single batches adds a constant of
    0.2 to the trigger and halves the term of the errors; it is not offered, since 0.2 means nothing without the scale
    of a gradient. With threshold 0 and many bits it is FedOGD.

    Args:
        bits: b.
        threshold: xi, in all; the originals' 0.8 / 10 for each of ten moves.
        patience: windows after which a client speaks in any case.
        period: L.
    """
    return method(
        client=Lazy(bits, patience),
        server=LazyServer(float(step_size), float(threshold)),
        participation=OnDemand(),
        compress=RoundToNearest(bits),
        period=period,
        name="LAQ",
    )
