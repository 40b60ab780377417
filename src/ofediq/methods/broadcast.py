"""What the server sends back: the whole model, or how it differs from what the clients already have.

The clients hold a copy v of the server's model w. They predict and take gradients at v; the server moves w. With a
full broadcast v = w.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec import Encoded, SymbolCoding
from ofediq.codec.kit import block_layout
from ofediq.errors import InputError, WireError
from ofediq.methods.compress import Compressor, Quantize, identity, quantize
from ofediq.methods.pieces import piece
from ofediq.randomness import Address
from ofediq.settings import Count, Ranged

SERVER = 2**32 - 1
"""The server's number where a message or a draw asks for a client's: no client has it."""


class Broadcast(Ranged, abc.ABC):
    """From the server's model and the clients' copy of it to their next copy."""

    exact: bool = False
    """Whether the copy always equals the model."""
    keeps: float = 1.0
    """How much of what the copy lacks the server remembers: with 0 it goes on from the copy."""

    def check(self, dim: int) -> None:  # most work for every size
        """Raise `InputError` unless this works for models of `dim` parameters."""

    def usual_bits(self, dim: int) -> float:
        """About the bits of a message's payload."""
        return 32.0 * dim

    def resume(self, params: Array, copy: Array) -> Array:
        """Where the server goes on from, after a broadcast."""
        if self.keeps in (0, 1):
            return params if self.keeps else copy
        return copy + np.float32(self.keeps) * (params - copy)

    @abc.abstractmethod
    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The clients' next copy, and the bits of the payload; `number` counts broadcasts from 1."""

    @abc.abstractmethod
    def encode(self, params: Vector, copy: Vector, seed: int, step: int, number: int) -> tuple[Encoded, bool]:
        """The message, and whether it adds to the copy (else it replaces it)."""

    @abc.abstractmethod
    def decode(
        self, encoded: Encoded, adds: bool, copy: Vector | None, dim: int, seed: int, step: int
    ) -> Vector:
        """The clients' next copy from a message; `copy` is theirs, None if it is lost and nothing may be added."""


@piece
@dataclass(frozen=True)
class Whole(Broadcast):
    """The whole model, D numbers of 32 bits: v = w."""

    exact = True

    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The model itself."""
        return params, np.float32(32 * params.shape[-1])

    def encode(self, params: Vector, copy: Vector, seed: int, step: int, number: int) -> tuple[Encoded, bool]:
        """A raw message."""
        return identity().encode(params, Address(seed, step, SERVER)), False

    def decode(
        self, encoded: Encoded, adds: bool, copy: Vector | None, dim: int, seed: int, step: int
    ) -> Vector:
        """The model itself."""
        return identity().decode(encoded, dim, Address(seed, step, SERVER))


@piece
@dataclass(frozen=True)
class Differences(Broadcast):
    """v <- v + C(w - v) with any compressor: what it leaves out is part of the next difference.

    >>> from ofediq.methods import keep_largest
    >>> model, copy = np.array([1.0, 2.0], np.float32), np.array([0.9, 1.0], np.float32)
    >>> Differences(keep_largest(1)).send(model, copy, seed=0, step=1, number=1)[0]
    array([0.9, 2. ], dtype=float32)
    """

    compress: Compressor

    def check(self, dim: int) -> None:
        """As the compressor."""
        self.compress.check(dim)

    def usual_bits(self, dim: int) -> float:
        """Those of the compressor."""
        return self.compress.usual_bits(dim)

    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The copy moved by what the clients decode."""
        sender = namespace(params).full(1, SERVER, dtype=np.uint32)
        sent, bits = self.compress.apply((params - copy)[None], Address(seed, step, sender))
        return copy + sent[0], bits[0]

    def encode(self, params: Vector, copy: Vector, seed: int, step: int, number: int) -> tuple[Encoded, bool]:
        """The compressor's message."""
        return self.compress.encode(params - copy, Address(seed, step, SERVER)), True

    def decode(
        self, encoded: Encoded, adds: bool, copy: Vector | None, dim: int, seed: int, step: int
    ) -> Vector:
        """The copy moved by the difference."""
        if copy is None or not adds:
            raise WireError("broadcast: a difference, and nothing to add it to")
        return copy + self.compress.decode(encoded, dim, Address(seed, step, SERVER))


