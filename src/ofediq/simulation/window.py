"""One window of all clients, in JAX: what they predict, and what their messages add up to.

Memory stays bounded by chunks of clients. Where a method allows it only senders take gradients: what the others
learn inside a window is discarded at its end, so leaving it out is exact. The number of senders is random: they are
gathered first, and a loop with a dynamic trip count treats chunk after chunk. Compiled kernels replace
`window_sums`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from ofediq.methods import Method
from ofediq.methods import round as rounds
from ofediq.methods.client import Down, Outcome, Window
from ofediq.methods.server.rule import Totals
from ofediq.models import Model
from ofediq.randomness import Address


class SamplePool(NamedTuple):
    """All samples of a dataset; streams hold indices into it."""

    x: jax.Array
    y: jax.Array

    def take(self, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The samples at `rows`; a negative row (absent) gives the first sample, to be masked."""
        rows = jnp.maximum(rows, 0)
        return self.x[rows], self.y[rows]


@dataclass(frozen=True)
class Setting:
    """What stays the same for a whole run; compiled code is made for one setting."""

    method: Method
    model: Model
    clients: int
    mesh: Mesh | None


class Feed(NamedTuple):
    """What a run reads."""

    pool: SamplePool
    ids: jax.Array  # [n], the numbers of these clients
    seed: Any


class Slot(NamedTuple):
    """One window of a stream."""

    order: jax.Array  # [L, n], which sample each client sees at each step; negative is none
    step: jax.Array  # its last step, counted from 1
    transmit: jax.Array  # whether it ends with a transmission (the last one may be cut short)


class Apart(NamedTuple):
    """The messages of one window, each for itself."""

    messages: Mapping[str, jax.Array]  # [n, ...] by name
    sent: jax.Array  # [n], which of them came
    bits: jax.Array  # [n]
    lost: Any = ()  # memories of those whose message will not count, [n, ...], where they are told so


class Sums(NamedTuple):
    """Sums over the clients of one window."""

    loss: jax.Array  # [L]
    error: jax.Array  # [L]
    vectors: Mapping[str, jax.Array]  # what the senders' messages combine to, by name
    senders: jax.Array
    bits: jax.Array  # of their payloads
    apart: Apart | None = None  # where the server weighs them by what it knows of their senders

    def totals(self, clients: int, step: Any) -> Totals:
        """What the server gets of it."""
        return Totals(self.vectors, self.senders, self.bits, clients, step)


def window_sums(setting: Setting, down: Down, memory: Any, feed: Feed, slot: Slot) -> tuple[Sums, Any]:
    """Losses, errors, the sums of what is sent, and what the clients remember afterwards."""
    method = setting.method
    if method.sums_gradients:
        return _sum_everything(setting, down, feed, slot), memory
    rule, client = method.participation, method.client
    address = Address(feed.seed, slot.step, feed.ids)
    present = (slot.order >= 0).any(0)
    loss, error, drawn = None, None, None
    if rule.foreseeable:
        drawn = rule.draw(address, setting.clients)
    elif client.idle and not client.personal:  # updates twice, so that those who do not send need not be kept
        loss, error, offers = _offers(setting, down, memory, feed, slot)
        signal = None if rule.signal is None else down.scalars[rule.signal]
        drawn = rule.draw(address, setting.clients, offers, signal)
    if loss is None and not client.personal:
        loss, error = _evaluate(setting, down.model, feed.pool, slot.order)
    runs = present & slot.transmit
    if client.personal:  # everyone predicts with something of its own, also when nothing is sent
        runs = present
    elif client.idle and drawn is not None:
        runs = runs & drawn[0]
    sums, memory = _run(setting, down, memory, feed, slot, address, runs, drawn)
    if loss is not None and error is not None:
        sums = sums._replace(loss=loss, error=error)
    return sums, memory


