"""The round, once: what clients do in a window, what the server does at its end, and the count of bits.

    open_window -> learn (once per step) -> decide -> transmit -> settle          clients, batched
    server_round                                                                 server

Pure functions of values, in NumPy and in JAX. The simulator calls them on chunks of clients inside compiled code, a
live client on a batch of one, a live server with what it decoded. `simulation.oracle` does not: it is the plain loop
that all of this is held against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from ofediq.arrays import Array, column, map_leaves, namespace
from ofediq.methods.client import Down, Outcome, Sample, Window
from ofediq.methods.composition import Method
from ofediq.methods.server.rule import Totals
from ofediq.randomness import Address


class Predictor(Protocol):
    """What a round asks of a model; `ofediq.models.Model` has it."""

    def evaluate(self, params: Array, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Losses and errors, [n] each."""

    def evaluate_mixture(
        self, experts: tuple[tuple[Array, Array], ...], xs: Array, ys: Array
    ) -> tuple[Array, Array]:
        """Losses and errors of the weighted mean of several models' outputs, [n] each."""


class RoundState(NamedTuple):
    """A federation between two windows, without its clients' memories."""

    params: Array  # w, the server's model
    server: Any  # the server rule's state
    down: Down  # what the last broadcast told the clients


class Decision(NamedTuple):
    """What the clients of a batch would send, and whether they do."""

    wanted: Mapping[str, Array]  # divided by the rates where the client rule says so
    sends: Array  # [n]


def first_state(method: Method, params: Array, clients: int) -> RoundState:
    """Before the first window of `clients` clients, who know the first model."""
    params = method.server.start(params)
    state = method.server.begin(params, clients, method.window(0))
    vectors, scalars = method.server.say(params, state)
    return RoundState(params, state, Down(params, vectors, scalars))


def regroup(method: Method, state: RoundState, clients: int) -> RoundState:
    """The federation before a round of `clients` clients, where their number changes between rounds."""
    server = method.server.regroup(state.params, clients, state.server)
    vectors, scalars = method.server.say(state.params, server)
    return state._replace(server=server, down=state.down._replace(vectors=vectors, scalars=scalars))


def first_memory(method: Method, params: Array, clients: int) -> Any:
    """What `clients` clients remember before their first window: leaves [clients, ...]."""
    xp = namespace(params)
    one = method.client.memory(params)
    return map_leaves(lambda leaf: xp.array(xp.broadcast_to(leaf, (clients, *xp.shape(leaf)))), one)


# Clients ----------------------------------------------------------------------------------------------------------


def open_window(method: Method, down: Down, memory: Any, clients: int) -> Window:
    """`clients` clients at the start of a window; leaves of `memory` are [clients, ...]."""
    xp = namespace(down.model)
    own = method.client.start(down, memory)
    if method.client.moves and method.long_windows and own.ndim == 1:
        own = xp.tile(own, (clients, 1))
    gradients = xp.zeros((clients, down.model.shape[-1]), np.float32)
    return Window(own, gradients, xp.zeros(clients, np.float32), method.client.notes(down, memory))


def predict(
    method: Method, model: Predictor, window: Window, x: Array, y: Array, down: Down, memory: Any
) -> tuple[Array, Array, tuple[Array, ...]]:
    """Losses and errors of the clients' predictions, [n] each, and the losses of their experts alone."""
    return judge(model, method.client.experts(window, down, memory), x, y)


def judge(
    model: Predictor, experts: tuple[tuple[Array, Array], ...], x: Array, y: Array
) -> tuple[Array, Array, tuple[Array, ...]]:
    """Losses and errors of what `experts` say together, [n] each, and the losses of each of them alone."""
    if len(experts) == 1:
        losses, errors = model.evaluate(experts[0][1], x, y)
        return losses, errors, (losses,)
    losses, errors = model.evaluate_mixture(experts, x, y)
    return losses, errors, tuple(model.evaluate(params, x, y)[0] for _, params in experts)


