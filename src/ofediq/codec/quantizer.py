"""Quantisers: the (s, b)-stochastic one of Definition 2, and rotated ones; many vectors at once, or one `Message`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.codec.arithmetic import MAX_LEVELS, block_norms, short_norms, signed_symbols
from ofediq.codec.blocks import TILE, block_layout, tiles
from ofediq.codec.draws import Source, StreamDraws, stream_draws
from ofediq.codec.message import Message, as_vector, require_norm_bits
from ofediq.codec.rotated import MAX_ROTATED_NORM, ROTATIONS, Rotation, rotated_levels, rotated_symbols
from ofediq.codec.rotation import rotation_blocks
from ofediq.codec.rounding import symbols_and_norms
from ofediq.codec.values import rotation_draws
from ofediq.errors import require_choice, require_integer
from ofediq.randomness import Address, Purpose


def block_symbols(
    updates: Array,
    draws: Source,
    levels: int,
    blocks: int,
    short: Source | None = None,
    norm: Callable[[Array], Array] = block_norms,
) -> tuple[Array, Array]:
    """Symbols [n, D] and norms [n, b] of the (s, b) quantiser for many updates [n, D], in NumPy or JAX.

    Args:
        updates: float32.
        draws: for rounding coordinates.
        levels: s.
        blocks: b.
        short: draws for rounding norms to 16 bits; None leaves them as they are.
        norm: the norm of each row as a column, nowhere below the row's largest size.

    >>> from ofediq.codec.draws import stream_draws
    >>> from ofediq.randomness import Purpose, stream_key
    >>> draws = stream_draws(stream_key(0, 1, np.arange(2), Purpose.ROUND))
    >>> block_symbols(np.array([[3.0, 0.0, -4.0], [0.0, 0.0, 1.0]], np.float32), draws, 5, 1)
    (array([[ 3,  0, -4], [ 0,  0,  5]], dtype=int32), array([[5.], [1.]], dtype=float32))
    """
    runs = block_layout(updates.shape[-1], blocks)
    compiled = None
    if isinstance(updates, np.ndarray) and isinstance(draws, StreamDraws) and norm is block_norms:
        compiled = symbols_and_norms(updates, draws.key, levels, blocks)
    if compiled is not None:
        symbols, norms = compiled
    elif isinstance(updates, np.ndarray):  # in pieces that stay in the cache
        symbols, norms = np.empty(updates.shape, np.int32), np.empty((len(updates), blocks), np.float32)
        for run in runs:
            run.column(norms)[...] = norm(run.rows(updates))
        for tile in tiles(runs, max(1, TILE // len(updates))):
            rows = tile.rows(updates)
            drawn = draws(tile.start, tile.blocks * tile.size).reshape(rows.shape)
            tile.rows(symbols)[...] = signed_symbols(rows, tile.column(norms), drawn, levels)
    else:
        parts = []
        for run in runs:
            rows = run.rows(updates)
            column = norm(rows)
            drawn = draws(run.start, run.blocks * run.size).reshape(rows.shape)
            signed = signed_symbols(rows, column, drawn, levels)
            parts.append((signed.reshape(len(updates), -1), column[..., 0]))
        symbols, norms = (namespace(updates).concatenate(part, axis=1) for part in zip(*parts, strict=True))
    return symbols, norms if short is None else short_norms(norms, short(0, blocks))


def rotated_blocks(
    updates: Array, address: Address, levels: int, rotation: Rotation, short: Source | None = None
) -> tuple[Array, Array]:
    """Symbols [n, D] and norms [n, b] of a rotated quantiser for many updates [n, D], in NumPy or JAX."""
    xp, parts = namespace(updates), []
    for run in block_layout(updates.shape[-1], rotation_blocks(updates.shape[-1])):
        rows = run.rows(updates)
        column = xp.minimum(block_norms(rows), np.float32(MAX_ROTATED_NORM))
        signed, scales = rotated_symbols(rows, column, *rotation_draws(address, run), levels, rotation)
        parts.append((signed.reshape(len(updates), -1), scales[..., 0]))
    symbols, norms = (xp.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    return symbols, norms if short is None else short_norms(norms, short(0, norms.shape[-1]))


def quantize(
    vector: Any,
    *,
    levels: int,
    blocks: int,
    seed: int,
    norm_bits: int = 32,
    step: int = 0,
    client: int = 0,
) -> Message:
    """Quantise `vector` without bias: one norm per block, one symbol from -s to s per coordinate.

        Q(u)_i = ||u_I|| sign(u_i) m_i / s,   E m_i = s |u_i| / ||u_I||     for i in block I

    The mean of the result is `vector` up to float32 rounding (each probability is exact to 2^-24), its variance
    E||Q(u) - u||^2 is at most min(c/s^2, sqrt(c)/s) ||u||^2 with c = ceil(D/b). Norms above 3.4e38 are clipped there,
    which does no harm; blocks of nothing above 8e-25 count as zeros.

    Args:
        vector: D real numbers, finite in float32.
        levels: s, from 1 to 2^15.
        blocks: b, from 1 to D. One block is QSGD's quantiser.
        seed: levels are drawn from the stream (seed, step, client, ROUND), norms from (seed, step, client, NORM).
        norm_bits: 32 as in the paper, or 16: norms rounded at random, again without bias.
        step: the time step, carried along.
        client: who sends, carried along.

    >>> message = quantize([3.0, 0.0, -4.0, 0.0], levels=5, blocks=2, seed=0)
    >>> message.symbols, message.norms
    (array([ 5,  0, -5,  0], dtype=int32), array([3., 4.], dtype=float32))
    >>> message.dequantize()
    array([ 3.,  0., -4.,  0.], dtype=float32)
    """
    values = as_vector(vector)
    levels = require_integer("levels", levels, 1, MAX_LEVELS)
    blocks = require_integer("blocks", blocks, 1, values.size)
    require_norm_bits(norm_bits)
    step = require_integer("step", step, 0, 2**64 - 1)
    client = require_integer("client", client, 0, 2**32 - 1)
    address = Address(require_integer("seed", seed, -(2**63), 2**64 - 1), step, client)
    short = stream_draws(address.key(Purpose.NORM)) if norm_bits == 16 else None
    symbols, norms = block_symbols(
        values[None], stream_draws(address.key(Purpose.ROUND)), levels, blocks, short
    )
    return Message(
        values.size, levels, blocks, symbols[0], norms[0], norm_bits=norm_bits, step=step, client=client
    )


def quantize_rotated(
    vector: Any, *, bits: int, seed: int, rotation: Rotation = "dither", step: int = 0, client: int = 0
) -> Message:
    """Rotate `vector` at random, then quantise it to about 1 to 4 bits per coordinate.

    `codec.rotated` has the equations. `dither` is exactly unbiased, for every vector; its error is exactly
    c / (12 s^2) ||u||^2, about 1.03, 0.108, 0.023 and 0.0056 at 1, 2, 3 and 4 bits. `nearest` is DRIVE's and EDEN's
    quantiser, unbiased for a uniformly random rotation; with this one, vectors of few large coordinates have a bias.
    Its error is 0.57 at 1 bit.

    Args:
        vector: D real numbers, finite in float32; blocks with norms beyond 2^120 are cut there.
        bits: 1 to 4: bits per coordinate of the entropy-coded symbols of a Gaussian vector.
        seed: rotation and dither are drawn from (seed, step, client); the message carries it, modulo 2^32.
        rotation: `dither` or `nearest`.
        step: the time step, carried along.
        client: who sends, carried along.

    >>> message = quantize_rotated([3.0, 0.0, -4.0, 0.0], bits=4, seed=0)
    >>> float(abs(message.dequantize() - np.array([3, 0, -4, 0])).max()) < 1
    True
    """
    values = as_vector(vector)
    bits = require_integer("bits", bits, 1, 4)
    require_choice("rotation", rotation, ROTATIONS[1:])
    step = require_integer("step", step, 0, 2**64 - 1)
    client = require_integer("client", client, 0, 2**32 - 1)
    seed = require_integer("seed", seed, -(2**63), 2**64 - 1) % 2**32
    blocks = rotation_blocks(values.size)
    levels = rotated_levels(-(-values.size // blocks), bits, rotation)
    symbols, norms = rotated_blocks(values[None], Address(seed, step, client), levels, rotation)
    shape = values.size, levels, blocks
    return Message(*shape, symbols[0], norms[0], step=step, client=client, rotation=rotation, seed=seed)
