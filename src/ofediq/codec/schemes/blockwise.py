"""What schemes of symbols and block norms share: their payload is packed, entropy-coded, or plain floats.

A payload of the fixed size (packed, or float32 values where those are shorter) is just that. A shorter one is
entropy-coded; an empty one means zeros. So the length tells the form, and no bit is spent on it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.codec.arithmetic import MAX_NORM
from ofediq.codec.blocks import block_layout
from ofediq.codec.entropy import decode_entropy, encode_entropy
from ofediq.codec.message import Symbols, check_norms, check_symbols, require_norm_bits
from ofediq.codec.norms import norm_bytes, norms_from_bytes
from ofediq.codec.packed import fixed_bytes, pack, packed_payload_bytes, unpack, unpack_rows, unpack_values
from ofediq.codec.readers import SymbolScale
from ofediq.codec.schemes.scheme import (
    Encoded,
    Scheme,
    read_floats,
    require_no_tail,
    vector,
    write_floats,
)
from ofediq.codec.sizes import payload_bits
from ofediq.codec.values import block_values
from ofediq.errors import InputError, WireError, require
from ofediq.randomness import Address

SymbolCoding = Literal["packed", "entropy"]
"""`packed`: a uniform code of the 2s+1 symbols, always of one size. `entropy`: a code fitted to the message."""


_TOGETHER = 2**19  # coordinates that are read at a time


class Blockwise(Scheme):
    """Symbols from -s to s, and a norm for each block."""

    coding: SymbolCoding
    norm_bits: int
    most_norm: ClassVar[float] = MAX_NORM

    def __post_init__(self) -> None:
        super().__post_init__()
        require_norm_bits(self.norm_bits)

    @abstractmethod
    def shape(self, dim: int) -> tuple[int, int]:
        """Levels s and blocks b for updates of `dim` coordinates."""

    @abstractmethod
    def quantise(self, updates: Array, address: Address) -> tuple[Array, Array]:
        """Symbols [n, dim] and norms [n, b]."""

    def values(self, symbols: Array, norms: Array, address: Address) -> Array:
        """The numbers [n, dim] that they stand for: symbol (norm / s)."""
        return block_values(symbols, norms, self.shape(symbols.shape[1])[0])

    def check(self, dim: int) -> None:
        """Raise `InputError` unless there is a message of `dim` coordinates."""
        fixed_bytes(dim, *self.shape(dim), self.norm_bits)

    def fixed_bits(self, dim: int) -> int:
        """Bits of a packed payload: those of every message, or the most that an entropy-coded one may have."""
        return 8 * fixed_bytes(dim, *self.shape(dim), self.norm_bits)

    def apply(self, updates: Array, address: Address, signal: Array = None) -> tuple[Array, Array]:
        """What the server decodes; bits are exact if packed, else the ideal length of the entropy code."""
        symbols, norms = self.quantise(updates, address)
        sent = self.values(symbols, norms, address)
        if self.coding == "entropy":
            return sent, payload_bits(symbols, norms, self.shape(updates.shape[1])[0], self.norm_bits)
        bits = np.float32(self.fixed_bits(updates.shape[1]))
        return sent, namespace(updates).full(len(updates), bits)

    def encode(self, update: Any, address: Address, signal: float | None = None) -> Encoded:
        """The shortest of the forms that `coding` allows."""
        symbols, norms = (part[0] for part in self.quantise(vector(update, self)[None], address))
        levels, _ = self.shape(symbols.size)
        fixed = self.fixed_bits(symbols.size) // 8
        if self.coding == "entropy":
            payload = encode_entropy(symbols, norms, levels, self.norm_bits)
            if len(payload) < fixed:
                return Encoded(payload)
        if fixed == packed_payload_bytes(symbols.size, levels, norms.size, self.norm_bits):
            packed, tail = pack(symbols, levels)
            return Encoded(norm_bytes(norms, self.norm_bits).tobytes() + packed, tail)
        return write_floats(self.values(symbols[None], norms[None], address)[0])

    def decode(self, encoded: Encoded, dim: int, address: Address, signal: float | None = None) -> Vector:
        """The update, or `WireError` with the reason."""
        levels, blocks = self.shape(dim)
        fixed = self.fixed_bits(dim) // 8
        if len(encoded.payload) == fixed < packed_payload_bytes(dim, levels, blocks, self.norm_bits):
            return read_floats(encoded, dim)
        try:
            symbols, norms = self._read(encoded, dim, fixed)
            check_norms(norms, self.norm_bits)
            check_symbols(symbols, norms, levels)
            require(
                norms.max() <= self.most_norm, "norms", f"must be at most {self.most_norm:.7g}", norms.max()
            )
        except WireError:
            raise
        except InputError as error:
            raise WireError(f"payload: {error}") from None
        made: Vector = self.values(symbols[None], norms[None], address)[0]
        return made

    def decode_many(
        self, encoded: Sequence[Encoded], dim: int, address: Address, signal: float | None = None
    ) -> list[Vector | WireError]:
        """`decode` of many messages of one step, those of the clients `address.client` [n]; errors are values.

        Packed messages are read some at a time, as many as stay in the cache: NumPy's overhead is shared. What is
        not in order is read alone, which says why.
        """
        (levels, blocks), fixed = self.shape(dim), self.fixed_bits(dim) // 8
        packs = fixed == packed_payload_bytes(dim, levels, blocks, self.norm_bits)
        some = [place for place, one in enumerate(encoded) if packs and len(one.payload) == fixed]
        clients, together = np.asarray(address.client), max(1, _TOGETHER // dim)
        found: list[Vector | WireError | None] = [None] * len(encoded)
        for start in range(0, len(some), together):
            places = some[start : start + together]
            made, good = self._read_some(
                [encoded[place] for place in places], dim, address._replace(client=clients[places])
            )
            for place, row, fine in zip(places, made, good.tolist(), strict=True):
                found[place] = row if fine else None
        left = [place for place, one in enumerate(found) if one is None]
        rest = [encoded[place] for place in left]
        for place, one in zip(
            left, super().decode_many(rest, dim, address._replace(client=clients[left])), strict=True
        ):
            found[place] = one
        return [one for one in found if one is not None]

    def _read_some(self, encoded: Sequence[Encoded], dim: int, address: Address) -> tuple[Any, Any]:
        """The numbers [n, dim] in packed messages, and which of them are in order."""
        (levels, blocks), split = self.shape(dim), self.shape(dim)[1] * self.norm_bits // 8
        data = np.frombuffer(b"".join(one.payload for one in encoded), np.uint8).reshape(len(encoded), -1)
        norms = norms_from_bytes(np.ascontiguousarray(data[:, :split]), self.norm_bits).reshape(-1, blocks)
        tails = [one.tail for one in encoded]
        if type(self).values is Blockwise.values:
            made = unpack_values(data[:, split:], tails, dim, SymbolScale(norms, levels, self.most_norm))
            if made is not None:
                return made
        digits, good = unpack_rows(data[:, split:], tails, dim, 2 * levels + 1)
        good &= (norms.view(np.uint32) <= np.float32(self.most_norm).view(np.uint32)).all(axis=1)
        symbols = digits.view(np.int32)
        symbols -= np.int32(levels)
        empty = np.flatnonzero((norms == 0).any(axis=1))  # rows with blocks in which everything must be zero
        for run in block_layout(dim, blocks) if empty.size else ():
            spoken = run.rows(symbols[empty]).any(axis=-1)
            good[empty] &= ~(spoken & (run.column(norms[empty])[..., 0] == 0)).any(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not good is not used
            return self.values(symbols, norms, address), good

    def _read(self, encoded: Encoded, dim: int, fixed: int) -> tuple[Symbols, Vector]:
        levels, blocks = self.shape(dim)
        if len(encoded.payload) == fixed:
            split = blocks * self.norm_bits // 8
            rows = np.frombuffer(encoded.payload, np.uint8, split).reshape(blocks, -1)
            symbols = unpack(encoded.payload[split:], encoded.tail, dim, levels)
            return symbols, norms_from_bytes(rows, self.norm_bits)
        if self.coding == "packed" or len(encoded.payload) > fixed:
            raise WireError(f"payload: {len(encoded.payload)} bytes where {fixed} belong")
        require_no_tail(encoded)
        return decode_entropy(encoded.payload, dim, levels, blocks, self.norm_bits)
