"""Three ways to be connected, behind one function each: a block of windows in, next state and records out.

`federated` is what the methods are about; `central` and `separate` are references. Each takes a carry, its
state between windows, of which the first item is the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from ofediq.methods import Method
from ofediq.models import Model
from ofediq.simulation.mesh import over_clients
from ofediq.simulation.sums import Pool, in_chunks, window_sums

Carry = tuple[Any, ...]
"""The model, the server's state, and the clients' copy of the model where the broadcast is not exact."""


class Block(NamedTuple):
    """Some windows in a row."""

    order: jax.Array  # [windows, L, clients]
    step: jax.Array  # [windows], the last step of each, counted from 1
    transmit: jax.Array  # [windows], whether it ends with a transmission


class Records(NamedTuple):
    """What is written down about each window."""

    loss: jax.Array  # [windows, L]
    error: jax.Array  # [windows, L]
    senders: jax.Array  # [windows]
    wire: jax.Array  # [windows], bits
    downlink: jax.Array | tuple[()] = ()  # [windows], bits, where the broadcast is not exact


@dataclass(frozen=True)
class Setting:
    """What stays the same for a whole run; compiled code is made for one setting.

    Attributes:
        method: what is run.
        model: what is learnt.
        clients: K, without those that pad the mesh.
        mesh: the devices, or None.
    """

    method: Method
    model: Model
    clients: int
    mesh: Mesh | None


class Feed(NamedTuple):
    """What a run reads."""

    pool: Pool
    ids: jax.Array  # [clients], their numbers
    seed: Any


Runner = Callable[[Setting, Carry, Feed, Block], tuple[Carry, Records]]


@partial(jax.jit, static_argnames="setting", donate_argnames="carry")
def federated(setting: Setting, carry: Carry, feed: Feed, block: Block) -> tuple[Carry, Records]:
    """Clients with a server: Algorithm 2 and all that can be composed like it."""
    method, clients = setting.method, setting.clients
    sums_of = over_clients(partial(window_sums, method, setting.model, clients), setting.mesh)

    def window(carry: Carry, one: Block) -> tuple[Carry, Records]:
        before, copies = carry[:2], carry[2:]
        sums = sums_of(known(carry), feed.pool, one.order, feed.ids, feed.seed, one.step, one.transmit)
        moved = method.server.apply(before[0], sums.total, clients, before[1])
        arrived = sums.senders > 0  # an empty round leaves model and state alone
        after = jax.tree.map(lambda new, old: jnp.where(arrived, new, old), moved, before)
        copies, downlink = send_back(method, after[0], copies, feed.seed, one)
        return (*after, *copies), Records(sums.loss, sums.error, sums.senders, sums.wire, downlink)

    return jax.lax.scan(window, carry, block)


@partial(jax.jit, static_argnames="setting", donate_argnames="carry")
def central(setting: Setting, carry: Carry, feed: Feed, block: Block) -> tuple[Carry, Records]:
    """One learner sees the samples of all clients, one after another, and learns from each."""
    method, model, pool = setting.method, setting.model, feed.pool

    def sample(carry: Carry, row: jax.Array) -> tuple[Carry, tuple[jax.Array, jax.Array]]:
        params, state = carry
        x, y = pool.take(row[None])
        present = row >= 0
        losses, errors, gradient = model.batch_gradient(params, x, y, jnp.ones(1, jnp.float32))
        moved = method.server.apply(params, gradient, 1, state)
        carry = jax.tree.map(lambda new, old: jnp.where(present, new, old), moved, carry)
        return carry, (jnp.where(present, losses[0], 0), jnp.where(present, errors[0], 0))

    def window(carry: Carry, one: Block) -> tuple[Carry, Records]:
        carry, (losses, errors) = jax.lax.scan(sample, carry, one.order.reshape(-1))
        senders = (one.order >= 0).sum()
        bits = 32.0 * (1 + pool.x[0].size)  # a sample: its features and its label
        wire = senders.astype(jnp.float32) * bits
        return carry, Records(losses.sum()[None], errors.sum()[None], senders, wire)

    return jax.lax.scan(window, carry, block)


@partial(jax.jit, static_argnames="setting", donate_argnames="carry")
def separate(setting: Setting, carry: Carry, feed: Feed, block: Block) -> tuple[Carry, Records]:
    """Each client learns alone: the carry has one model and one state per client."""
    method, model, pool = setting.method, setting.model, feed.pool

    def some(arguments: tuple[Carry, jax.Array]) -> tuple[Carry, jax.Array, jax.Array]:
        (params, state), rows = arguments
        x, y = pool.take(rows)
        present = rows >= 0
        losses, errors = model.evaluate(params, x, y)
        gradients = model.client_gradients(params, x, y)
        moved = jax.vmap(lambda w, g, s: method.server.apply(w, g, 1, s))(params, gradients, state)
        keep = jax.tree.map(
            lambda new, old: jnp.where(_column(present, new), new, old), moved, (params, state)
        )
        weights = present.astype(jnp.float32)
        return keep, weights @ losses, weights @ errors

    def window(carry: Carry, one: Block) -> tuple[Carry, Records]:
        rows = in_chunks(one.order, model.chunk)[0]
        count, size = rows.shape
        padding = count * size - setting.clients

        def fold(leaf: jax.Array) -> jax.Array:
            widths = ((0, padding),) + ((0, 0),) * (leaf.ndim - 1)
            return jnp.pad(leaf, widths).reshape(count, size, *leaf.shape[1:])

        kept, losses, errors = jax.lax.map(some, (jax.tree.map(fold, carry), rows))
        carry = jax.tree.map(
            lambda leaf: leaf.reshape(count * size, *leaf.shape[2:])[: setting.clients], kept
        )
        nobody = jnp.zeros((), jnp.int32)
        return carry, Records(losses.sum()[None], errors.sum()[None], nobody, jnp.zeros(()))

    return jax.lax.scan(window, carry, block)


def known(carry: Carry) -> jax.Array:
    """The model as the clients know it."""
    model: jax.Array = carry[2] if len(carry) > 2 else carry[0]
    return model


def send_back(
    method: Method, params: jax.Array, copies: tuple[Any, ...], seed: jax.Array, one: Block
) -> tuple[tuple[Any, ...], jax.Array | tuple[()]]:
    """The clients' copy after the broadcast that ends a window, and its bits; nothing if it is exact."""
    if method.broadcast.exact:
        return (), ()
    (copy,) = copies
    moved, bits = method.broadcast.send(params, copy, seed, one.step, one.step // method.period)
    return (jnp.where(one.transmit, moved, copy),), jnp.where(one.transmit, bits, 0)


def runner(method: Method) -> Runner:
    """The function that runs a block of this method's windows."""
    return {"federated": federated, "central": central, "separate": separate}[method.topology]


def first_carry(method: Method, params: jax.Array, clients: int) -> Carry:
    """The state before the first window."""
    params = jnp.asarray(method.server.start(params))
    if method.topology == "separate":
        each = jnp.tile(params, (clients, 1))
        state = jax.vmap(method.server.init)(each)
        return each, jax.tree.map(jnp.array, state)
    state = method.server.init(params)
    if method.steer is not None:
        state = (state, method.steer.init())
    # A copy of each: runners give their input's memory back, so a rule that keeps the start must not share it.
    state = jax.tree.map(jnp.array, state)
    return (params, state) if method.broadcast.exact else (params, state, jnp.array(params))


def _column(mask: jax.Array, like: jax.Array) -> jax.Array:
    """`mask` [n] shaped to broadcast against `like` [n, ...]."""
    return mask.reshape(mask.shape + (1,) * (like.ndim - 1))