def learn(
    method: Method,
    window: Window,
    gradient: Callable[[Array], Array],
    present: Array,
    down: Down,
    memory: Any,
    losses: tuple[Array, ...] = (),
) -> Window:
    """One step: those with a sample (`present` [n]) learn from it, the others stay as they are."""
    xp = namespace(window.gradients)

    def masked(at: Array) -> Array:
        return xp.where(present[:, None], gradient(at), np.float32(0))

    after = method.client.learn(window, Sample(masked, losses), down, memory)

    def kept(new: Array, old: Array) -> Array:
        return xp.where(column(present, new), new, old)

    own = kept(after.own, window.own) if after.own.ndim == 2 else after.own
    gradients = kept(after.gradients, window.gradients)
    notes = map_leaves(kept, after.notes, window.notes)
    return Window(own, gradients, window.taken + present.astype(np.float32), notes)


def decide(
    method: Method,
    window: Window,
    down: Down,
    memory: Any,
    address: Address,
    clients: int,
    drawn: tuple[Array, Array] | None = None,
) -> Decision:
    """What each would send and whether it does: only with a sample, and if its draw says so.

    `clients` is K; `drawn` are senders and rates where they are known already.
    """
    wanted = method.client.finish(window, down, memory)
    if drawn is None:
        drawn = draw(method, wanted, window, down, memory, address, clients)
    sends, rates = drawn
    if method.client.divides and not method.participation.everyone:
        xp = namespace(rates)
        divisor = xp.where(rates > 0, rates, np.float32(1))[:, None]
        wanted = {name: vector / divisor for name, vector in wanted.items()}
    return Decision(wanted, sends & (window.taken > 0))


def draw(
    method: Method,
    wanted: Mapping[str, Array],
    window: Window,
    down: Down,
    memory: Any,
    address: Address,
    clients: int,
) -> tuple[Array, Array]:
    """Senders and rates, [n] each."""
    rule = method.participation
    if rule.foreseeable:
        return rule.draw(address, clients)
    signal = None if rule.signal is None else down.scalars[rule.signal]
    return rule.draw(address, clients, method.client.offer(wanted, window, down, memory), signal)


def transmit(
    method: Method, wanted: Mapping[str, Array], down: Down, address: Address
) -> tuple[dict[str, Array], Array]:
    """What the server decodes, [n, ...] by name, and the bits of each client's payloads, [n]."""
    decoded, bits = {}, np.float32(0)
    for name, vectors in wanted.items():
        piece = method.compressor(name)
        signal = None if piece.signal is None else down.scalars[piece.signal]
        decoded[name], each = piece.apply(vectors, address, signal)
        bits = bits + each
    return decoded, bits


def settle(method: Method, memory: Any, window: Window, outcome: Outcome, down: Down) -> Any:
    """What the clients remember after the window; one without a sample remembers what it did."""
    after = method.client.settle(memory, window, outcome, down)
    xp = namespace(window.taken)
    return map_leaves(lambda new, old: xp.where(column(window.taken > 0, new), new, old), after, memory)


# Server -----------------------------------------------------------------------------------------------------------


def server_round(method: Method, state: RoundState, totals: Totals, seed: Array) -> tuple[RoundState, Array]:
    """The federation after a round, and the bits of the broadcast that ends it."""
    before = method.broadcast.resume(state.params, state.down.model)
    known = totals._replace(seed=seed)
    params, server = method.server.close(before, known, method.window_to(totals.step), state.server)
    vectors, scalars = method.server.say(params, server)
    number = method.number_to(totals.step)
    copy, bits = method.broadcast.send(params, state.down.model, seed, totals.step, number)
    return RoundState(params, server, Down(copy, vectors, scalars)), bits + beside_bits(vectors, scalars)


def beside_bits(vectors: Mapping[str, Array], scalars: Mapping[str, Array]) -> np.float32:
    """Bits of what goes with a broadcast beside the model: 32 for each number."""
    return np.float32(32 * (sum(vector.shape[-1] for vector in vectors.values()) + len(scalars)))


def formula_bits(method: Method, dim: int) -> float:
    """Bits of what one client sends at a time by the paper's formula; NaN if it knows no such message."""
    return sum(method.compressor(name).formula_bits(size) for name, size in method.client.sends(dim).items())
