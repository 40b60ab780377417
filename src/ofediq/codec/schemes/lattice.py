"""`lattice`: the nearest point of a lattice after a common dither; scalar, or the hexagonal one for pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec.arithmetic import MAX_LEVELS, block_norms
from ofediq.codec.draws import stream_draws
from ofediq.codec.entropy import pop_symbols, push_symbols
from ofediq.codec.message import Symbols
from ofediq.codec.norms import norm_bytes
from ofediq.codec.rotated import DITHER_STEPS, MAX_ROTATED_NORM
from ofediq.codec.schemes.scheme import (
    Encoded,
    Scheme,
    read_floats,
    read_norms,
    require_no_tail,
    vector,
    write_floats,
)
from ofediq.codec.sizes import class_counts, symbol_bits, whole_bytes
from ofediq.codec.stack import Stack
from ofediq.codec.tables import read_model
from ofediq.errors import WireError, require_integer
from ofediq.randomness import Address, Purpose
from ofediq.settings import limited

LatticeName = Literal["scalar", "hexagonal"]

HEXAGONAL_STEPS = {1: 3.82425, 2: 1.22224, 3: 0.567524, 4: 0.279057}
"""Distance of neighbours, in standard deviations, at which symbols of Gaussian pairs have 1, 2, 3, 4 bits each."""

_NORM_BYTES = 4
_HEIGHT = np.float32(math.sqrt(3) / 2)  # of a row of the hexagonal lattice above the last


@dataclass(frozen=True)
class Lattice(Scheme):
    """With y = u / ||u||, dither z and neighbours at distance c: value = ||u|| c (nearest(y / c + z) - z).

    The dither is uniform on a cell and drawn by both sides from the address, so the error is uniform on the cell
    around a point whatever u is: unbiased for every vector, with E||value - u||^2 = D c^2 ||u||^2 / 12, or 5/72 in
    the place of 1/12 for the hexagonal lattice, which is about 4 % less at equal bits. No point is out of range.

    Hexagonal points are (i + [j odd] / 2, j sqrt(3) / 2). The j are coded with one model, the i of even rows with
    another, and those of odd rows with a third: together that is the entropy of the pairs. An odd last coordinate is
    rounded alone.

    Attributes:
        bits: R, 1 to 4: bits per coordinate of a Gaussian vector after the entropy code; what is sparse costs less.
        lattice: `scalar` or `hexagonal`.

    >>> update = np.random.default_rng(0).standard_normal((1, 8192)).astype(np.float32)
    >>> sent, bits = Lattice(bits=2).apply(update, Address(0, 1, np.array([0])))
    >>> float(bits[0]) / 8192 < 2.05, float(((sent - update) ** 2).sum() / (update**2).sum()) < 0.11
    (True, True)
    """

    bits: Annotated[int, limited(1, 4)]
    lattice: LatticeName = "hexagonal"

    name: ClassVar[str] = "lattice"
    unbiased: ClassVar[bool] = True

    def check(self, dim: int) -> None:
        """Its symbols must not be too many."""
        super().check(dim)
        require_integer("levels", self._most(dim), 1, MAX_LEVELS)

    def points_in_norm(self, dim: int) -> int:
        """1 / c: how many steps there are from zero to the norm."""
        steps = HEXAGONAL_STEPS if self.lattice == "hexagonal" else DITHER_STEPS
        return max(1, round(math.sqrt(dim) / steps[self.bits]))

    def quantise(self, updates: Array, address: Address) -> tuple[Array, Array]:
        """Symbols [n, dim] and norms [n, 1]."""
        xp, dim = namespace(updates), updates.shape[1]
        whole = block_norms(updates)
        norms = xp.minimum(whole, np.float32(MAX_ROTATED_NORM))
        unit = updates * (
            np.float32(1) / (whole + (whole == 0))
        )  # no longer than 1, also where the norm is cut
        draws = stream_draws(address.key(Purpose.ROUND))(0, dim)
        moved = unit * np.float32(self.points_in_norm(dim)) + self._dither(draws)
        pairs = 2 * (dim // 2) if self.lattice == "hexagonal" else 0
        found = xp.floor(moved[:, pairs:] + np.float32(0.5)).astype(np.int32)
        if pairs:
            near = xp.stack(_nearest(moved[:, 0:pairs:2], moved[:, 1:pairs:2]), -1).reshape(-1, pairs)
            found = xp.concatenate([near, found], axis=1)
        return xp.clip(found, -self._most(dim), self._most(dim)) * (norms > 0), norms

    def values(self, symbols: Array, norms: Array, address: Address) -> Array:
        """The numbers that they stand for."""
        xp, dim = namespace(symbols), symbols.shape[1]
        points = symbols.astype(np.float32)
        pairs = 2 * (dim // 2) if self.lattice == "hexagonal" else 0
        if pairs:
            j = symbols[:, 1:pairs:2]
            x = points[:, 0:pairs:2] + (j & 1).astype(np.float32) * np.float32(0.5)
            plane = xp.stack([x, points[:, 1:pairs:2] * _HEIGHT], -1).reshape(-1, pairs)
            points = xp.concatenate([plane, points[:, pairs:]], axis=1)
        unit = points - self._dither(stream_draws(address.key(Purpose.ROUND))(0, dim))
        made = unit * (norms * np.float32(1 / self.points_in_norm(dim)))
        return xp.where(norms > 0, made, np.float32(0))

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes; the bits are the ideal length of the entropy code."""
        xp, dim = namespace(updates), updates.shape[1]
        symbols, norms = self.quantise(updates, address)
        bits = np.float32(8 * _NORM_BYTES)
        groups = self._groups(symbols)
        for number, (group, inside) in enumerate(groups, 1):
            counts = class_counts(xp.where(inside, group, 0), self._most(dim)).astype(np.float32)
            outside = (~inside).sum(-1).astype(np.float32)[:, None]
            counts = xp.concatenate([counts[:, :1] - outside, counts[:, 1:]], axis=1)
            bits = bits + symbol_bits(counts, self._most(dim), bottom=number == len(groups))
        return self.values(symbols, norms, address), whole_bytes(bits, 4 * dim, norms[:, 0] > 0)

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """Norm, models and stack; the values themselves if that is not shorter; nothing for zeros."""
        symbols, norms = self.quantise(vector(update, self)[None], address)
        if not norms[0, 0]:
            return Encoded(b"")
        stack, models = Stack(), b""
        for group, inside in reversed(self._groups(symbols)):
            models = push_symbols(stack, group[inside], self._most(symbols.size), first=not models) + models
        payload = norm_bytes(norms[0], 32).tobytes() + models + stack.to_bytes()
        if len(payload) < 4 * symbols.size:
            return Encoded(payload)
        return write_floats(self.values(symbols, norms, address)[0])

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The update, or `WireError` with the reason."""
        payload = encoded.payload
        if not payload:
            require_no_tail(encoded)
            return np.zeros(dim, np.float32)
        if len(payload) == 4 * dim:
            return read_floats(encoded, dim)
        require_no_tail(encoded)
        if not _NORM_BYTES < len(payload) < 4 * dim:
            raise WireError(f"payload: {len(payload)} bytes where {_NORM_BYTES + 1} to {4 * dim} belong")
        norms = read_norms(payload[:_NORM_BYTES], 32)
        if not 0 < norms[0] <= MAX_ROTATED_NORM:
            raise WireError("payload: a norm out of range")
        made: Vector = self.values(self._read(payload, dim)[None], norms[None], address)[0]
        return made

    def _dither(self, draws: Array) -> Array:
        """Uniform on a cell: an interval, or a rectangle as wide as the distance and as high as a row."""
        centred = draws - np.float32(0.5)
        if self.lattice == "scalar":
            return centred
        pairs = 2 * (draws.shape[-1] // 2)
        high = (np.arange(draws.shape[-1]) % 2 == 1) & (np.arange(draws.shape[-1]) < pairs)
        return centred * np.where(high, _HEIGHT, np.float32(1))

    def _most(self, dim: int) -> int:
        """The largest symbol."""
        steps = self.points_in_norm(dim)
        return steps if self.lattice == "scalar" else math.ceil(steps / float(_HEIGHT)) + 2

    def _groups(self, symbols: Array) -> list[tuple[Array, Array]]:
        """What is coded with one model each, in the order of reading, and which of it is there: [n, ...] twice."""
        xp, dim = namespace(symbols), symbols.shape[1]
        if self.lattice == "scalar" or dim < 2:
            return [(symbols, xp.ones(symbols.shape, bool))]
        i, j = symbols[:, 0::2], symbols[:, 1::2]
        odd = (j & 1) == 1
        if dim % 2:
            odd = xp.concatenate([odd, xp.zeros((len(symbols), 1), bool)], axis=1)
        # In odd rows i = -1 and i = 0 are equally far from the middle: -1 and 1.
        return [(j, xp.ones(j.shape, bool)), (i, ~odd), (i + (i >= 0), odd)]

    def _read(self, payload: bytes, dim: int) -> Symbols:
        """The symbols behind a norm, or `WireError`."""
        pairs = self.lattice == "hexagonal" and dim > 1
        start, weights = _NORM_BYTES, []
        for _ in range(3 if pairs else 1):
            model, start = read_model(payload, start, self._most(dim))
            weights.append(model)
        stack = Stack(payload[start:])
        if not pairs:
            return pop_symbols(stack, dim, weights[0])
        symbols: Symbols = np.zeros(dim, np.int32)
        symbols[1::2] = pop_symbols(stack, dim // 2, weights[0], last=False)
        odd = np.append(symbols[1::2] & 1, [0] * (dim % 2)) == 1
        even_rows = pop_symbols(stack, int((~odd).sum()), weights[1], last=False)
        odd_rows = pop_symbols(stack, int(odd.sum()), weights[2])
        if not odd_rows.all():
            raise WireError("payload: a symbol 0 in an odd row")
        symbols[0::2][~odd], symbols[0::2][odd] = even_rows, odd_rows - (odd_rows > 0)
        return symbols


def _nearest(x: Array, y: Array) -> tuple[Array, Array]:
    """i and j of the nearest hexagonal point: the better one of the nearest in an even and in an odd row."""
    xp, half, gap = namespace(x), np.float32(0.5), np.float32(2) * _HEIGHT
    even_i, even_row = xp.floor(x + half), xp.floor(y / gap + half)
    odd_i, odd_row = xp.floor(x), xp.floor(y / gap)
    even = (x - even_i) ** 2 + (y - gap * even_row) ** 2
    odd = (x - odd_i - half) ** 2 + (y - gap * (odd_row + half)) ** 2
    nearer = odd < even
    i, j = xp.where(nearer, odd_i, even_i), 2 * xp.where(nearer, odd_row + half, even_row)
    return i.astype(np.int32), j.astype(np.int32)
