"""Quantisers, a vector in, a `Message` out: the (s, b)-stochastic one of Definition 2, and rotated ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ofediq.codec.arithmetic import MAX_LEVELS, block_norms, short_norms, signed_symbols
from ofediq.codec.blocks import block_layout, tiles
from ofediq.codec.draws import Rng, level_draws, norm_draws
from ofediq.codec.message import Message, Vector, as_vector, require_norm_bits, rotation_draws
from ofediq.codec.rotated import ROTATIONS, Rotation, rotated_levels, rotated_symbols
from ofediq.codec.rotation import rotation_blocks
from ofediq.errors import require, require_choice, require_integer
from ofediq.randomness import Key

_SAFE_EXPONENT = 100  # between 2^-100 and 2^100 `levels / norm` stays inside float32


def quantize(
    vector: Any,
    *,
    levels: int,
    blocks: int,
    rng: Rng,
    norm_bits: int = 32,
    norm_rng: Key | None = None,
    step: int = 0,
    client: int = 0,
) -> Message:
    """Quantise `vector` without bias: one norm per block, one symbol from -s to s per coordinate.

        Q(u)_i = ||u_I|| sign(u_i) m_i / s,   E m_i = s |u_i| / ||u_I||     for i in block I

    The mean of the result is `vector` up to float32 rounding (each probability is exact to 2^-24), its variance
    E||Q(u) - u||^2 is at most min(c/s^2, sqrt(c)/s) ||u||^2 with c = ceil(D/b). A nonzero block never gets norm 0
    or infinity: norms above 3.4e38 are clipped there, which does no harm. Only where the norm is below
    s * 1.2e-38 do the values fall on the coarse grid of float32's subnormal numbers.

    Args:
        vector: D real numbers, finite in float32.
        levels: s, from 1 to 2^15.
        blocks: b, from 1 to D. One block is QSGD's quantiser.
        rng: a NumPy generator; or a stream, which draws coordinate i at index i; or an integer seed, which stands
            for the streams (seed, step, client, ROUND) for levels and (seed, step, client, NORM) for norms.
        norm_bits: 32 as in the paper, or 16: norms rounded at random, again without bias.
        norm_rng: the stream for rounding norms. Needed when `rng` is a stream and `norm_bits` is 16.
        step: the time step, carried along.
        client: who sends, carried along.

    >>> message = quantize([3.0, 0.0, -4.0, 0.0], levels=5, blocks=2, rng=0)
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
    draws = level_draws(rng, step, client)
    runs = block_layout(values.size, blocks)
    symbols, norms = np.empty(values.size, np.int32), np.empty(blocks, np.float32)
    for run in runs:
        run.column(norms)[...] = block_norms(run.rows(values))
    wild = bool((np.abs(np.frexp(norms)[1]) >= _SAFE_EXPONENT).any())
    for tile in tiles(runs):
        rows, column = tile.rows(values), tile.column(norms)
        if wild:
            rows, column = _tame(rows, column)
        drawn = draws(tile.start, rows.size).reshape(rows.shape)
        tile.rows(symbols)[...] = signed_symbols(rows, column, drawn, levels)
    if norm_bits == 16:
        norms = short_norms(norms, norm_draws(rng, norm_rng, step, client)(0, blocks))
        if not norms.all():  # a norm below 4.6e-41 can round to 0, and then nothing is left to send
            for run in runs:
                run.rows(symbols)[...] *= run.column(norms) > 0
    return Message(values.size, levels, blocks, symbols, norms, norm_bits=norm_bits, step=step, client=client)


def quantize_rotated(
    vector: Any, *, bits: int, seed: int, rotation: Rotation = "dither", step: int = 0, client: int = 0
) -> Message:
    """Rotate `vector` at random, then quantise it to about 1 to 4 bits per coordinate.

    `codec.rotated` has the equations. `dither` is exactly unbiased, for every vector; its error is exactly
    c / (12 s^2) ||u||^2, about 1.03, 0.108, 0.023 and 0.0056 at 1, 2, 3 and 4 bits. `nearest` is DRIVE's and EDEN's
    quantiser, unbiased for a uniformly random rotation; with this one, vectors of few large coordinates have a bias.
    Its error is 0.57 at 1 bit.

    Args:
        vector: D real numbers, finite in float32, with blocks of norm at most 2^100.
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
    runs = block_layout(values.size, blocks)
    levels = rotated_levels(runs[0].size, bits, rotation)
    symbols, norms = np.empty(values.size, np.int32), np.empty(blocks, np.float32)
    for run in runs:
        rows = run.rows(values)
        column = block_norms(rows)
        require(
            float(column.max()) <= 2.0**_SAFE_EXPONENT, "vector", "must have a norm of at most 2^100", "more"
        )
        exponents = np.frexp(column)[1]
        drawn = rotation_draws(seed, step, client, run)
        signed, scales = rotated_symbols(*_tame(rows, column), *drawn, levels, rotation)
        run.rows(symbols)[...] = signed
        run.column(norms)[...] = np.ldexp(scales, exponents)
    return Message(
        values.size,
        levels,
        blocks,
        symbols,
        norms,
        step=step,
        client=client,
        rotation=rotation,
        seed=seed,
    )


def _tame(rows: Vector, norms: Vector) -> tuple[Vector, Vector]:
    """Multiply each block by the power of two that brings its norm near 1. Symbols do not change."""
    exponents = np.frexp(norms)[1]
    return np.ldexp(rows, -exponents), np.ldexp(norms, -exponents)
