"""The arithmetic of one window, in JAX: what clients predict, and what the senders' updates add up to.

Memory stays bounded by chunks of clients. With sampling, only senders take gradients: what the others learn inside
a window is discarded at its end, so leaving it out is exact. The number of senders is random: they are
gathered first, and a loop with a dynamic trip count quantises and adds chunk after chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ofediq.methods import Method
from ofediq.models import Model


class Pool(NamedTuple):
    """All samples of a dataset; streams hold indices into it."""

    x: jax.Array
    y: jax.Array

    def take(self, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The samples at `rows`; a negative row (absent) gives the first sample, to be masked."""
        rows = jnp.maximum(rows, 0)
        return self.x[rows], self.y[rows]


class Sums(NamedTuple):
    """Sums over clients for one window of L steps."""

    loss: jax.Array  # [L]
    error: jax.Array  # [L]
    total: jax.Array  # [dim], the sum of what the senders sent
    senders: jax.Array  # how many sent
    wire: jax.Array  # bits of their payloads


def window_sums(
    method: Method,
    model: Model,
    clients: int,
    params: jax.Array,
    pool: Pool,
    order: jax.Array,
    ids: jax.Array,
    seed: jax.Array,
    step: jax.Array,
    transmit: jax.Array,
) -> Sums:
    """Losses, errors and the sum of the updates over one window.

    Args:
        method: what is simulated.
        model: what is learnt.
        clients: K, in all (this call may see only a part of them).
        params: the common model at the window's start.
        pool: the samples.
        order: [L, n] which sample each of these clients sees at each step; negative is none.
        ids: [n] global numbers of these clients.
        seed: of all draws.
        step: the window's last step, counted from 1.
        transmit: whether the window ends with a transmission (the last one may be cut short).
    """
    if method.sums_gradients:
        return _sum_everything(method, model, params, pool, order, transmit)
    loss, error = _evaluate(model, params, pool, order)
    active = method.participation.active(seed, step, ids, clients) & (order >= 0).any(0) & transmit
    everyone = method.participation.rates(clients)
    rates, expected = jnp.asarray(everyone)[ids], float(everyone.mean()) * order.shape[1]
    total, wire = sum_senders(method, model, params, pool, order, ids, seed, step, active, rates, expected)
    return Sums(loss, error, total, active.sum(), wire)


def _sum_everything(
    method: Method, model: Model, params: jax.Array, pool: Pool, order: jax.Array, transmit: jax.Array
) -> Sums:
    """Everyone sends an uncompressed gradient at the common model: one pass gives predictions and sum."""
    steps = order.shape[0]
    rows = in_chunks(order, model.chunk)

    def one(total: jax.Array, chunk: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        present = (chunk >= 0).astype(jnp.float32)
        losses, errors, gradient = model.batch_gradient(params, *pool.take(chunk), present)
        return total + gradient, (present @ losses, present @ errors)

    zero = jnp.zeros_like(params)
    total, (loss, error) = jax.lax.scan(one, zero, rows.reshape(-1, rows.shape[-1]))
    senders = jnp.where(transmit, (order >= 0).any(0).sum(), 0)
    wire = senders.astype(jnp.float32) * method.compress.formula_bits(model.dim)
    return Sums(loss.reshape(steps, -1).sum(1), error.reshape(steps, -1).sum(1), total, senders, wire)


def _evaluate(model: Model, params: jax.Array, pool: Pool, order: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sums of losses and errors at each step of the window, [L] each, all with the common model."""
    rows = in_chunks(order, model.chunk)

    def one(chunk: jax.Array) -> tuple[jax.Array, jax.Array]:
        present = (chunk >= 0).astype(jnp.float32)
        losses, errors = model.evaluate(params, *pool.take(chunk))
        return present @ losses, present @ errors

    loss, error = jax.lax.map(one, rows.reshape(-1, rows.shape[-1]))
    return loss.reshape(rows.shape[:2]).sum(1), error.reshape(rows.shape[:2]).sum(1)


def sum_senders(
    method: Method,
    model: Model,
    params: jax.Array,
    pool: Pool,
    order: jax.Array,
    ids: jax.Array,
    seed: jax.Array,
    step: jax.Array,
    active: jax.Array,
    rates: jax.Array,
    expected: float,
    signal: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """The sum of the senders' compressed updates, and the bits of their payloads.

    `rates` [n] are the probabilities of sending, `expected` about how many will; the rest as in `window_sums`.
    """
    size = chunk_of_senders(expected, model.chunk)
    queue = jnp.argsort(~active, stable=True)  # senders first, in the order of their numbers
    queue = jnp.concatenate([queue, jnp.zeros(size, queue.dtype)])
    count = active.sum()

    def one(index: jax.Array, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        rows = jax.lax.dynamic_slice(queue, (index * size,), (size,))
        valid = (index * size + jnp.arange(size) < count).astype(jnp.float32)
        gradients = window_gradients(method, model, params, pool, order[:, rows])
        updates = gradients / jnp.where(rates[rows] > 0, rates[rows], 1)[:, None]
        sent, bits = method.compress.apply(updates, seed, step, ids[rows], signal)
        return sums[0] + valid @ sent, sums[1] + valid @ bits

    zero = (jnp.zeros_like(params), jnp.zeros((), jnp.float32))
    total, wire = jax.lax.fori_loop(0, -(-count // size), one, zero)
    return total, wire


def window_gradients(
    method: Method, model: Model, params: jax.Array, pool: Pool, order: jax.Array
) -> jax.Array:
    """The sum of each client's gradients over the window, [n, dim], along its own path; `order` is [L, n]."""

    def gradients(at: jax.Array, rows: jax.Array) -> jax.Array:
        taken: jax.Array = model.client_gradients(at, *pool.take(rows))
        return taken * (rows >= 0).astype(jnp.float32)[:, None]

    if order.shape[0] == 1:
        return gradients(params, order[0])
    clients = order.shape[1]

    def one(carry: tuple[jax.Array, jax.Array], rows: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        own, total = carry
        taken = gradients(own, rows)
        return (method.local.step(own, taken), total + taken), None

    start = jnp.tile(params, (clients, 1)) if method.local.moves else params
    (_, total), _ = jax.lax.scan(one, (start, jnp.zeros((clients, model.dim), jnp.float32)), order)
    return total


def in_chunks(order: jax.Array, chunk: int) -> jax.Array:
    """[L, n] -> [L, chunks, size]: equal chunks of at most `chunk` clients, padded with absent ones."""
    steps, clients = order.shape
    count = -(-clients // chunk)
    size = -(-clients // count)
    padded = jnp.pad(order, ((0, 0), (0, count * size - clients)), constant_values=-1)
    return padded.reshape(steps, count, size)


def chunk_of_senders(expected: float, largest: int) -> int:
    """How many senders to treat at once: chunks that the expected number, plus a deviation, fills well."""
    likely = expected + np.sqrt(expected)
    count = max(1, -(-int(np.ceil(likely)) // largest))
    return max(1, int(np.ceil(likely / count)))
