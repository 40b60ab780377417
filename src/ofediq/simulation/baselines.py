"""References, called like a block of a federated run: one learner with all samples, or with some; everyone alone."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ofediq.arrays import column
from ofediq.randomness import Address
from ofediq.simulation.blocks import Block, Records
from ofediq.simulation.window import Feed, Setting, Slot, in_chunks


class Learnt(NamedTuple):
    """A model and its rule's state; with a leading client axis where everyone is alone."""

    params: jax.Array
    server: Any


def first_learnt(setting: Setting, params: jax.Array) -> Learnt:
    """Before the first window."""
    rule = setting.method.server
    params = jnp.asarray(rule.start(params))
    if setting.method.topology == "separate":
        each = jnp.tile(params, (setting.clients, 1))
        return Learnt(each, jax.tree.map(jnp.array, jax.vmap(rule.init)(each)))
    return jax.tree.map(jnp.array, Learnt(params, rule.init(params)))  # type: ignore[no-any-return]  # JAX has no types


@partial(jax.jit, static_argnames="setting", donate_argnames="carry")
def central(setting: Setting, carry: Learnt, feed: Feed, block: Block) -> tuple[Learnt, Records]:
    """One learner sees the samples of all clients, one after another, and learns from each."""
    method, model, pool = setting.method, setting.model, feed.pool

    def sample(carry: Learnt, row: jax.Array) -> tuple[Learnt, tuple[jax.Array, jax.Array]]:
        x, y = pool.take(row[None])
        present = row >= 0
        losses, errors, gradient = model.batch_gradient(carry.params, x, y, jnp.ones(1, jnp.float32))
        moved = Learnt(*method.server.apply(carry.params, gradient, 1, carry.server))
        carry = jax.tree.map(lambda new, old: jnp.where(present, new, old), moved, carry)
        return carry, (jnp.where(present, losses[0], 0), jnp.where(present, errors[0], 0))

    def window(carry: Learnt, slot: Slot) -> tuple[Learnt, Records]:
        carry, (losses, errors) = jax.lax.scan(sample, carry, slot.order.reshape(-1))
        senders = (slot.order >= 0).sum()
        bits = senders.astype(jnp.float32) * (
            32.0 * (1 + pool.x[0].size)
        )  # a sample: its features and its label
        return carry, Records(losses.sum()[None], errors.sum()[None], senders, bits, jnp.zeros(()))

    return jax.lax.scan(window, carry, block)


@partial(jax.jit, static_argnames="setting", donate_argnames="carry")
def samples(setting: Setting, carry: Learnt, feed: Feed, block: Block) -> tuple[Learnt, Records]:
    """Clients predict with the last broadcast; some send samples, and the server learns from one after another."""
    method, model, pool = setting.method, setting.model, feed.pool

    def learn(carry: Learnt, sample: tuple[jax.Array, ...]) -> tuple[Learnt, None]:
        x, y, came = sample

        def moved(carry: Learnt) -> Learnt:
            gradient = model.batch_gradient(carry.params, x[None], y[None], jnp.ones(1, jnp.float32))[2]
            return Learnt(*method.server.apply(carry.params, gradient, 1, carry.server))

        return jax.lax.cond(came, moved, lambda carry: carry, carry), None

    def window(carry: Learnt, slot: Slot) -> tuple[Learnt, Records]:
        rows, address = slot.order[0], Address(feed.seed, slot.step, feed.ids)
        x, y = pool.take(rows)
        present = rows >= 0
        losses, errors = model.evaluate(carry.params, x, y)
        sends = method.participation.draw(address, setting.clients)[0] & present & slot.transmit
        sent, bits = method.compress.apply(x.reshape(len(rows), -1), address)
        carry, _ = jax.lax.scan(learn, carry, (sent.reshape(x.shape), y, sends))
        weights, came = present.astype(jnp.float32), sends.astype(jnp.float32)
        return carry, Records(
            (weights @ losses)[None],
            (weights @ errors)[None],
            sends.sum(),
            came @ (bits + 32),  # and the label
            jnp.float32(32 * model.dim),
        )

    return jax.lax.scan(window, carry, block)


@partial(jax.jit, static_argnames="setting", donate_argnames="carry")
def separate(setting: Setting, carry: Learnt, feed: Feed, block: Block) -> tuple[Learnt, Records]:
    """Each client learns alone: the carry has one model and one state per client."""
    method, model, pool = setting.method, setting.model, feed.pool

    def some(arguments: tuple[Learnt, jax.Array]) -> tuple[Learnt, jax.Array, jax.Array]:
        here, rows = arguments
        x, y = pool.take(rows)
        present = rows >= 0
        losses, errors = model.evaluate(here.params, x, y)
        gradients = model.client_gradients(here.params, x, y)
        moved = jax.vmap(lambda w, g, s: method.server.apply(w, g, 1, s))(here.params, gradients, here.server)
        keep = jax.tree.map(lambda new, old: jnp.where(column(present, new), new, old), Learnt(*moved), here)
        weights = present.astype(jnp.float32)
        return keep, weights @ losses, weights @ errors

    def window(carry: Learnt, slot: Slot) -> tuple[Learnt, Records]:
        rows = in_chunks(slot.order, model.chunk)[0]
        count, size = rows.shape
        padding = count * size - setting.clients

        def fold(leaf: jax.Array) -> jax.Array:
            widths = ((0, padding),) + ((0, 0),) * (leaf.ndim - 1)
            return jnp.pad(leaf, widths).reshape(count, size, *leaf.shape[1:])

        kept, losses, errors = jax.lax.map(some, (jax.tree.map(fold, carry), rows))
        carry = jax.tree.map(
            lambda leaf: leaf.reshape(count * size, *leaf.shape[2:])[: setting.clients], kept
        )
        nothing = jnp.zeros(())
        return carry, Records(
            losses.sum()[None], errors.sum()[None], jnp.zeros((), jnp.int32), nothing, nothing
        )

    return jax.lax.scan(window, carry, block)


REFERENCES = {"central": central, "separate": separate, "samples": samples}
"""What runs a method without a federation, by its topology."""