def _sum_everything(setting: Setting, down: Down, feed: Feed, slot: Slot) -> Sums:
    """Everyone sends an uncompressed gradient at the common model: one pass gives predictions and sum."""
    model, pool, steps = setting.model, feed.pool, slot.order.shape[0]
    rows = in_chunks(slot.order, model.chunk)

    def one(total: jax.Array, chunk: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        present = (chunk >= 0).astype(jnp.float32)
        losses, errors, gradient = model.batch_gradient(down.model, *pool.take(chunk), present)
        return total + gradient, (present @ losses, present @ errors)

    zero = jnp.zeros_like(down.model)
    total, (loss, error) = jax.lax.scan(one, zero, rows.reshape(-1, rows.shape[-1]))
    senders = jnp.where(slot.transmit, (slot.order >= 0).any(0).sum(), 0)
    bits = senders.astype(jnp.float32) * rounds.formula_bits(setting.method, model.dim)
    loss, error = loss.reshape(steps, -1).sum(1), error.reshape(steps, -1).sum(1)
    return Sums(loss, error, {"update": total}, senders, bits)


def _evaluate(
    setting: Setting, params: jax.Array, pool: SamplePool, order: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sums of losses and errors at each step of the window, [L] each, all with the common model."""
    model = setting.model
    rows = in_chunks(order, model.evaluate_chunk or model.chunk)

    def one(nothing: tuple[()], chunk: jax.Array) -> tuple[tuple[()], tuple[jax.Array, jax.Array]]:
        present = (chunk >= 0).astype(jnp.float32)
        losses, errors = model.evaluate(params, *pool.take(chunk))
        return nothing, (present @ losses, present @ errors)

    _, (loss, error) = _through(setting.method, one, (), rows.reshape(-1, rows.shape[-1]))
    return loss.reshape(rows.shape[:2]).sum(1), error.reshape(rows.shape[:2]).sum(1)


def _offers(
    setting: Setting, down: Down, memory: Any, feed: Feed, slot: Slot
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sums of losses and errors at each step, [L], and what each client has to offer, [n]; no update is kept."""
    method, model, clients = setting.method, setting.model, slot.order.shape[1]
    rows = in_chunks(slot.order, model.chunk).swapaxes(0, 1)  # [chunks, L, size]
    numbers = in_chunks(jnp.arange(clients)[None], model.chunk)[0]

    def one(chunk: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        order, who = chunk
        if method.windows is None:
            present = (order >= 0).astype(jnp.float32)
            flat = model.evaluate(down.model, *feed.pool.take(order.reshape(-1)))
            loss, error = ((present * part.reshape(order.shape)).sum(1) for part in flat)
        else:
            loss, error = _evaluate(setting, down.model, feed.pool, order)
        remembered = _take(memory, who)
        known = down._replace(address=Address(feed.seed, slot.step, feed.ids[who]))
        window = _walk(setting, known, remembered, feed.pool, order)[0]
        wanted = method.client.finish(window, known, remembered)
        offers = method.client.offer(wanted, window, known, remembered)
        return loss, error, offers

    loss, error, offers = jax.lax.map(one, (rows, numbers))
    return loss.sum(0), error.sum(0), offers.reshape(-1)[:clients]


def _run(
    setting: Setting,
    down: Down,
    memory: Any,
    feed: Feed,
    slot: Slot,
    address: Address,
    runs: jax.Array,
    drawn: tuple[jax.Array, jax.Array] | None,
) -> tuple[Sums, Any]:
    """The clients in `runs`, chunk after chunk: their messages added up, their memories settled."""
    method, model, steps = setting.method, setting.model, slot.order.shape[0]
    size = _chunk_of(setting, slot.order.shape[1])
    sending = runs if drawn is None else drawn[0]
    # Who sends comes first, then who only learns, each in the order of their numbers.
    queue = jnp.argsort(jnp.where(runs, jnp.where(sending, 0, 1), 2), stable=True)
    queue = jnp.concatenate([queue, jnp.zeros(size, queue.dtype)])
    count = runs.sum()
    names = method.client.sends(model.dim)
    everyone = 0 if method.combine.adds else runs.shape[0]  # room for messages that are looked at one by one
    looked_at = names if method.combine.remembers else {"update": names["update"]}
    receipts = method.combine.remembers and method.client.receipts

    def one(index: jax.Array, carry: tuple[Sums, Any, Apart]) -> tuple[Sums, Any, Apart]:
        sums, memory, messages = carry
        who = jax.lax.dynamic_slice(queue, (index * size,), (size,))
        valid = index * size + jnp.arange(size) < count
        here = address._replace(client=address.client[who])
        known = down._replace(address=here)
        remembered = _take(memory, who)
        order = jnp.where(valid[None], slot.order[:, who], -1)
        window, loss, error = _walk(setting, known, remembered, feed.pool, order)
        those = None if drawn is None else (drawn[0][who], drawn[1][who])
        decision = rounds.decide(method, window, known, remembered, here, setting.clients, those)
        sends = decision.sends & slot.transmit
        decoded, bits = _received(method, dict(decision.wanted), known, here, sends)
        lost: Any = ()
        if jax.tree.leaves(memory):
            outcome = Outcome(decision.wanted, decoded, sends)
            if receipts:
                nothing = outcome._replace(accepted=jnp.zeros_like(sends))
                lost = rounds.settle(method, remembered, window, nothing, known)
            settled = rounds.settle(method, remembered, window, outcome, known)
            memory = _put(memory, who, valid & slot.transmit, settled)
        if everyone:
            parts = {name: decoded[name] for name in looked_at}
            mine = Apart(parts, sends, jnp.broadcast_to(bits, sends.shape), lost)
            messages = _put(messages, who, sends, mine)
        return _added(sums, loss, error, decoded, sends, bits), memory, messages

    room = _no_messages(looked_at, everyone)._replace(lost=memory if receipts else ())
    first = (_no_sums(names, steps), memory, room)
    sums, memory, messages = jax.lax.fori_loop(0, -(-count // size), one, first)
    if method.combine.remembers:
        return sums._replace(apart=messages), memory
    if everyone:
        total = method.combine.total(messages.messages["update"], messages.sent)
        sums = sums._replace(vectors={**sums.vectors, "update": total})
    return sums, memory


def _received(
    method: Method, wanted: dict[str, jax.Array], down: Down, address: Address, sends: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    """What the server decodes, and its bits, [n]; where all only learn there is nothing to compress."""
    found: tuple[dict[str, jax.Array], jax.Array] = jax.lax.cond(
        sends.any(),
        lambda wanted: rounds.transmit(method, wanted, down, address),
        lambda wanted: (wanted, jnp.zeros(sends.shape, jnp.float32)),
        wanted,
    )
    return found


def _added(
    sums: Sums,
    loss: jax.Array,
    error: jax.Array,
    decoded: Mapping[str, jax.Array],
    sends: jax.Array,
    bits: jax.Array,
) -> Sums:
    """The sums with those of some more clients."""
    weights = sends.astype(jnp.float32)
    vectors = {name: total + weights @ decoded[name] for name, total in sums.vectors.items()}
    senders, wire = sums.senders + sends.sum(), sums.bits + weights @ bits
    return Sums(sums.loss + loss, sums.error + error, vectors, senders, wire)


def _no_sums(names: Mapping[str, int], steps: int) -> Sums:
    nothing, count = jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
    vectors = {name: jnp.zeros(length, jnp.float32) for name, length in names.items()}
    return Sums(jnp.zeros(steps), jnp.zeros(steps), vectors, count, nothing)


def _no_messages(names: Mapping[str, int], clients: int) -> Apart:
    """Room for the messages of so many clients."""
    messages = {name: jnp.zeros((clients, length), jnp.float32) for name, length in names.items()}
    return Apart(messages, jnp.zeros(clients, bool), jnp.zeros(clients, jnp.float32))


def _walk(
    setting: Setting, down: Down, memory: Any, pool: SamplePool, order: jax.Array
) -> tuple[Window, jax.Array, jax.Array]:
    """The window of some clients along their own paths; `order` is [L, n]. Losses and errors if personal, else 0."""
    method, model = setting.method, setting.model
    window = rounds.open_window(method, down, memory, order.shape[1])

    def one(window: Window, rows: jax.Array) -> tuple[Window, tuple[jax.Array, jax.Array]]:
        x, y = pool.take(rows)
        present = rows >= 0
        loss = error = jnp.zeros((), jnp.float32)
        each: tuple[jax.Array, ...] = ()
        if method.client.personal:
            losses, errors, each = rounds.predict(method, model, window, x, y, down, memory)
            loss, error = jnp.where(present, losses, 0).sum(), jnp.where(present, errors, 0).sum()

        def gradient(at: Any) -> Any:
            return model.client_gradients(at, x, y)

        return rounds.learn(method, window, gradient, present, down, memory, each), (loss, error)

    if order.shape[0] == 1:
        window, (loss, error) = one(window, order[0])
        return window, loss[None], error[None]
    window, (loss, error) = _through(method, one, window, order)
    return window, loss, error


def _through(method: Method, one: Callable[..., Any], first: Any, order: jax.Array) -> tuple[Any, Any]:
    """`jax.lax.scan` over the rows of `order`, each of which gives a loss and an error.

    Windows that grow share one program: rows after the last one with a sample are skipped.
    """
    if method.windows is None:
        return jax.lax.scan(one, first, order)

    def step(number: jax.Array, state: tuple[Any, jax.Array, jax.Array]) -> tuple[Any, jax.Array, jax.Array]:
        carry, losses, errors = state
        carry, (loss, error) = one(carry, order[number])
        return carry, losses.at[number].set(loss), errors.at[number].set(error)

    there, nothing = (order >= 0).any(1), jnp.zeros(order.shape[0], jnp.float32)
    length = jnp.where(there, jnp.arange(1, len(there) + 1), 0).max()
    carry, losses, errors = jax.lax.fori_loop(0, length, step, (first, nothing, nothing))
    return carry, (losses, errors)


def _take(memory: Any, who: jax.Array) -> Any:
    return jax.tree.map(lambda leaf: leaf[who], memory)


def _put(memory: Any, who: jax.Array, valid: jax.Array, settled: Any) -> Any:
    """`settled` in the places `who`; those that are not valid are dropped."""
    return jax.tree.map(
        lambda leaf, new: leaf.at[jnp.where(valid, who, leaf.shape[0])].set(new, mode="drop"), memory, settled
    )


def in_chunks(order: jax.Array, chunk: int) -> jax.Array:
    """[L, n] -> [L, chunks, size]: equal chunks of at most `chunk` clients, padded with absent ones."""
    steps, clients = order.shape
    count = -(-clients // chunk)
    size = -(-clients // count)
    padded = jnp.pad(order, ((0, 0), (0, count * size - clients)), constant_values=-1)
    return padded.reshape(steps, count, size)


def _chunk_of(setting: Setting, clients: int) -> int:
    """How many to treat at once: chunks that the expected number, plus a deviation, fills well."""
    method, largest = setting.method, setting.model.sender_chunk or setting.model.chunk
    share = 1.0
    if method.client.idle and not method.client.personal:
        rule = method.participation
        share = float(rule.rates(setting.clients).mean()) if rule.foreseeable else 0.2
    likely = min(share * clients + np.sqrt(share * clients), clients)
    count = max(1, -(-int(np.ceil(likely)) // largest))
    return max(1, int(np.ceil(likely / count)))
