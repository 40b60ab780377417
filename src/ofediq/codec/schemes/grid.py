"""`grid`: one common grid for all clients and coordinates, whose step the server broadcasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec.arithmetic import MAX_LEVELS, MAX_NORM, TINY, signed_symbols, symbol_values
from ofediq.codec.draws import stream_draws
from ofediq.codec.entropy import encode_symbols, pop_symbols
from ofediq.codec.message import Symbols
from ofediq.codec.numerals import read_message
from ofediq.codec.packed import pack, packed_symbol_bytes, unpack
from ofediq.codec.schemes.scheme import (
    Encoded,
    Scheme,
    read_floats,
    read_norms,
    require_no_tail,
    require_signal,
    vector,
    write_floats,
)
from ofediq.codec.sizes import class_counts, symbol_bits, whole_bytes
from ofediq.codec.stack import Stack
from ofediq.codec.tables import read_model
from ofediq.errors import WireError
from ofediq.randomness import Address, Purpose

_OWN = b"\x7f"  # before the norm of a coarser grid; no model starts with it
_NORM_BYTES = 4


@dataclass(frozen=True)
class Grid(Scheme):
    """Round to one common grid: value_i = z m_i, where m_i is u_i / z rounded at random to a neighbouring integer.

    The grid's step z is the server's signal, the same for all clients and coordinates. Unbiased;
    E||Q(u) - u||^2 = z^2 sum f_i (1 - f_i) <= z ||u||_1, with f_i the fraction of |u_i| / z. No norm is sent: it is
    2^15 z. A coordinate far below z costs almost nothing in the entropy code. Under a total number of bits, equal
    steps for all are what reverse water-filling asks for: bits go where the energy is, across clients and steps.

    An update with a coordinate beyond 2^15 steps gets a coarser grid of its own: its norm is its largest coordinate,
    and five bytes say so. A norm below 2^-80 gives zeros.

    >>> scheme, address = Grid(), Address(seed=0, step=1, client=7)
    >>> encoded = scheme.encode([0.5, -4.0, 0.0], address, signal=2.0)
    >>> len(encoded.payload), float(scheme.decode(encoded, 3, address, signal=2.0)[1])
    (2, -4.0)
    """

    name: ClassVar[str] = "grid"
    signal: ClassVar[str] = "grid_step"
    unbiased: ClassVar[bool] = True

    def check(self, dim: int) -> None:
        """Any size will do."""
        packed_symbol_bytes(dim, MAX_LEVELS)

    def common_step(self, signal: Array) -> Array:
        """z, from the server's signal."""
        return signal

    def own_steps(self, updates: Array, signal: Array) -> Array:
        """The step of each update's own grid, [n] or one for all: z, or coarser."""
        return self.common_step(signal)

    def draws(self, address: Address, dim: int) -> Array:
        """Uniform numbers on (0, 1), [n, dim]: fractions beyond them are rounded down."""
        return stream_draws(address.key(Purpose.ROUND))(0, dim)

    def quantise(self, updates: Array, address: Address, signal: Array) -> tuple[Array, Array, Array]:
        """Symbols [n, dim], norms [n, 1], and which norms [n, 1] are not the common one."""
        xp = namespace(updates)
        common = grid_norm(self.common_step(signal))
        wanted = grid_norm(self.own_steps(updates, signal)) * xp.ones(updates.shape[0], np.float32)
        wanted = xp.maximum(wanted, abs(updates).max(-1))[:, None]
        own = wanted > common
        norms = xp.where(own, xp.minimum(wanted, np.float32(MAX_NORM)), common)
        norms = xp.where(norms < np.float32(TINY), np.float32(0), norms)
        draws = self.draws(address, updates.shape[1])
        live = norms + (norms == 0) * np.float32(MAX_NORM)  # where nothing is sent, all symbols are 0
        return signed_symbols(updates, live, draws, MAX_LEVELS), norms, own & (norms > 0)

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """Updates on the grid; the bits are the ideal length of the entropy code."""
        symbols, norms, own = self.quantise(updates, address, signal)
        counts = class_counts(symbols, MAX_LEVELS).astype(np.float32)
        sent = symbol_values(symbols, norms, MAX_LEVELS)
        return sent, grid_bits(counts, updates.shape[1], own[:, 0])

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """The shortest of entropy-coded, packed and plain."""
        values, step = vector(update, self), require_signal(signal, self)
        symbols, norms, own = (part[0] for part in self.quantise(values[None], address, step))
        if not symbols.any():
            return Encoded(b"")
        packed = packed_symbol_bytes(values.size, MAX_LEVELS)
        norm = norms.astype("<f4").tobytes() if own[0] else b""
        payload = (_OWN + norm if norm else b"") + encode_symbols(symbols, MAX_LEVELS)
        if len(payload) < _fixed(packed, values.size, bool(norm)) and len(payload) != packed:
            return Encoded(payload)
        if norm and 4 * values.size < packed + _NORM_BYTES:
            return write_floats(symbol_values(symbols, norms, MAX_LEVELS))
        digits, tail = pack(symbols, MAX_LEVELS)
        return Encoded(norm + digits, tail)

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The update; lengths tell the forms apart, see `codec.schemes.blockwise`."""
        common = grid_norm(self.common_step(require_signal(signal, self)))
        payload, packed = encoded.payload, packed_symbol_bytes(dim, MAX_LEVELS)
        largest = _fixed(packed, dim, own=True)
        if len(payload) == largest == 4 * dim < packed + _NORM_BYTES:
            return read_floats(encoded, dim)
        own = len(payload) == largest or (len(payload) != packed and payload[:1] == _OWN)
        if len(payload) > largest:
            raise WireError(f"payload: {len(payload)} bytes where at most {largest} belong")
        if len(payload) in (packed, largest):
            norm, rest = payload[: len(payload) - packed], payload[len(payload) - packed :]
            symbols = unpack(rest, encoded.tail, dim, MAX_LEVELS)
        else:
            require_no_tail(encoded)
            start = 1 + _NORM_BYTES if own else 0
            norm, symbols = payload[1:start], _read_entropy(payload[start:], dim)
        column = _own_norm(norm, common) if own else common
        values: Vector = symbol_values(symbols, np.float32(column * (column >= TINY)), MAX_LEVELS)
        return values


def grid_norm(signal: Array) -> Array:
    """2^15 z, at most the largest norm there is."""
    with np.errstate(over="ignore"):
        norm = np.float32(MAX_LEVELS) * (signal if hasattr(signal, "aval") else np.float32(signal))
        return namespace(norm).minimum(norm, np.float32(MAX_NORM))


def grid_bits(counts: Array, dim: int, own: Array) -> Array:
    """Bits of payloads, from how often each class of magnitudes occurs, [n, classes] float32.

    Args:
        counts: see `sizes.class_counts`.
        dim: D.
        own: [n], whether the message has a coarser grid of its own.
    """
    packed = packed_symbol_bytes(dim, MAX_LEVELS)
    fixed = namespace(counts).where(own, _fixed(packed, dim, own=True), packed)
    bits = symbol_bits(counts, MAX_LEVELS) + 8 * (1 + _NORM_BYTES) * own
    return whole_bytes(bits, fixed, counts[..., 1:].sum(-1) > 0)


def _fixed(packed: int, dim: int, own: bool) -> int:
    """Bytes of the payload when nothing is modelled."""
    return min(packed + _NORM_BYTES, 4 * dim) if own else packed


def _read_entropy(payload: bytes, dim: int) -> Symbols:
    if not payload:
        return np.zeros(dim, np.int32)
    compiled = read_message(payload, dim, MAX_LEVELS)
    if compiled is not None:
        return compiled[0]
    weights, start = read_model(payload, 0, MAX_LEVELS)
    stack = Stack(payload[start:])
    return pop_symbols(stack, dim, weights)


def _own_norm(data: bytes, common: np.float32) -> np.float32:
    """The norm of a coarser grid: above the common one."""
    norms = read_norms(data.ljust(_NORM_BYTES, b"\0"), 32)
    if not norms[0] > common:
        raise WireError("payload: the norm of a coarser grid is not above the common one")
    return np.float32(norms[0])
