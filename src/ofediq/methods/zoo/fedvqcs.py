"""FedVQCS: sparse updates through a random projection and a vector quantiser; the server recovers their sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ofediq.arrays import Array, Vector, float32, namespace, repeat
from ofediq.codec.schemes import Codebook
from ofediq.errors import require
from ofediq.methods.client import Down, Outcome, Window
from ofediq.methods.composition import Method
from ofediq.methods.compress import Compressor, keep_largest
from ofediq.methods.participation import bernoulli
from ofediq.methods.pieces import piece
from ofediq.methods.presets import method
from ofediq.methods.registry import named
from ofediq.methods.server.rule import FromTotals, Totals
from ofediq.methods.terms import Terms
from ofediq.methods.zoo.topk_ef import ErrorFeedback
from ofediq.randomness import Address, Purpose, stream_key, uniform
from ofediq.settings import Count, Positive, Ranged

ITERATIONS = 20
"""Of the recovery."""


class Blocks(NamedTuple):
    """How a vector is cut: blocks of equal size, each with its measurements and its kept coordinates."""

    number: int
    size: int
    measurements: int
    keep: int

    def cut(self, vectors: Array) -> Array:
        """[..., dim] -> [..., number, size], with zeros at the end."""
        spare = self.number * self.size - vectors.shape[-1]
        padded = namespace(vectors).pad(vectors, [(0, 0)] * (vectors.ndim - 1) + [(0, spare)])
        return padded.reshape(*vectors.shape[:-1], self.number, self.size)


@dataclass(frozen=True)
class Sensing(Ranged):
    """What both sides know: sizes for blocks of `block` coordinates, from which those of every vector follow."""

    block: Count
    measurements: Count
    keep: Count

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("measurements", self.block), ("keep", self.measurements)):
            require(getattr(self, name) <= most, name, f"must be at most {most}", getattr(self, name))

    def blocks(self, dim: int) -> Blocks:
        """For vectors of `dim` coordinates: ceil(dim / block) blocks, shorter ones with fewer measurements."""
        count = -(-dim // self.block)
        size = -(-dim // count)
        return Blocks(
            count, size, -(-self.measurements * size // self.block), -(-self.keep * size // self.block)
        )


@lru_cache(maxsize=16)
def projection(measurements: int, size: int) -> Vector:
    """A [measurements, size]: Gaussian with variance 1 / measurements, from addressed draws, the same for all."""
    draws = uniform(stream_key(size, measurements, 0, Purpose.ROTATE), np.arange(2 * measurements * size))
    first, second = draws.astype(np.float64).reshape(2, measurements, size)
    normal = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)
    return np.asarray(normal / math.sqrt(measurements), np.float32)


@piece
@dataclass(frozen=True)
class SensedUpdate(Sensing, ErrorFeedback):
    """a = e + u;  kept = the S largest of each block of a;  sends A kept;  e <- a - kept."""

    step_size: Positive = 0.01
    moves = True

    def sends(self, dim: int) -> dict[str, int]:
        """Measurements of all blocks."""
        blocks = self.blocks(dim)
        return {"update": blocks.number * blocks.measurements}

    def step(self, params: Array, gradients: Array) -> Array:
        """One descent step."""
        return params - np.float32(self.step_size) * gradients

    def finish(self, window: Window, down: Down, memory: Any) -> dict[str, Array]:
        """A times what is kept, block by block."""
        kept, blocks = self._kept(memory["error"] + window.gradients)
        matrix = namespace(kept).asarray(projection(blocks.measurements, blocks.size))
        return {"update": (kept @ matrix.T).reshape(len(kept), -1)}

    def settle(self, memory: Any, window: Window, outcome: Outcome, down: Down) -> dict[str, Array]:
        """What was not kept, or all of it if nothing counted; what quantiser and recovery lose is lost."""
        wanted = memory["error"] + window.gradients
        kept = self._kept(wanted)[0].reshape(len(wanted), -1)[:, : wanted.shape[1]]
        counted = outcome.accepted[:, None]
        return {"error": wanted - namespace(wanted).where(counted, kept, np.float32(0))}

    def _kept(self, wanted: Array) -> tuple[Array, Blocks]:
        blocks = self.blocks(wanted.shape[1])
        rows = blocks.cut(wanted).reshape(-1, blocks.size)
        kept = keep_largest(blocks.keep).apply(rows, Address(0, 0, 0))[0]
        return kept.reshape(-1, blocks.number, blocks.size), blocks


@piece
@dataclass(frozen=True)
class PickCodeword(Codebook, Compressor):
    """FedVQCS's vector quantiser, see `codec.Codebook`."""

    coding = "packed"


