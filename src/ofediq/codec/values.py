"""From symbols and norms back to numbers, for many vectors at once, in NumPy or JAX: what every receiver computes."""

from __future__ import annotations

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.codec.arithmetic import symbol_values
from ofediq.codec.blocks import Run, block_layout
from ofediq.codec.draws import stream_draws
from ofediq.codec.rotated import Rotation, rotated_values
from ofediq.randomness import Address, Key, Purpose, words


def block_values(symbols: Array, norms: Array, levels: int) -> Array:
    """The float32 values [n, D] of symbols [n, D] and norms [n, b] of the (s, b) quantiser.

    >>> block_values(np.array([[3, 0, -4]], np.int32), np.array([[5.0]], np.float32), 5)
    array([[ 3.,  0., -4.]], dtype=float32)
    """
    runs = block_layout(symbols.shape[-1], norms.shape[-1])
    if isinstance(symbols, np.ndarray):  # in place: fresh pages cost more than the arithmetic
        values = symbols.astype(np.float32)
        for run in runs:
            rows = run.rows(values)
            rows *= run.column(norms) * np.float32(1 / levels)
        return values
    parts = [
        symbol_values(run.rows(symbols), run.column(norms), levels).reshape(len(symbols), -1) for run in runs
    ]
    return parts[0] if len(parts) == 1 else namespace(symbols).concatenate(parts, axis=1)


def rotated_block_values(
    symbols: Array, norms: Array, address: Address, levels: int, rotation: Rotation
) -> Array:
    """The float32 values [n, D] of symbols [n, D] and norms [n, b] of a rotated quantiser."""
    parts = []
    for run in block_layout(symbols.shape[-1], norms.shape[-1]):
        drawn = rotation_draws(address, run)
        rows = rotated_values(run.rows(symbols), run.column(norms), *drawn, levels, rotation)
        parts.append(rows.reshape(len(symbols), -1))
    return namespace(symbols).concatenate(parts, axis=1)


def rotation_draws(address: Address, run: Run) -> tuple[Array, Array]:
    """The random bits of a run's rotation and the draws of its dither, [n, blocks, size]; coordinate i at index i."""
    key = address.key(Purpose.ROTATE)
    index = namespace(key.first).arange(run.start, run.start + run.blocks * run.size, dtype=np.uint32)
    bits = words(Key(key.first[..., None], key.second[..., None]), index)
    draws = stream_draws(address.key(Purpose.ROUND))(run.start, index.size)
    return bits.reshape(-1, run.blocks, run.size), draws.reshape(-1, run.blocks, run.size)
