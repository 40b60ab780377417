"""Recurrent layers and attention of torch in JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ofediq.arrays import Array
from ofediq.errors import extra
from ofediq.models.adapters.torch_operations import linear, require_known

State = tuple[Array, ...]
Cell = Callable[[Array, State, Array, Array], State]
"""From what an input adds, the state, and weights and bias of the state to the next state."""


def lstm_cell(given: Array, state: State, weight: Array, bias: Array | None) -> State:
    """Long short-term memory: output and cell."""
    jax = extra("jax", "sim")
    hidden, cell = state
    into, keep, new, out = jax.numpy.split(given + linear(hidden, weight, bias), 4, axis=-1)
    sigmoid = jax.nn.sigmoid
    cell = sigmoid(keep) * cell + sigmoid(into) * jax.numpy.tanh(new)
    return sigmoid(out) * jax.numpy.tanh(cell), cell


def gru_cell(given: Array, state: State, weight: Array, bias: Array | None) -> State:
    """Gated recurrent unit."""
    jax = extra("jax", "sim")
    (hidden,) = state
    reset, update, new = jax.numpy.split(given, 3, axis=-1)
    own_reset, own_update, own = jax.numpy.split(linear(hidden, weight, bias), 3, axis=-1)
    gate = jax.nn.sigmoid(update + own_update)
    candidate = jax.numpy.tanh(new + jax.nn.sigmoid(reset + own_reset) * own)
    return ((1 - gate) * candidate + gate * hidden,)


def plain_cell(curve: str, given: Array, state: State, weight: Array, bias: Array | None) -> State:
    """A function of the sum."""
    jax = extra("jax", "sim")
    (hidden,) = state
    total = given + linear(hidden, weight, bias)
    return (jax.numpy.tanh(total) if curve == "tanh" else jax.nn.relu(total),)


def recurrent(cell: Cell) -> Callable[..., tuple[Array, ...]]:
    """Layers of a cell over a sequence, in the form of torch's `lstm.input` and its like."""

    def run(
        x: Array,
        first: Any,
        params: Sequence[Array],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Array, ...]:
        jnp = extra("jax.numpy", "sim")
        states = tuple(first) if isinstance(first, (list, tuple)) else (first,)
        require_known(not train or dropout == 0, "dropout that stays on in evaluation mode")
        ways, each = 1 + bidirectional, 2 + 2 * has_biases
        require_known(len(params) == num_layers * ways * each, "a recurrent layer with a projection")
        x = x.swapaxes(0, 1) if batch_first else x
        ends: list[State] = []
        for layer in range(num_layers):
            found = []
            for way in range(ways):
                place = layer * ways + way
                own = params[place * each : (place + 1) * each]
                made, end = _over(cell, x, tuple(state[place] for state in states), own, backwards=way == 1)
                found.append(made)
                ends.append(end)
            x = found[0] if ways == 1 else jnp.concatenate(found, axis=-1)
        last = tuple(jnp.stack(parts) for parts in zip(*ends, strict=True))
        return (x.swapaxes(0, 1) if batch_first else x, *last)

    return run


def _over(
    cell: Cell, x: Array, state: State, params: Sequence[Array], backwards: bool
) -> tuple[Array, State]:
    """One layer in one direction: its outputs at every place, and its last state."""
    into, own, *biases = params
    given = linear(x, into, biases[0] if biases else None)  # of all places in one product

    def step(state: State, given: Array) -> tuple[State, Array]:
        state = cell(given, state, own, biases[1] if biases else None)
        return state, state[0]

    end, made = extra("jax.lax", "sim").scan(step, state, given, reverse=backwards)
    return made, end


def single(cell: Cell) -> Callable[..., Any]:
    """One step, in the form of torch's `lstm_cell` and its like."""

    def run(x: Array, first: Any, into: Array, own: Array, bias: Any = None, own_bias: Any = None) -> Any:
        state = tuple(first) if isinstance(first, (list, tuple)) else (first,)
        found = cell(linear(x, into, bias), state, own, own_bias)
        return found if len(found) > 1 else found[0]

    return run


def attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """Scaled products of queries and keys choose among values."""
    jax = extra("jax", "sim")
    require_known(dropout_p == 0 and not enable_gqa, "attention with dropout or shared heads")
    scores = query @ key.swapaxes(-1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = jax.numpy.tril(jax.numpy.ones(scores.shape[-2:], bool))
    if attn_mask is not None:
        masked = attn_mask.dtype == bool
        scores = jax.numpy.where(attn_mask, scores, -math.inf) if masked else scores + attn_mask
    return jax.nn.softmax(scores, axis=-1) @ value


CELLS: dict[str, Cell] = {
    "lstm": lstm_cell,
    "gru": gru_cell,
    "rnn_tanh": partial(plain_cell, "tanh"),
    "rnn_relu": partial(plain_cell, "relu"),
}
"""By torch's names."""
