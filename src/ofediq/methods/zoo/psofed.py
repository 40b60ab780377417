"""PSO-Fed: partial sharing, a piece of the model at a time, and clients that go on learning meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec import Encoded
from ofediq.codec.schemes.scheme import read_floats, vector, write_floats
from ofediq.errors import InputError, WireError, require_choice, require_integer
from ofediq.methods.broadcast import Broadcast, whole
from ofediq.methods.client import ClientRule, Down, Outcome, Window
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor
from ofediq.methods.participation import Bernoulli, bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.terms import Terms
from ofediq.methods.zoo.fedavg import SenderMean
from ofediq.randomness import Address
from ofediq.settings import Count, Positive


def _first(dim: int, keep: int, turn: Array) -> Array:
    """Where the piece of a turn starts: 0, M, 2 M, ..., and from 0 again when it has gone round."""
    return turn % (-(-dim // keep)) * keep


def _mask(dim: int, keep: int, turn: Array) -> Array:
    """[n, dim]: the M coordinates whose turn it is, past the end from the beginning; `turn` is [n]."""
    xp = namespace(turn)
    return (xp.arange(dim) - _first(dim, keep, turn)[:, None]) % dim < keep


def _turns(address: Address, shifted: bool, later: int = 0) -> Array:
    """Whose turn it is at a step for each client; with `later` = 1 at the next one."""
    xp = namespace(address.client)
    number = xp.asarray(address.client).astype(np.int32)
    return xp.asarray(address.step).astype(np.int32) + later + (number if shifted else 0 * number)


@piece
@dataclass(frozen=True)
class PartlyShared(ClientRule):
    """v = S w + (1 - S) w_k if it is drawn, else w_k; predicts with v; w_k <- v - eta g(v); sends w - w_k."""

    step_size: Positive
    keep: Count
    shifted: bool
    drawn: Bernoulli
    divides = False
    idle = False  # who is not drawn goes on learning
    personal = True

    def memory(self, params: Array) -> dict[str, Array]:
        """w_k = w."""
        return {"own": params}

    def start(self, down: Down, memory: Any) -> Array:
        """v, of those who are drawn; the others start where they were."""
        if down.address is None:
            raise InputError("`down` must have the clients' numbers, got none")
        xp = namespace(down.model)
        here = down.address
        share = _mask(down.model.shape[-1], self.keep, _turns(here, self.shifted))
        drawn = self.drawn.active(here.seed, here.step, here.client, 0)
        return xp.where(share & drawn[:, None], down.model, memory["own"])

    def experts(self, window: Window, down: Down, memory: Any) -> tuple[tuple[Array, Array], ...]:
        """v."""
        return ((np.float32(1), window.own),)

    def step(self, params: Array, gradients: Array) -> Array:
        """One descent step."""
        return params - np.float32(self.step_size) * gradients

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """w - w_k, of which the compressor takes the piece of the next turn."""
        return {"update": down.model - window.own}

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """w_k, whether it was sent or not."""
        return {"own": window.own}


@piece
@dataclass(frozen=True)
class InTurn(Compressor):
    """M coordinates as they are: those of the next turn, the same for all clients, or `shifted` by their numbers."""

    keep: Count
    shifted: bool = False
    coding = "raw"
    name = "in_turn"
    unbiased = False
    scheduled = True

    def check(self, dim: int) -> None:
        """At most all of them."""
        require_integer("keep", self.keep, 1, dim)

    def formula_bits(self, dim: int) -> float:
        """32 M."""
        return 32.0 * self.keep

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """Zero where it is not their turn."""
        xp = namespace(updates)
        mask = _mask(updates.shape[1], self.keep, _turns(address, self.shifted, 1))
        bits = xp.full(updates.shape[0], np.float32(32 * self.keep))
        return xp.where(mask, updates, np.float32(0)), bits

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """4 M bytes."""
        values = vector(update, self)
        return write_floats(values[self._where(values.size, address)])

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The values in their places."""
        values = np.zeros(dim, np.float32)
        values[self._where(dim, address)] = read_floats(encoded, self.keep)
        return values

    def _where(self, dim: int, address: Address) -> Any:
        one = address._replace(client=np.atleast_1d(address.client))
        return (_first(dim, self.keep, _turns(one, self.shifted, 1))[0] + np.arange(self.keep)) % dim


