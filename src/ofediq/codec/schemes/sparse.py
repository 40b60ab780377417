"""`sparse`: the largest coordinates alone; where they are in few bits, how large they are by another scheme."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ofediq.arrays import Array, Vector, faster, namespace
from ofediq.codec.message import Symbols
from ofediq.codec.schemes.raw import Raw
from ofediq.codec.schemes.scheme import Encoded, Scheme, put, require_no_tail, vector
from ofediq.codec.stack import Stack
from ofediq.codec.tables import Ints
from ofediq.errors import WireError, require, require_fraction, require_integer
from ofediq.randomness import Address

_END = b"\1"  # after the values' payload: a stack does not keep zeros at its end


@dataclass(frozen=True)
class Sparse(Scheme):
    """The k largest coordinates (of equal sizes the first ones); the others are 0. Biased.

    Their positions, as marks 0 or 1 for all coordinates, are entropy-coded with the frequencies (D - k) / D and
    k / D, which both sides know: D H(k / D) bits, a few above the log2 of the number of choices. The code lies on top
    of the values' payload in one stack, so neither needs a length. Zeros are an empty payload.

    Attributes:
        keep: k, or the fraction k / D as a float (at least one coordinate).
        values: the scheme for the kept coordinates, in their order: `Raw()`, `Signs()`, `Quantized(...)`, ...

    >>> scheme, address = Sparse(keep=2), Address(seed=0, step=1, client=7)
    >>> encoded = scheme.encode([0.1, -4.0, 0.0, 3.0, 0.2, 0.0], address)
    >>> len(encoded.payload), scheme.decode(encoded, 6, address)
    (9, array([ 0., -4.,  0.,  3.,  0.,  0.], dtype=float32))
    """

    keep: int | float
    values: Scheme = field(default_factory=Raw)

    name: ClassVar[str] = "sparse"
    unbiased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.keep, float):
            require_fraction("keep", self.keep)
        else:
            require_integer("keep", self.keep, 1)

    @property
    def signal(self) -> Any:
        """What the values' scheme needs."""
        return self.values.signal

    def kept(self, dim: int) -> int:
        """k for updates of `dim` coordinates."""
        return max(1, round(self.keep * dim)) if isinstance(self.keep, float) else self.keep

    def check(self, dim: int) -> None:
        """There must be k coordinates, and the values' scheme must work for them."""
        super().check(dim)
        require(self.kept(dim) <= dim, "keep", f"must be at most the {dim} coordinates", self.keep)
        self.values.check(self.kept(dim))

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes; the bits are the ideal length of the code of positions, and the values' bits."""
        xp, dim = namespace(updates), updates.shape[1]
        count = self.kept(dim)
        where = largest(updates, count)
        sent, bits = self.values.apply(xp.take_along_axis(updates, where, axis=1), address, signal)
        made = put(sent, where, dim)
        whole, live = 8 * xp.ceil((position_bits(dim, count) + bits + 1) / 8), (sent != 0).any(-1)
        made = xp.where(live[:, None], made, np.float32(0))  # zeros lose their signs: nothing is sent
        return made, xp.where(live, whole, 0).astype(np.float32)

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """The values' payload, with the positions stacked on top."""
        values = vector(update, self)
        count = self.kept(values.size)
        where = largest(values[None], count)[0]
        encoded = self.values.encode(values[where], address, signal)
        if not self.values.decode(encoded, count, address, signal).any():
            return Encoded(b"")
        marks = np.zeros(values.size, np.int32)
        marks[where] = 1
        stack = Stack(encoded.payload + _END)
        if count < values.size:
            stack.push(marks, _weights(values.size, count))
        return Encoded(stack.to_bytes(), encoded.tail)

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The update, or `WireError`: there must be k marks, and a payload that the values' scheme accepts."""
        made, count = np.zeros(dim, np.float32), self.kept(dim)
        if not encoded.payload:
            require_no_tail(encoded)
            return made
        stack = Stack(encoded.payload)
        marks: Symbols = np.ones(dim, np.int32)
        if count < dim:
            marks = stack.pop(dim, _weights(dim, count))
        rest = stack.to_bytes()
        if int(marks.sum()) != count or not rest.endswith(_END):
            raise WireError(f"payload: it does not mark {count} coordinates, or holds no values")
        values = self.values.decode(Encoded(rest[: -len(_END)], encoded.tail), count, address, signal)
        made[marks.nonzero()[0]] = values
        return made


def largest(updates: Array, count: int) -> Array:
    """Where the `count` largest sizes of each row are, in ascending order; of equal sizes the first ones.

    What is no number counts as the largest, so that it is sent, and refused, and not lost on the way.

    >>> largest(np.array([[1.0, -3.0, 2.0, -2.0], [1.0, 2.0, np.nan, 0.0]], np.float32), 2)
    array([[1, 2],
           [1, 2]])
    """
    found = faster("largest", updates, count)
    if found is not None:
        return found
    if not isinstance(updates, np.ndarray):  # an array of JAX, so JAX is there; devices have none
        where = importlib.import_module("jax.lax").top_k(abs(updates), count)[1]
        return where.sort(-1)
    sizes = np.abs(updates)
    sizes[np.isnan(sizes)] = np.inf
    least = np.partition(sizes, -count, axis=1)[:, -count, None]
    marks, equal = sizes > least, sizes == least
    marks |= equal & (equal.cumsum(1) <= count - marks.sum(1, keepdims=True))
    return marks.nonzero()[1].reshape(len(updates), count)


def _weights(dim: int, count: int) -> Ints:
    return np.array([dim - count, count], np.int64)


def position_bits(dim: int, count: int) -> float:
    """What the positions of k = `count` out of D = `dim` coordinates cost: D H(k / D) bits."""
    rest = dim - count
    return count * math.log2(dim / count) + (rest * math.log2(dim / rest) if rest else 0.0)
