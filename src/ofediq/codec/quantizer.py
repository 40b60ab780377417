"""The (s, b)-stochastic quantiser of Definition 2: a vector in, a `Message` out."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ofediq import randomness
from ofediq.codec.arithmetic import MAX_LEVELS, block_norms, short_norms, signed_symbols
from ofediq.codec.blocks import block_layout
from ofediq.codec.message import Message, Vector, as_vector, require_norm_bits
from ofediq.errors import InputError, require_integer
from ofediq.randomness import Key, Purpose

Rng: TypeAlias = np.random.Generator | Key | int
"""Where draws come from: a NumPy generator, an addressable stream, or the seed of a run."""


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
    level_draws, norm_draws = _draws(
        rng, norm_rng, values.size, blocks if norm_bits == 16 else 0, step, client
    )
    symbols, norms = np.empty(values.size, np.int32), np.empty(blocks, np.float32)
    for run in block_layout(values.size, blocks):
        rows = run.rows(values)
        exact = block_norms(rows)
        symbol_rows = signed_symbols(*_tame(rows, exact), run.rows(level_draws), levels)
        if norm_bits == 16:
            exact = short_norms(exact, run.column(norm_draws))
            symbol_rows *= exact > 0  # a norm below 4.6e-41 can round to 0, and then nothing is left to send
        run.rows(symbols)[...] = symbol_rows
        run.column(norms)[...] = exact
    return Message(values.size, levels, blocks, symbols, norms, norm_bits=norm_bits, step=step, client=client)


def _draws(
    rng: Rng, norm_rng: Key | None, dim: int, short: int, step: int, client: int
) -> tuple[Vector, Vector]:
    """Uniform draws for `dim` levels and for `short` norms."""
    if isinstance(rng, np.random.Generator):
        return rng.random(dim, np.float32), rng.random(short, np.float32)
    if not isinstance(rng, Key):
        rule = "must be a numpy Generator, a randomness.Key or an integer seed"
        if isinstance(rng, bool) or not hasattr(rng, "__index__"):
            raise InputError(f"`rng` {rule}, got {rng!r}")
        seed = rng.__index__()
        rng, norm_rng = (
            randomness.stream_key(seed, step, client, purpose) for purpose in (Purpose.ROUND, Purpose.NORM)
        )
    if norm_rng is None:
        if short:
            raise InputError("`norm_rng` must be given when `rng` is a stream and `norm_bits` is 16")
        norm_rng = rng
    return _stream(rng, dim), _stream(norm_rng, short)


def _stream(key: Key, count: int) -> Vector:
    drawn: Vector = randomness.uniform(key, np.arange(count, dtype=np.uint32))
    return drawn


def _tame(rows: Vector, norms: Vector) -> tuple[Vector, Vector]:
    """Multiply blocks by powers of two where `levels / norm` could leave float32. Symbols do not change."""
    exponents = np.frexp(norms)[1]
    if np.abs(exponents).max() < 100:
        return rows, norms
    return np.ldexp(rows, -exponents), np.ldexp(norms, -exponents)