@piece
@dataclass(frozen=True)
class Delta(Broadcast):
    """Quantised differences, and the whole model every `refresh` broadcasts.

        v <- v + Q_{s,b}(w - v),   or v <- w at every `refresh`-th broadcast

    The server computes the same v as the clients. What rounding left out is part of the next difference, so errors
    do not add up: with E||Q(u) - u||^2 <= omega ||u||^2 and moves of w of at most m per window,
    E||v - w||^2 settles below omega / (1 - sqrt(omega))^2 m^2. That needs omega < 1. Rounding at random to one of two
    neighbours has a variance of at most a quarter of their distance squared, so omega = c / (4 s^2) for blocks of
    c coordinates, and `check` asks for s > sqrt(c) / 2. Unbiased: the mean of v is w, whatever v was before.

    The idea of sending compressed differences against a copy that both sides keep is that of DIANA (K. Mishchenko,
    E. Gorbunov, M. Takac, P. Richtarik: Distributed Learning with Compressed Gradient Differences, 2019), here with
    unit steps and downwards. The paper's theorems assume v = w and do not cover it.

    Attributes:
        quantizer: Q.
        refresh: how often the whole model is sent; None for never.
    """

    quantizer: Quantize
    refresh: Count | None = None

    def check(self, dim: int) -> None:
        """Refuse a quantiser so coarse that the copies may drift away from the model."""
        levels, longest = (
            self.quantizer.levels,
            max(run.size for run in block_layout(dim, self.quantizer.blocks)),
        )
        if 4 * levels * levels <= longest:
            raise InputError(
                f"`levels` of the broadcast must exceed sqrt(c) / 2 for blocks of c = {longest} parameters, "
                f"or copies drift away, got {levels}"
            )

    def usual_bits(self, dim: int) -> float:
        """Those of the quantiser."""
        return self.quantizer.usual_bits(dim)

    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The copy moved by what the clients decode."""
        moved, bits = Differences(self.quantizer).send(params, copy, seed, step, number)
        if self.refresh is None:
            return moved, bits
        xp, whole = namespace(params), number % self.refresh == 0
        return xp.where(whole, params, moved), xp.where(whole, np.float32(32 * params.shape[-1]), bits)

    def encode(self, params: Vector, copy: Vector, seed: int, step: int, number: int) -> tuple[Encoded, bool]:
        """A quantised message, or a raw one when it is time for the whole model."""
        if self.refresh is not None and number % self.refresh == 0:
            return identity().encode(params, Address(seed, step, SERVER)), False
        return Differences(self.quantizer).encode(params, copy, seed, step, number)

    def decode(
        self, encoded: Encoded, adds: bool, copy: Vector | None, dim: int, seed: int, step: int
    ) -> Vector:
        """The copy moved by the difference, or the whole model."""
        if not adds:
            return identity().decode(encoded, dim, Address(seed, step, SERVER))
        return Differences(self.quantizer).decode(encoded, adds, copy, dim, seed, step)


def whole() -> Whole:
    """Broadcast the whole model."""
    return Whole()


def delta(
    levels: int = 7, blocks: int = 1, *, refresh: int | None = None, coding: SymbolCoding = "entropy"
) -> Delta:
    """Broadcast differences quantised with s = `levels` and b = `blocks`, the whole model every `refresh` times.

    >>> piece = delta(levels=7, blocks=1, refresh=100)
    >>> model, copy = np.array([1.0, 2.0], np.float32), np.array([1.0, 1.5], np.float32)
    >>> after, bits = piece.send(model, copy, seed=0, step=1, number=1)
    >>> after  # one coordinate differs: its block norm says all
    array([1., 2.], dtype=float32)
    """
    return Delta(quantize(levels, blocks, coding), refresh)
