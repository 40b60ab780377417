"""What the server sends back: the whole model, or how it differs from what the clients already have.

The clients hold a copy v of the server's model w. They predict and take gradients at v; the server moves w. With a
full broadcast v = w.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Array, namespace
from ofediq.codec import Coding, Message, block_layout
from ofediq.errors import InputError, require_integer
from ofediq.methods.compress import Quantize, quantize
from ofediq.randomness import Purpose

SERVER = 2**32 - 1
"""The server's number where a message or a draw asks for a client's: no client has it."""


class Broadcast(Protocol):
    """From the server's model and the clients' copy of it to their next copy."""

    @property
    def exact(self) -> bool:
        """Whether the copy always equals the model, so that nobody needs to keep it."""

    def check(self, dim: int) -> None:
        """Raise `InputError` unless this works for models of `dim` parameters."""

    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The clients' next copy, and the bits of the payload; `number` counts broadcasts from 1."""

    def message(
        self,
        params: npt.NDArray[np.float32],
        copy: npt.NDArray[np.float32],
        seed: int,
        step: int,
        number: int,
    ) -> tuple[Message, Coding, bool]:
        """The message, how it is written, and whether it adds to the copy (else it replaces it)."""


@dataclass(frozen=True)
class Whole:
    """The whole model, D numbers of 32 bits: v = w."""

    exact: bool = True

    def check(self, dim: int) -> None:
        """Any size will do."""

    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The model itself."""
        return params, np.float32(32 * params.shape[-1])

    def message(
        self,
        params: npt.NDArray[np.float32],
        copy: npt.NDArray[np.float32],
        seed: int,
        step: int,
        number: int,
    ) -> tuple[Message, Coding, bool]:
        """A raw message."""
        return Message.raw(params, step=step, client=SERVER), "raw", False


@dataclass(frozen=True)
class Delta:
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
    refresh: int | None = None
    exact: bool = False

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

    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The copy moved by what the clients decode."""
        xp = namespace(params)
        sender = xp.full(1, SERVER, dtype=np.uint32)
        sent, bits = self.quantizer.apply((params - copy)[None], seed, step, sender)
        if self.refresh is None:
            return copy + sent[0], bits[0]
        whole = number % self.refresh == 0
        full = np.float32(32 * params.shape[-1])
        return xp.where(whole, params, copy + sent[0]), xp.where(whole, full, bits[0])

    def message(
        self,
        params: npt.NDArray[np.float32],
        copy: npt.NDArray[np.float32],
        seed: int,
        step: int,
        number: int,
    ) -> tuple[Message, Coding, bool]:
        """A quantised message, or a raw one when it is time for the whole model."""
        if self.refresh is not None and number % self.refresh == 0:
            return Message.raw(params, step=step, client=SERVER), "raw", False
        message = self.quantizer.message(params - copy, seed, step, SERVER)
        return message, self.quantizer.coding, True


def whole() -> Whole:
    """Broadcast the whole model."""
    return Whole()


def delta(levels: int = 7, blocks: int = 1, refresh: int | None = None, coding: Coding = "entropy") -> Delta:
    """Broadcast differences quantised with s = `levels` and b = `blocks`, the whole model every `refresh` times.

    >>> piece = delta(levels=7, blocks=1, refresh=100)
    >>> model, copy = np.array([1.0, 2.0], np.float32), np.array([1.0, 1.5], np.float32)
    >>> after, bits = piece.send(model, copy, seed=0, step=1, number=1)
    >>> after  # one coordinate differs: its block norm says all
    array([1., 2.], dtype=float32)
    """
    if refresh is not None:
        require_integer("refresh", refresh, 1)
    return Delta(replace(quantize(levels, blocks, coding), purpose=Purpose.DOWNLINK), refresh)
