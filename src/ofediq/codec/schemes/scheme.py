"""`Scheme`: one way to put an update on the wire, the same for simulator, plain loop and live federation.

A scheme is a value: a frozen dataclass of what both sides know before the first message. It says what the server will
decode (`apply`, for many clients at once, NumPy or JAX), and makes and reads the bytes of one client (`encode`,
`decode`). All draws have an address, (seed, step, client), so that the two agree: in NumPy bit for bit.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec.blocks import MAX_DIM
from ofediq.codec.draws import Source, stream_draws
from ofediq.codec.message import as_vector, check_finite, check_norms
from ofediq.codec.norms import norms_from_bytes
from ofediq.errors import InputError, WireError, require, require_integer
from ofediq.randomness import Address, Purpose
from ofediq.settings import Ranged


class Encoded(NamedTuple):
    """One message without its frame.

    Attributes:
        payload: what is counted.
        tail: the last 1 to 8 bits of a packed payload, which the frame carries; else 0.
    """

    payload: bytes
    tail: int = 0

    @property
    def bits(self) -> int:
        """Of the payload."""
        return 8 * len(self.payload)


NO_FORMULA = math.nan
"""The paper's formula knows no such message; its bits are counted as they are on the wire."""


class Scheme(Ranged, abc.ABC):
    """How updates are quantised, written and read: the base of frozen dataclasses.

    Attributes:
        name: `raw`, `quantized`, `sparse`, ..., or your own.
        signal: the name of the number that the server must broadcast for it, or None.
        unbiased: whether the mean of what is decoded is the update, for every update.
    """

    name: ClassVar[Any] = "own"
    signal: ClassVar[Any] = None
    unbiased: ClassVar[Any] = True

    def check(self, dim: int) -> None:
        """Raise `InputError` unless it works for updates of `dim` coordinates."""
        require_integer("dim", dim, 1, MAX_DIM)

    def formula_bits(self, dim: int) -> float:
        """Bits of one message by the paper's formula, or NaN where there is none."""
        return NO_FORMULA

    @abc.abstractmethod
    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes from `updates` [n, dim] of clients `address.client` [n], and payload bits [n]."""

    @abc.abstractmethod
    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """The message of one client."""

    @abc.abstractmethod
    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The update in a message, or `WireError`. Memory and time are O(dim + length), whatever the bytes are."""

    def decode_many(
        self, encoded: Sequence[Encoded], dim: int, address: Address, signal: float | None = None
    ) -> list[Vector | WireError]:
        """`decode` of many messages of one step, those of the clients `address.client` [n]; errors are values."""
        found: list[Vector | WireError] = []
        for one, client in zip(encoded, np.asarray(address.client).tolist(), strict=True):
            try:
                found.append(self.decode(one, dim, address._replace(client=client), signal))
            except WireError as error:
                found.append(error)
        return found


def vector(update: Any, scheme: Scheme) -> Vector:
    """`update` as a finite float32 vector of a length that suits the scheme, or `InputError`."""
    values = as_vector(update, "update")
    scheme.check(values.size)
    return values


def short_draws(address: Address, norm_bits: int) -> Source | None:
    """Draws for rounding norms to 16 bits, if they have so few."""
    return stream_draws(address.key(Purpose.NORM)) if norm_bits == 16 else None


def put(values: Array, where: Array, dim: int) -> Array:
    """`values` [n, k] at their places among `dim` zeros, [n, dim]."""
    xp = namespace(values)
    made = xp.zeros((values.shape[0], dim), np.float32)
    if hasattr(made, "at"):  # JAX
        return made.at[xp.arange(values.shape[0])[:, None], where].set(values)
    np.put_along_axis(made, where.astype(np.int64), values, axis=1)
    return made


def read_floats(encoded: Encoded, dim: int) -> Vector:
    """`dim` finite float32 values, or `WireError`."""
    require_length(encoded.payload, 4 * dim)
    require_no_tail(encoded)
    values = np.frombuffer(encoded.payload, "<f4").astype(np.float32)
    try:
        check_finite("values", values)
    except InputError as error:
        raise WireError(f"payload: {error}") from None
    return values


def write_floats(values: Vector) -> Encoded:
    """The values as they are."""
    return Encoded(values.astype("<f4", copy=False).tobytes())


def read_norms(data: bytes, norm_bits: int) -> Vector:
    """Norms of so many bits that lie in their range, or `WireError`."""
    norms = norms_from_bytes(np.frombuffer(data, np.uint8).reshape(-1, norm_bits // 8), norm_bits)
    try:
        check_norms(norms, norm_bits)
    except InputError as error:
        raise WireError(f"payload: {error}") from None
    return norms


def require_length(payload: bytes, size: int) -> None:
    """Raise `WireError` unless there are so many bytes."""
    if len(payload) != size:
        raise WireError(f"payload: {len(payload)} bytes where {size} belong")


def require_no_tail(encoded: Encoded) -> None:
    """Raise `WireError` if there is a tail where none belongs."""
    if encoded.tail:
        raise WireError("payload: a tail where none belongs")


def require_signal(signal: float | None, scheme: Scheme) -> np.float32:
    """The broadcast number that the scheme needs, finite and not negative."""
    rule = f"must be the {scheme.signal}, a finite number >= 0"
    with np.errstate(over="ignore"):
        number = np.float32(np.nan if signal is None else signal)
    require(bool(np.isfinite(number) and number >= 0), "signal", rule, signal)
    return number
