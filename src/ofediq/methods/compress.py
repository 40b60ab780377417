"""What a sender puts on the wire.

A compressor has two faces. `apply` works on many updates at once, in NumPy or inside the simulator's JAX code, and
returns what the server will decode; `encode` and `decode` are the one real message of one client. Both take their
draws from (seed, step, client), so they agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ofediq import codec
from ofediq.arrays import Array
from ofediq.codec.kit import bits_for
from ofediq.errors import require_integer, require_nonnegative, require_positive
from ofediq.methods.budgets.loudness import best_spread, length, own_step, unpack
from ofediq.methods.pieces import piece
from ofediq.randomness import Address
from ofediq.settings import Positive
from ofediq.theory import quantizer_variance


class Compressor(codec.Scheme):
    """From updates to what the server receives, with a count of bits: a `codec.Scheme`.

    Attributes:
        coding: raw or packed, whose bits are exact; or entropy, whose bits are those of an ideal code.
        signal: name of the broadcast number that it rounds to, see `Down.scalars`; None for none.
        scheduled: whether messages depend on step and client by a schedule that all know, and on no draw.
    """

    coding: Any
    scheduled: ClassVar[bool] = False

    def variance(self, dim: int) -> float | None:
        """sigma_q^2 of an unbiased one: E||Q(u) - u||^2 <= sigma_q^2 ||u||^2 for every update u of `dim` numbers.

        None where that is not proven: then no regret bound is claimed.
        """
        return None

    def on_device(self) -> Compressor:
        """The same for one real client: what must stay its secret is drawn from secret numbers there."""
        return self

    def usual_bits(self, dim: int) -> float:
        """About the bits of one message: by the formula; entropy-coded, or without one, of a normal update."""
        formula = self.formula_bits(dim)
        return _normal_bits(self, dim) if self.coding == "entropy" or formula != formula else formula


@lru_cache(maxsize=256)
def _normal_bits(compress: Compressor, dim: int) -> float:
    update = np.random.default_rng(0).standard_normal((1, dim)).astype(np.float32)
    return float(compress.apply(update, Address(0, 0, np.zeros(1, np.uint32)), np.float32(1))[1][0])


@piece
@dataclass(frozen=True)
class Identity(codec.Raw, Compressor):
    """No compression: D numbers of 32 bits."""

    coding = "raw"

    def variance(self, dim: int) -> float:
        """sigma_q^2 = 0: what arrives is what was sent."""
        return 0.0


@piece
@dataclass(frozen=True)
class Quantize(codec.Quantized, Compressor):
    """The (s, b)-stochastic quantiser of Definition 2, see `codec.Quantized`."""

    def variance(self, dim: int) -> float:
        """sigma_q^2 of Assumption 3, as Definition 2 proves it."""
        return quantizer_variance(self.levels, self.blocks, dim)


@piece
@dataclass(frozen=True)
class Grid(codec.Grid, Compressor):
    """One common grid, see `codec.Grid`; the server's signal says its step and how loud a client may be.

    An update that is longer than the server can pay for gets a coarser grid of its own (`loudness.own_step`).

    Attributes:
        spread: norm of a sampled update in grid steps, as in `NormProportional`.
    """

    spread: Positive = best_spread()
    coding = "entropy"

    def common_step(self, signal: Array) -> Array:
        """z."""
        return unpack(signal)[0]

    def own_steps(self, updates: Array, signal: Array) -> Array:
        """z_k."""
        return own_step(length(updates), signal, self.spread)


@piece
@dataclass(frozen=True)
class Rotate(codec.Rotated, Compressor):
    """A random rotation, then about `bits` bits per coordinate, see `codec.Rotated`."""


@piece
@dataclass(frozen=True)
class Signs(codec.Signs, Compressor):
    """One bit per coordinate, see `codec.Signs`."""

    coding = "packed"


@piece
@dataclass(frozen=True)
class KeepLargest(codec.Sparse, Compressor):
    """The largest coordinates, see `codec.Sparse`."""

    values: Compressor = field(default_factory=Identity)
    coding = "entropy"


@piece
@dataclass(frozen=True)
class Addable(codec.Additive, Compressor):
    """Whole numbers on a common support and grid, modulo 2^m, with noise, see `codec.Additive`."""

    coding = "packed"

    def on_device(self) -> Addable:
        """With noise that nobody can repeat."""
        return replace(self, secret=True)


def identity() -> Identity:
    """Send the update as it is.

    >>> identity().formula_bits(34826)
    1114432.0
    """
    return Identity()


def quantize(
    levels: int, blocks: int, coding: codec.SymbolCoding = "packed", norm_bits: int = 32
) -> Quantize:
    """The (s, b)-stochastic quantiser with s = `levels` and b = `blocks`; norms of 32 or 16 bits.

    >>> quantize(levels=3, blocks=777).formula_bits(34826)
    129342.0
    """
    return Quantize(levels, blocks, coding, norm_bits)


def grid(spread: float | None = None) -> Grid:
    """Round to the common grid whose step the server broadcasts; `spread` as in `norm_proportional`.

    >>> from ofediq.methods.budgets.loudness import pack
    >>> update, address = np.array([[0.5, -4.0]], np.float32), Address(0, 1, np.array([0]))
    >>> sent, bits = grid().apply(update, address, pack(2.0))
    >>> float(sent[0, 1])
    -4.0
    """
    return Grid() if spread is None else Grid(require_positive("spread", spread))


def rotate(bits: int, rotation: codec.Rotation = "dither", norm_bits: int = 32) -> Rotate:
    """Rotate at random, then quantise to about `bits` bits per coordinate, from 1 to 4.

    >>> update = np.random.default_rng(0).standard_normal((1, 8192)).astype(np.float32)
    >>> sent, bits = rotate(2).apply(update, Address(0, 1, np.array([0])))
    >>> float(bits[0]) / 8192 < 2.05, float(((sent - update) ** 2).sum() / (update**2).sum()) < 0.12
    (True, True)
    """
    return Rotate(bits, rotation, norm_bits=norm_bits)


def signs(norm_bits: int = 32) -> Signs:
    """Send signs, and the mean size: one bit per coordinate.

    >>> signs().apply(np.array([[3.0, -1.0]], np.float32), Address(0, 1, np.array([0])))[0]
    array([[ 2., -2.]], dtype=float32)
    """
    return Signs(norm_bits)


def keep_largest(keep: int | float, values: Compressor | None = None) -> KeepLargest:
    """Send the `keep` largest coordinates (a float: that fraction of them), their values as `values` says.

    >>> keep_largest(1).apply(np.array([[0.5, -4.0]], np.float32), Address(0, 1, np.array([0])))[0]
    array([[ 0., -4.]], dtype=float32)
    """
    return KeepLargest(keep, Identity() if values is None else values)


def additive(keep: int, clip: float, senders: int, *, largest: int = 4, noise: float = 0.0) -> Addable:
    """Messages that add up unread: `keep` coordinates on a common grid, see `codec.Additive`.

    `largest` is the largest size of a coordinate in steps of the grid, of which an update of norm `clip` has about
    one per coordinate; m is as small as sums of `senders` messages allow.

    >>> additive(100, 1.0, senders=8).bits
    7
    """
    largest, senders = require_integer("largest", largest, 1), require_integer("senders", senders, 1)
    clip, noise = require_positive("clip", clip), require_nonnegative("noise", noise)
    return Addable(keep, clip, senders, bits_for(largest, senders, noise), noise)
