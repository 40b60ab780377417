"""Random stacks of layers, and what they compute by JAX's own operations and derivatives."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from ofediq.models import Conv, Dense, Identity, Network, Pool, Relu, Tanh, network

ACTIVATIONS: dict[str, Any] = {"relu": jax.nn.relu, "tanh": jnp.tanh, "identity": lambda x: x}


@st.composite
def stacks(draw: Any) -> Network:
    """A network that fits its images, with up to two convolutions and two dense layers."""
    sides = draw(st.tuples(st.integers(6, 15), st.integers(6, 15)))
    channels = draw(st.sampled_from([None, 1, 2, 3, 16]))
    layers: list[Any] = [Pool()] if draw(st.booleans()) and min(sides) >= 12 else []
    least = min(sides) // 2 if layers else min(sides)
    for _ in range(draw(st.integers(0, 2))):
        size, same = draw(st.sampled_from([3, 5])), draw(st.booleans())
        if least < size:
            break
        layers.append(Conv(draw(st.sampled_from([1, 3, 16, 20, 32])), size, same, draw(st.booleans())))
        layers += draw(st.sampled_from([[], [Relu()], [Tanh()], [Identity()]]))
        least -= 0 if same else size - 1
        for _ in range(draw(st.integers(0, 2))):
            if least >= 2:
                layers.append(Pool())
                least //= 2
    for _ in range(draw(st.integers(0, 2))):
        layers += [Dense(draw(st.sampled_from([1, 5, 16, 40])), draw(st.booleans()))]
        layers += draw(st.sampled_from([[], [Tanh()], [Identity()]]))
    task = draw(st.sampled_from(["classification", "regression"]))
    shape = sides if channels is None else (*sides, channels)
    l2 = draw(st.sampled_from([0.0, 0.1]))
    return network([*layers, Dense()], shape=shape, task=task, classes=4, l2=l2)


def outputs(model: Network, params: jax.Array, x: jax.Array) -> jax.Array:
    """Of one sample: XLA's own convolution, bias and activation, then the maximum."""
    hidden, start = x.reshape(*model.shape[:2], -1) if len(model.shape) > 1 else x, 0

    def take(*shape: int) -> jax.Array:
        nonlocal start
        size = int(jnp.prod(jnp.array(shape)))
        start += size
        return params[start - size : start].reshape(shape)

    for layer in model.layers:
        if isinstance(layer, Conv):
            filters = take(layer.size, layer.size, hidden.shape[-1], layer.filters)
            padding, order = "SAME" if layer.same else "VALID", ("NHWC", "HWIO", "NHWC")
            maps = jax.lax.conv_general_dilated(
                hidden[None], filters, (1, 1), padding, dimension_numbers=order
            )
            hidden = maps[0] + (take(layer.filters) if layer.bias else 0)
        elif isinstance(layer, Dense):
            assert layer.units is not None
            weights = take(hidden.size, layer.units)
            hidden = hidden.reshape(-1) @ weights + (take(layer.units) if layer.bias else 0)
        elif isinstance(layer, Pool):
            hidden = jax.lax.reduce_window(hidden, -jnp.inf, jax.lax.max, (2, 2, 1), (2, 2, 1), "VALID")
        else:
            hidden = ACTIVATIONS[layer.word](hidden)
    assert start == len(params)
    return hidden


def loss(model: Network, params: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Of one sample."""
    out = outputs(model, params, x)
    fit = (out[0] - y) ** 2 if model.task == "regression" else -jax.nn.log_softmax(out)[y]
    return fit + model.l2 / 2 * params @ params