@piece
@dataclass(frozen=True)
class SparseRecovery(Sensing, FromTotals):
    """w <- w - eta / K x, where x is the sparse vector whose measurements are the sum that arrived.

    Iterative hard thresholding, x <- H(x + mu A'(y - A x)), with the step mu of its normalised form and H keeping the
    largest min(senders S, M / 4) coordinates of a block.
    """

    step_size: Positive = 0.01
    name = "recover"
    alone = "`rule` must be FedVQCS's own, which recovers what was sent"

    def moved(self, params: Array, totals: Totals, state: Any) -> tuple[Array, Any]:
        """One step along what was recovered."""
        found = self.recover(totals.vectors["update"], totals.senders, len(params))
        return params - np.float32(self.step_size) * found / float32(totals.clients), state

    def recover(self, total: Array, senders: Array, dim: int) -> Array:
        """The sparse vector of `dim` coordinates with the measurements `total`."""
        xp, blocks = namespace(total), self.blocks(dim)
        matrix = xp.asarray(projection(blocks.measurements, blocks.size))
        scale = abs(total).max()
        scale = scale + (scale == 0)
        wanted = (total / scale).reshape(blocks.number, blocks.measurements)
        keep = xp.clip(xp.asarray(senders) * blocks.keep, 1, max(blocks.keep, blocks.measurements // 4))
        found = xp.zeros((blocks.number, blocks.size), np.float32)

        def better(so_far: tuple[Array]) -> tuple[Array]:
            return (_thresholded(so_far[0], wanted, matrix, keep),)

        (found,) = repeat(ITERATIONS, better, (found,))
        return (found * scale).reshape(-1)[:dim]


def _thresholded(found: Array, wanted: Array, matrix: Array, keep: Array) -> Array:
    """One iteration, for all blocks at once."""
    xp = namespace(found)
    slope = (wanted - found @ matrix.T) @ matrix
    along = xp.where(_largest(xp.where((found != 0).any(-1, keepdims=True), found, slope), keep), slope, 0)
    length, seen = (along**2).sum(-1, keepdims=True), ((along @ matrix.T) ** 2).sum(-1, keepdims=True)
    moved = found + length / (seen + (seen == 0)) * slope
    return xp.where(_largest(moved, keep), moved, np.float32(0))


def _largest(rows: Array, keep: Array) -> Array:
    """Which are among the `keep` largest sizes of their row."""
    sizes = abs(rows)
    least = -namespace(rows).sort(-sizes, axis=-1)[:, keep - 1]
    return (sizes >= least[:, None]) & (sizes > 0)


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """Measurements as far as they fit, an eighth of them kept coordinates; below eight of them, fewer senders."""
    room, rate = terms.bits_each * int(given.get("period", 1)), float(given.get("rate", 1.0))
    block, length, bits = (
        int(given.get(name, other)) for name, other in (("block", 512), ("length", 2), ("bits", 4))
    )
    count = -(-terms.dim // block)
    size = -(-terms.dim // count)
    fits = ((room / rate - bits) / count - 16) * length / bits * block / size - 1
    measurements = int(given.get("measurements", max(min(8, block), min(block, math.floor(fits)))))
    keep = int(given.get("keep", max(1, measurements // 8)))
    each = Sensing(block, measurements, keep).blocks(terms.dim)
    message = Codebook(length, bits, measurements).formula_bits(each.number * each.measurements)
    return {"measurements": measurements, "keep": keep, "rate": min(rate, room / message)}


@named(
    "fedvqcs",
    source="Y. Oh, Y.-S. Jeon, M. Chen, W. Saad: FedVQCS: Federated Learning via Vector Quantized Compressed "
    "Sensing, 2022; its abstract, the rest from memory",
    memory="an error vector of D numbers",
    spend=_spend,
)
def fedvqcs(
    measurements: int = 128,
    keep: int = 16,
    block: int = 512,
    length: int = 2,
    bits: int = 4,
    period: int = 1,
    rate: float = 1.0,
    step_size: float = 0.01,
) -> Method:
    """FedVQCS: the largest coordinates through a random matrix and a vector quantiser; the server undoes the matrix.

    Client, for each block of N coordinates:  a = e + u;  kept = the S largest of a;  e <- a - kept;  y = A kept with
    a Gaussian A of M x N that all know;  y is scaled to mean squares of 1 and sent as the nearest codewords of l
    coordinates, Q bits each, trained on Gaussian vectors.  Server:  adds up what it decodes, finds the sparse x with
    A x = that sum by iterative hard thresholding, and moves w <- w - eta / K x.

    Costs (Q / l) M / N bits per coordinate and 16 for each block: half a bit with the defaults, a tenth with M = 20.
    A budget sets M and S; what is above Q / l bits per coordinate is left.
    The positions of what is kept cost nothing, which is the idea. It is good for few senders, or for clients whose
    largest coordinates are the same ones. It fails where they are not: the sum of K supports has up to K S
    coordinates, and beyond about M / 4 of them nothing tells them apart; what is lost there is in no memory, because
    e knows only what was not kept. Then give it fewer senders (`rate`), or use `topk_ef`, which pays for positions.

    Online the window of L steps takes the place of a local epoch. The scale of a block has 16 bits here, and the
    recovery looks for min(senders S, M / 4) coordinates in the normalised form of its iteration, which needs no bound
    on A.

    Of the original the abstract was at hand: a projection and a vector quantiser at each client, sparse recovery from
    the sum, 0.1 bits per coordinate in its experiments. It chooses quantiser and M by the capacity of each link, to
    make the error of the recovery least; here a budget chooses, the same for all clients.

    Args:
        measurements: M, for a block of full size.
        keep: S.
        block: N.
        length: l.
        bits: Q.
        period: L.
        rate: p, with which a client sends at the end of a window.
    """
    return method(
        client=SensedUpdate(block, measurements, keep, float(step_size)),
        server=SparseRecovery(block, measurements, keep, float(step_size)),
        participation=bernoulli(rate),
        compress=PickCodeword(length, bits, measurements),
        period=period,
        name="FedVQCS",
    )
