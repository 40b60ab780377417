"""`Metered`: broadcasts of moves on a grid, as fine as the bits that are due allow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ofediq.arrays import Array, Vector, float32, namespace, repeat
from ofediq.codec import Encoded
from ofediq.codec import Grid as GridScheme
from ofediq.errors import WireError
from ofediq.methods.broadcast import SERVER, Broadcast
from ofediq.methods.budgets.windows import Growing
from ofediq.methods.compress import identity
from ofediq.methods.pieces import piece
from ofediq.randomness import Address
from ofediq.settings import Fading, Positive, Share

_PARTS = 32  # steps of the grid between a power of two and the next
_HEAD = 2  # bytes that say the step
_CHANCE = 0.3  # of a step of the grid, in which chance decides about the neighbour
_STEPS = np.exp2(np.arange(-40 * _PARTS, 40 * _PARTS + 1) / _PARTS).astype(np.float32)


@dataclass(frozen=True)
class _Nearly(GridScheme):
    """Rounds to the nearest point of the grid, but for a little chance where two are about as near."""

    def draws(self, address: Address, dim: int) -> Array:
        """Numbers near 1/2."""
        drawn: Array = np.float32(0.5) + np.float32(_CHANCE) * (super().draws(address, dim) - np.float32(0.5))
        return drawn


_GRID = _Nearly()


@piece
@dataclass(frozen=True)
class Metered(Broadcast):
    """v <- v + z round((w - v) / z), with the finest grid whose message is within the bits that are due.

    The server knows what a message costs before it sends it, so nothing needs to be steered: z is one of the numbers
    2^(k/32), and two bytes say which. It then goes on from  v + keeps (w - v):  what the clients lack fades. All of
    it (error feedback) would let w run ahead of the clients whose gradients move it, and Adam overshoot; none of it
    needs rounding without bias, whose noise at a fifth of a bit per parameter is twenty times the move. Rounding is
    to the nearest, with a little chance: Adam's first moves are all equally long, and some must go first.
    A model that did not move costs nothing. Where windows grow, the message at step t of T gets

        in proportion to (t / T)^(-lean / 2) bits,

    more in the beginning, when moves are large. If 32 D bits are due, the whole model is sent.

    Attributes:
        bits: mean bits per message.
        windows: when the messages go out; None for a run without end, in which all are alike.
        lean: how much the bits lean towards early messages, in [0, 1).
        keeps: how much of what the clients lack is remembered, in [0, 1].
    """

    bits: Positive
    windows: Growing | None = None
    lean: Fading = 0.8
    keeps: Share = 0.3

    def usual_bits(self, dim: int) -> float:
        """The mean."""
        return self.bits

    def due(self, step: Array) -> Array:
        """Bits of the message at `step`."""
        xp, step = namespace(float32(step)), float32(step)
        if self.windows is None:
            return xp.full_like(step, self.bits)
        last, fall = self.windows.steps, np.float32(-self.lean / 2)
        ends = self.windows.ends(last)
        mean = float(((ends / last) ** fall).mean()) if ends.size else 1.0
        part = xp.clip(step / np.float32(last), np.float32(1e-9), np.float32(1))
        return np.float32(self.bits / mean) * part**fall

    def send(
        self, params: Array, copy: Array, seed: Array, step: Array, number: Array
    ) -> tuple[Array, Array]:
        """The copy moved by what the clients decode; the whole model if that is due."""
        xp = namespace(params)
        address = Address(seed, step, xp.full(1, SERVER, dtype=np.uint32))
        due, full = self.due(step), np.float32(32 * params.shape[-1])
        move = params - copy
        index = self._index(move, address, due)
        sent, bits = _GRID.apply(move[None], address, xp.asarray(_STEPS)[index])
        bits = xp.where(bits[0] > 0, bits[0] + np.float32(8 * _HEAD), np.float32(0))
        whole = (due >= full) & (bits > 0)
        return xp.where(whole, params, copy + sent[0]), xp.where(whole, full, bits)

    def encode(self, params: Vector, copy: Vector, seed: int, step: int, number: int) -> tuple[Encoded, bool]:
        """Nothing, the number of the grid and the move on it, or a raw message."""
        address = Address(seed, step, SERVER)
        move, due = params - copy, self.due(np.float32(step))
        if not move.any():
            return Encoded(b""), True
        if due >= np.float32(32 * params.size):
            return identity().encode(params, address), False
        index = int(self._index(move, address._replace(client=np.full(1, SERVER, np.uint32)), due))
        encoded = _GRID.encode(move, address, float(_STEPS[index]))
        if not encoded.payload:
            return encoded, True
        return Encoded(int(index).to_bytes(_HEAD, "little") + encoded.payload, encoded.tail), True

    def decode(
        self, encoded: Encoded, adds: bool, copy: Vector | None, dim: int, seed: int, step: int
    ) -> Vector:
        """The copy, moved if there is a message, or the whole model."""
        address = Address(seed, step, SERVER)
        if not adds:
            return identity().decode(encoded, dim, address)
        if copy is None:
            raise WireError("broadcast: a difference, and nothing to add it to")
        if not encoded.payload:
            return copy
        index = int.from_bytes(encoded.payload[:_HEAD], "little")
        if len(encoded.payload) <= _HEAD or index >= len(_STEPS):
            raise WireError("broadcast: no such grid")
        rest = Encoded(encoded.payload[_HEAD:], encoded.tail)
        return copy + _GRID.decode(rest, dim, address, float(_STEPS[index]))

    def _index(self, move: Array, address: Address, due: Array) -> Array:
        """The finest grid whose message is within `due`, by bisection: coarser grids cost less."""
        xp = namespace(move)
        table, allowed = xp.asarray(_STEPS), due - np.float32(8 * _HEAD)

        def halved(between: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = between
            middle = (low + high) // 2
            fits = _GRID.apply(move[None], address, table[middle])[1][0] <= allowed
            return xp.where(fits, low, xp.minimum(middle + 1, high)), xp.where(fits, middle, high)

        _, high = repeat(len(_STEPS).bit_length(), halved, (xp.asarray(0), xp.asarray(len(_STEPS) - 1)))
        return high


def metered(bits: float, windows: Growing | None = None, lean: float = 0.8, keeps: float = 0.3) -> Metered:
    """Broadcast moves in `bits` bits on average.

    >>> piece, model = metered(16.0 + 64.0), np.linspace(-1, 1, 100).astype(np.float32)
    >>> copy, bits = piece.send(model, np.zeros(100, np.float32), seed=0, step=1, number=1)
    >>> 0 < float(bits) <= 80, bool(np.corrcoef(model, copy)[0, 1] > 0)
    (True, True)
    """
    return Metered(bits, windows, lean, keeps)
