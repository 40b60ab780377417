"""Seeds and scalars: both sides draw directions, and only numbers along them are sent, up and down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec import Encoded
from ofediq.codec.kit import block_layout, rotate_rows, rotate_rows_back, rotation_blocks
from ofediq.codec.schemes.eden import drawn
from ofediq.codec.schemes.scheme import put, read_floats, write_floats
from ofediq.errors import WireError, require, require_positive
from ofediq.methods.broadcast import SERVER, Broadcast
from ofediq.methods.client import ClientRule, Down, Window
from ofediq.methods.composition import Method
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import FromTotals, Totals
from ofediq.methods.terms import Terms
from ofediq.randomness import Key, Purpose, stream_key, words
from ofediq.settings import Count, Positive, Ranged


@dataclass(frozen=True)
class Directions(Ranged):
    """P orthogonal directions z of length sqrt(D), drawn from (seed, step): rows of a random rotation.

    Attributes:
        keep: P.
    """

    keep: Count

    def along(self, vectors: Array, seed: Array, step: Array) -> Array:
        """<u, z> / sqrt(D) of vectors [n, dim]: [n, P]."""
        where, _ = self._chosen(vectors.shape[1], seed, step)
        return namespace(vectors).take(_rotated(vectors, seed, step), where, axis=1)

    def back(self, numbers: Array, dim: int, seed: Array, step: Array) -> Array:
        """The sum of numbers z / sqrt(D), [n, dim]: what lies in the directions comes back as it was."""
        where, _ = self._chosen(dim, seed, step)
        return _rotated(put(numbers, where[None], dim), seed, step, back=True)

    def weights(self, dim: int, seed: Array, step: Array) -> Array:
        """How many directions each of the P stands for: what makes the sum unbiased."""
        return self._chosen(dim, seed, step)[1]

    def _chosen(self, dim: int, seed: Array, step: Array) -> tuple[Array, Array]:
        require(self.keep <= dim, "keep", f"must be at most the {dim} parameters", self.keep)
        where, stands_for = drawn(dim, self.keep, stream_key(seed, step, SERVER, Purpose.SUPPORT))
        return where.reshape(-1), stands_for


def _rotated(vectors: Array, seed: Array, step: Array, *, back: bool = False) -> Array:
    """Block by block, all vectors alike."""
    key, parts = stream_key(seed, step, SERVER, Purpose.ROTATE), []
    turn = rotate_rows_back if back else rotate_rows
    for run in block_layout(vectors.shape[1], rotation_blocks(vectors.shape[1])):
        rows = run.rows(vectors)
        index = np.arange(run.start, run.start + run.blocks * run.size, dtype=np.uint32)
        bits = words(Key(key.first[..., None], key.second[..., None]), index).reshape(1, run.blocks, run.size)
        same = namespace(vectors).broadcast_to(bits, rows.shape)
        parts.append(turn(rows, same).reshape(vectors.shape[0], -1))
    return namespace(vectors).concatenate(parts, axis=1)


@piece
@dataclass(frozen=True)
class Projected(Directions, ClientRule):
    """Sends its gradient's derivatives along the directions of this step."""

    moves = False

    def sends(self, dim: int) -> dict[str, int]:
        """P numbers."""
        return {"update": self.keep}

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """<u, z> / sqrt(D)."""
        assert down.address is not None
        return {"update": self.along(window.gradients, down.address.seed, down.address.step)}


@piece
@dataclass(frozen=True)
class AlongDirections(Directions, FromTotals):
    """w <- w - eta / K (D / P) sum over p of s_p z_p / D, with s_p the sum of the clients' numbers."""

    step_size: Positive = 0.01
    name = "along_directions"
    alone = "`rule` must be the method's own, which knows the directions"

    def moved(self, params: Array, totals: Totals, state: Any) -> tuple[Array, Any]:
        """One step along what arrived."""
        here = len(params), totals.seed, totals.step
        scaled = totals.vectors["update"] * self.weights(*here)
        move = np.float32(self.step_size) / totals.clients * self.back(scaled[None], *here)[0]
        return params - move, state


@piece
@dataclass(frozen=True)
class Replayed(Directions, Broadcast):
    """The move along the directions of this step, P numbers, which clients replay: v <- v + sum of numbers z.

    The server goes on from what the clients have, so that rounding is not added up.
    """

    keeps = 0.0

    def check(self, dim: int) -> None:
        """There must be so many directions."""
        self._chosen(dim, 0, 0)

    def usual_bits(self, dim: int) -> float:
        """32 P."""
        return 32.0 * self.keep

    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The copy moved by what lies in the directions."""
        numbers = self.along((params - copy)[None], seed, step)
        return copy + self.back(numbers, len(params), seed, step)[0], np.float32(32 * self.keep)

    def encode(self, params: Vector, copy: Vector, seed: int, step: int, number: int) -> tuple[Encoded, bool]:
        """P numbers."""
        return write_floats(self.along((params - copy)[None], seed, step)[0]), True

    def decode(
        self, encoded: Encoded, adds: bool, copy: Vector | None, dim: int, seed: int, step: int
    ) -> Vector:
        """The copy, moved."""
        if copy is None or not adds:
            raise WireError("broadcast: a move, and nothing to add it to")
        moved: Vector = copy + self.back(read_floats(encoded, self.keep)[None], dim, seed, step)[0]
        return moved


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """As many numbers as fit if everyone sends; if not even one, fewer senders."""
    rate = float(given.get("rate", 1.0))
    keep = int(given.get("keep", max(1, min(terms.dim, math.floor(terms.budget * terms.dim / rate + 1e-9)))))
    return {"keep": keep, "rate": min(rate, terms.budget * terms.dim / keep)}


@named(
    "seeds_scalars",
    source="after DeComFL (Z. Li et al.: Achieving Dimension-Free Communication in Federated Learning via "
    "Zeroth-Order Optimization, 2024) and its public code",
    spend=_spend,
)
def seeds_scalars(keep: int = 10, rate: float = 1.0, step_size: float = 0.01) -> Method:
    """Seeds and scalars: P numbers up and P numbers down, along directions that both sides draw.

    With z_1 .. z_P drawn from (seed, step):  client  s_p = <u, z_p>;  server  w <- w - eta/K sum over clients and p
    of s_p z_p / P, broadcast as P numbers; clients replay it. Unbiased, with an error of (D / P - 1) ||u||^2. 32 P
    bits in each direction, whatever D is: the one method here whose downlink is as short as its uplink by itself.

    The original measures s_p by differences of losses, because its clients cannot hold gradients of large models;
    here they are exact derivatives. Its directions are independent Gaussians; here they are orthogonal (rows of a
    random rotation, in blocks of at most 2^13 coordinates), which costs D log D instead of P D and leaves less noise:
    with P = D it is FedOGD. A client that missed broadcasts gets the whole model.

    Args:
        keep: P.
        rate: probability that a client sends at a step, not in the original.
    """
    base = method(
        client=Projected(keep),
        server=AlongDirections(keep, require_positive("step_size", step_size)),
        participation=bernoulli(rate),
        name="Seeds and scalars",
    )
    return replace(base, broadcast=Replayed(keep))
