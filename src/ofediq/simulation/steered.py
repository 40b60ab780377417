"""Methods whose server steers a budget: everyone computes an update, its norm decides how likely it is sent.

First all norms, in chunks, with the predictions; then the updates of the senders once more, in full chunks. Nothing
of size clients x dim is ever held.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from ofediq.methods import Method
from ofediq.methods.participation import NormProportional
from ofediq.models import Model
from ofediq.simulation.mesh import over_clients
from ofediq.simulation.sums import Pool, Sums, in_chunks, sum_senders, window_gradients
from ofediq.simulation.topologies import Block, Carry, Feed, Records, Setting, known, send_back


@partial(jax.jit, static_argnames="setting", donate_argnames="carry")
def steered(setting: Setting, carry: Carry, feed: Feed, block: Block) -> tuple[Carry, Records]:
    """Clients with a server that broadcasts a signal; the state is (server's state, signal)."""
    method, steer = setting.method, setting.method.steer
    assert steer is not None
    sums_of = over_clients(partial(_window_sums, method, setting.model), setting.mesh)

    def window(carry: Carry, one: Block) -> tuple[Carry, Records]:
        params, (state, signal) = carry[:2]
        at = (known(carry), signal.value)
        sums = sums_of(at, feed.pool, one.order, feed.ids, feed.seed, one.step, one.transmit)
        moved = method.server.apply(params, sums.total, setting.clients, state)
        arrived = sums.senders > 0
        params, state = jax.tree.map(lambda new, old: jnp.where(arrived, new, old), moved, (params, state))
        steps = one.step.astype(jnp.float32)
        after = steer.next(signal, sums.wire, steps, method.period)
        signal = jax.tree.map(lambda new, old: jnp.where(one.transmit, new, old), after, signal)
        copies, downlink = send_back(method, params, carry[2:], feed.seed, one)
        records = Records(sums.loss, sums.error, sums.senders, sums.wire, downlink)
        return (params, (state, signal), *copies), records

    return jax.lax.scan(window, carry, block)


def _window_sums(
    method: Method,
    model: Model,
    at: tuple[jax.Array, jax.Array],
    pool: Pool,
    order: jax.Array,
    ids: jax.Array,
    seed: jax.Array,
    step: jax.Array,
    transmit: jax.Array,
) -> Sums:
    """As `sums.window_sums`, with probabilities that follow the norms of the updates."""
    assert isinstance(method.participation, NormProportional)
    params, signal = at
    loss, error, norms = _norms(method, model, params, pool, order)
    rates = method.participation.probabilities(norms, signal)
    active = (method.participation.draws(seed, step, ids) < rates) & transmit
    expected = 0.2 * order.shape[1]  # for the size of a chunk only
    total, wire = sum_senders(
        method, model, params, pool, order, ids, seed, step, active, rates, expected, signal
    )
    return Sums(loss, error, total, active.sum(), wire)


def _norms(
    method: Method, model: Model, params: jax.Array, pool: Pool, order: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sums of losses and errors at each step, [L], and the norm of each client's update, [n]."""
    rows = in_chunks(order, model.chunk)  # [L, chunks, size]

    def one(chunk: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:  # [L, size]
        present = (chunk >= 0).astype(jnp.float32)
        losses, errors = jax.vmap(lambda some: model.evaluate(params, *pool.take(some)))(chunk)
        updates = window_gradients(method, model, params, pool, chunk)
        norms = jnp.sqrt((updates * updates) @ jnp.ones((model.dim,), jnp.float32))
        return (present * losses).sum(1), (present * errors).sum(1), norms

    loss, error, norms = jax.lax.map(one, rows.swapaxes(0, 1))
    return loss.sum(0), error.sum(0), norms.reshape(-1)[: order.shape[1]]
