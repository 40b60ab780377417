"""Random stacks of layers, and what they compute by JAX's own operations and derivatives."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from ofediq.models import Conv, Dense, Network, Pool, network
from ofediq.models.activations import ACTIVATIONS, Leaky
from ofediq.models.layers import Mean, Norm

FUNCTIONS: dict[str, Any] = {
    "identity": lambda x: x,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "leaky": lambda x: jax.nn.leaky_relu(x, 0.2),
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu-tanh": jax.nn.gelu,
    "elu": jax.nn.elu,
    "softplus": jax.nn.softplus,
}
"""By JAX, of each activation's word."""

_activations = st.sampled_from(
    [[], *([Leaky(0.2, 1.0)] if kind is Leaky else [kind()] for kind in ACTIVATIONS)]
)


@st.composite
def _behind(draw: Any, least: int) -> tuple[list[Any], int]:
    """What follows a convolution whose result has so many rows: activations, pools, means and norms, in any order."""
    layers: list[Any] = [Norm()] if draw(st.booleans()) and draw(st.booleans()) else []
    early = draw(st.booleans())
    activation = draw(_activations)
    layers += [] if early else activation
    for _ in range(draw(st.integers(0, 2))):
        kind, size = draw(st.sampled_from([Pool, Pool, Mean])), draw(st.sampled_from([2, 2, 3]))
        if least >= size:
            layers.append(kind(size))
            least //= size
    return layers + (activation if early else []), least


@st.composite
def stacks(draw: Any) -> Network:
    """A network that fits its images, with up to two convolutions and two dense layers."""
    sides = draw(st.tuples(st.integers(6, 15), st.integers(6, 15)))
    channels = draw(st.sampled_from([None, 1, 2, 3, 16]))
    layers: list[Any] = [Pool()] if draw(st.booleans()) and min(sides) >= 12 else []
    least = min(sides) // 2 if layers else min(sides)
    for _ in range(draw(st.integers(0, 2))):
        size, stride = draw(st.sampled_from([1, 2, 3, 3, 5, 7])), draw(st.sampled_from([1, 1, 2]))
        same = size % 2 == 1 and draw(st.booleans())
        margin = (0, 0) if same else draw(st.sampled_from([(0, 0), (0, 1), (2, 1)]))
        filters = draw(st.sampled_from([1, 3, 16, 20, 32]))
        conv = Conv(filters, size, same, draw(st.booleans()), stride, margin)
        room = least + sum(conv.margins) - size
        if room < 0:
            break
        more, least = draw(_behind(room // stride + 1))
        layers += [conv, *more]
    if least < min(sides) and any(isinstance(one, Conv) for one in layers) and draw(st.booleans()):
        layers += [] if isinstance(layers[-1], Pool) else [Mean()]
    for _ in range(draw(st.integers(0, 2))):
        layers += [Dense(draw(st.sampled_from([1, 5, 16, 40])), draw(st.booleans()))]
        layers += [Norm(1e-5, draw(st.booleans()))] if draw(st.booleans()) and draw(st.booleans()) else []
        layers += draw(_activations)
    task = draw(st.sampled_from(["classification", "regression"]))
    shape = sides if channels is None else (*sides, channels)
    l2 = draw(st.sampled_from([0.0, 0.1]))
    return network([*layers, Dense()], shape=shape, task=task, classes=4, l2=l2)


def outputs(model: Network, params: jax.Array, x: jax.Array) -> jax.Array:
    """Of one sample: XLA's own convolution, bias and activation, then the maximum."""
    hidden, start = x.reshape(*model.shape[:2], -1) if len(model.shape) > 1 else x, 0

    def take(*shape: int) -> jax.Array:
        nonlocal start
        size = math.prod(shape)
        start += size
        return params[start - size : start].reshape(shape)

    for layer in model.layers:
        if isinstance(layer, Conv):
            filters = take(layer.size, layer.size, hidden.shape[-1], layer.filters)
            padding, order = [layer.margins] * 2, ("NHWC", "HWIO", "NHWC")
            maps = jax.lax.conv_general_dilated(
                hidden[None], filters, [layer.stride] * 2, padding, dimension_numbers=order
            )
            hidden = maps[0] + (take(layer.filters) if layer.bias else 0)
        elif isinstance(layer, Dense):
            assert layer.units is not None
            weights = take(hidden.size, layer.units)
            hidden = hidden.reshape(-1) @ weights + (take(layer.units) if layer.bias else 0)
        elif isinstance(layer, Pool):
            window = (layer.size, layer.size, 1)
            hidden = jax.lax.reduce_window(hidden, -jnp.inf, jax.lax.max, window, window, "VALID")
        elif isinstance(layer, Mean):
            rows, columns = hidden.shape[:2] if layer.size is None else (layer.size, layer.size)
            window = (rows, columns, 1)
            sums = jax.lax.reduce_window(hidden, 0.0, jax.lax.add, window, window, "VALID")
            hidden = sums / (window[0] * window[1])
        elif isinstance(layer, Norm):
            scale = take(hidden.shape[-1])
            centred = hidden - hidden.mean(-1, keepdims=True)
            spread = jnp.sqrt((centred**2).mean(-1, keepdims=True) + layer.epsilon)
            hidden = centred / spread * scale + (take(hidden.shape[-1]) if layer.bias else 0)
        else:
            hidden = FUNCTIONS[layer.word](hidden)
    assert start == len(params)
    return hidden


def loss(model: Network, params: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Of one sample."""
    out = outputs(model, params, x)
    fit = (out[0] - y) ** 2 if model.task == "regression" else -jax.nn.log_softmax(out)[y]
    return fit + model.l2 / 2 * params @ params