@piece
@dataclass(frozen=True)
class InTurnBroadcast(Broadcast):
    """The M coordinates of the next turn; the others have not changed, so that the copy stays the model."""

    keep: int

    def check(self, dim: int) -> None:
        """At most all of them."""
        InTurn(self.keep).check(dim)

    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The copy with that piece of the model."""
        change, bits = InTurn(self.keep).apply((params - copy)[None], self._address(params, step))
        xp = namespace(params)
        return xp.where(change[0] != 0, params, copy), bits[0]

    def encode(self, params: Vector, copy: Vector, seed: int, step: int, number: int) -> tuple[Encoded, bool]:
        """4 M bytes."""
        return InTurn(self.keep).encode(params, Address(seed, step, 0)), True

    def decode(
        self, encoded: Encoded, adds: bool, copy: Vector | None, dim: int, seed: int, step: int
    ) -> Vector:
        """The copy with those values in their places."""
        if copy is None:
            raise WireError("broadcast: a piece of a model, and nothing to put it into")
        moved, piece = np.array(copy), InTurn(self.keep)
        address = Address(seed, step, 0)
        where = piece._where(dim, address)
        moved[where] = piece.decode(encoded, dim, address)[where]
        return moved

    def _address(self, params: Array, step: Array) -> Address:
        return Address(0, step, namespace(params).zeros(1, np.int32))


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """M = budget D / rate; where that is below one number, fewer are drawn."""
    if "keep" in given:
        return {"rate": min(1.0, terms.budget * terms.dim / given["keep"])}
    rate = float(given.get("rate", 1.0))
    share = terms.budget * terms.dim / rate
    keep = min(terms.dim, int(share + 1e-9))
    return {"keep": keep, "rate": rate} if keep else {"keep": 1, "rate": rate * share}


@named(
    "psofed",
    source="V. C. Gogineni, S. Werner, Y.-F. Huang, A. Kuh: Communication-Efficient Online Federated Learning "
    "Framework for Nonlinear Regression, 2022; its abstract, the rest from memory",
    memory="a model of its own",
    spend=_spend,
)
def psofed(
    keep: int,
    rate: float = 1.0,
    step_size: float = 0.01,
    masks: Literal["coordinated", "shifted"] = "coordinated",
) -> Method:
    """PSO-Fed: at every step those who are drawn exchange M numbers with the server, another piece each time.

    With S_t the piece of step t: v = S_t w + (1 - S_t) w_k if client k is drawn, else v = w_k; it predicts with v;
    w_k <- v - eta g(v); w <- mean over those drawn of (S_{t+1} w_k + (1 - S_{t+1}) w). The schedule is known to all
    and costs nothing: 32 p K M bits up per step, 32 M per broadcast down. With `shifted` masks client k is k turns
    ahead, so that all of w moves at every step; one broadcast for all must then hold all of it, 32 D bits.

    Good on a linear model (random features) with a thin link in both directions; a client that is rarely drawn is a
    learner of its own. With M = D and everyone it is FedOGD. Online it changes nothing: one sample, one step. Here
    each client is drawn with probability p, where the original draws a fixed number; the piece starts at 0 again when
    it has gone round, where the original shifts on past the end; eta is half of the original's mu for squared errors.

    Of the original the abstract was at hand: pieces of the model, and clients that go on learning when they are not
    drawn. A third party's public code has 40 of 100 clients exchange 40 of 200 numbers with mu = 0.75; there a client
    never takes the server's numbers over, and the server divides the whole model by the number of those drawn.

    Args:
        keep: M.
        rate: p, with which a client is drawn at a step.
        masks: `coordinated` (the same for all) or `shifted`.
    """
    require_choice("masks", masks, ("coordinated", "shifted"))
    shifted, drawn = masks == "shifted", bernoulli(rate)
    made = method(
        client=PartlyShared(step_size, keep, shifted, drawn),
        server=SenderMean(1.0),
        participation=drawn,
        compress=InTurn(keep, shifted),
        name="PSO-Fed" + " (shifted)" * shifted,
    )
    return replace(made, broadcast=whole() if shifted else InTurnBroadcast(keep))
