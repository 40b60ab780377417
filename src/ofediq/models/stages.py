"""Forward and backward pass of each kind of layer, for NumPy and JAX, with common or per-sample parameters.

A stage is a convolution or a dense layer with its activation, and for convolutions the pooling that follows: the
maximum is taken first, because it commutes with bias and activation. Convolutions are matrix products of patches,
forward and backward: on a CPU this is several times faster than the compiler's own gradient of a convolution, above
all for one gradient per client.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.errors import InputError
from ofediq.models.layers import Conv, Dense, Identity, Layer, Pool, Relu, Tanh

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Stage:
    """One step of a network, with all of its sizes.

    Attributes:
        kind: "pool" stands alone where it follows no convolution.
        inputs: [height, width, channels], or [numbers].
        outputs: the same of the result.
        activation: of the result.
        size: side of the filters.
        margin: rows and columns of zeros put around the image.
        pooled: whether 2 x 2 pooling follows the convolution.
        bias: whether there is one.
    """

    kind: Literal["conv", "dense", "pool"]
    inputs: Shape
    outputs: Shape
    activation: Literal["relu", "tanh", "identity"] = "identity"
    size: int = 0
    margin: int = 0
    pooled: bool = False
    bias: bool = False

    @property
    def matrix(self) -> tuple[int, int]:
        """Inputs and outputs of the matrix of weights; (0, 0) where there is none."""
        if self.kind == "conv":
            return self.size * self.size * self.inputs[-1], self.outputs[-1]
        return (math.prod(self.inputs), self.outputs[0]) if self.kind == "dense" else (0, 0)

    @property
    def spread(self) -> tuple[int, int]:
        """Glorot's fans: how many numbers a unit sees, and how many see it."""
        fan_in, fan_out = self.matrix
        return fan_in, fan_out * (self.size * self.size if self.kind == "conv" else 1)

    @property
    def positions(self) -> tuple[int, int]:
        """Rows and columns that a convolution computes: what the pooling drops is left out."""
        rows, columns = (side + 2 * self.margin - self.size + 1 for side in self.inputs[:2])
        return (rows // 2 * 2, columns // 2 * 2) if self.pooled else (rows, columns)


def stages_of(layers: Iterable[Layer], shape: Shape) -> tuple[Stage, ...]:
    """The stages of `layers` (as `arranged`) for samples of this `shape`: images, or any other for dense layers.

    >>> from ofediq.models.layers import arranged, parse
    >>> [stage.outputs for stage in stages_of(arranged(parse("conv 8, pool, dense 3")), (28, 28))]
    [(13, 13, 8), (3,)]
    """
    now: Shape = (*shape, 1) if len(shape) == 2 else shape
    found: list[Stage] = []
    for layer in layers:
        if isinstance(layer, Conv):
            found.append(_conv(layer, now))
        elif isinstance(layer, Dense):
            assert layer.units is not None
            found.append(Stage("dense", now, (layer.units,), bias=layer.bias))
        elif isinstance(layer, Pool):
            last = found[-1] if found else None
            if last is not None and last.kind == "conv" and not last.pooled:
                pooled = _halved(last.outputs)
                found[-1] = Stage(
                    "conv", last.inputs, pooled, last.activation, last.size, last.margin, True, last.bias
                )
            else:
                found.append(Stage("pool", now, _halved(now)))
        elif isinstance(layer, (Relu, Tanh, Identity)):
            found[-1] = Stage(**{**vars(found[-1]), "activation": layer.word})
        now = found[-1].outputs
    return tuple(found)


def _conv(layer: Conv, image: Shape) -> Stage:
    margin = layer.size // 2 if layer.same else 0
    _require_image(image, layer.size - 2 * margin, str(layer))
    rows, columns = (side + 2 * margin - layer.size + 1 for side in image[:2])
    outputs = (rows, columns, layer.filters)
    return Stage("conv", image, outputs, size=layer.size, margin=margin, bias=layer.bias)


def _halved(image: Shape) -> Shape:
    _require_image(image, 2, "pool")
    return image[0] // 2, image[1] // 2, image[2]


def _require_image(shape: Shape, least: int, layer: str) -> None:
    if len(shape) != 3:
        raise InputError(
            f"`layers` must have {layer!r} on images [height, width, channels], got {list(shape)}"
        )
    if min(shape[:2]) < least:
        sides = f"{shape[0]} x {shape[1]}"
        raise InputError(f"`layers` must have {layer!r} on at least {least} x {least} values, got {sides}")


def forward(stage: Stage, weights: Array, bias: Array, xs: Array) -> tuple[Array, Any]:
    """Results [n, ...] of `xs` [n, ...], and what the backward pass needs.

    `weights` is [inputs, outputs] in common or [n, inputs, outputs], one for each sample; `bias` the same.
    """
    if stage.kind == "dense":
        flat = xs.reshape(xs.shape[0], -1)
        result = _activated(stage, _dense(flat, weights) + bias)
        return result, (flat, result)
    if stage.kind == "pool":
        result, corners = _pooled(xs)
        return result, (corners, result)
    patches = _patches(stage, xs)
    if weights.ndim == 2:  # one large product
        maps = patches.reshape(-1, patches.shape[-1]) @ weights
    else:
        maps = patches @ weights
    maps, corners = maps.reshape(len(xs), *stage.positions, -1), None
    if stage.pooled:
        maps, corners = _pooled(maps)
    shift = bias[:, None, None, :] if getattr(bias, "ndim", 0) == 2 else bias
    result = _activated(stage, maps + shift)
    return result, (patches, result, corners)


def backward(
    stage: Stage, weights: Array, cache: Any, deltas: Array, each: bool, further: bool
) -> tuple[list[Array], Array | None]:
    """Gradients of weights and bias, flat (per sample if `each`, else summed), and d loss / d inputs if `further`."""
    result = cache[1]
    deltas = _through(stage, deltas.reshape(result.shape), result)
    if stage.kind == "pool":
        return [], _unpool(deltas, cache[0], stage.inputs) if further else None
    if stage.kind == "dense":
        pieces = _dense_gradient(cache[0], deltas, each)
        back = _dense(deltas, weights.swapaxes(-1, -2)) if further else None
        return pieces if stage.bias else pieces[:1], back
    patches, _, corners = cache
    if corners is not None:
        deltas = _unpool(deltas, corners, (*stage.positions, deltas.shape[-1]))
    deltas = deltas.reshape(len(deltas), -1, deltas.shape[-1])
    pieces = _filter_gradient(patches, deltas, each)
    back = _convolve_back(stage, deltas, weights) if further else None
    return pieces if stage.bias else pieces[:1], back


def _activated(stage: Stage, values: Array) -> Array:
    if stage.activation == "relu":
        return namespace(values).maximum(values, 0)
    return namespace(values).tanh(values) if stage.activation == "tanh" else values


def _through(stage: Stage, deltas: Array, result: Array) -> Array:
    """d loss / d values before the activation; a unit that was not above zero passes nothing through ReLU."""
    if stage.activation == "relu":
        return namespace(deltas).where(result > 0, deltas, np.float32(0))
    return deltas * (1 - result * result) if stage.activation == "tanh" else deltas


def _dense(xs: Array, weights: Array) -> Array:
    return xs @ weights if weights.ndim == 2 else (xs[:, None, :] @ weights)[:, 0, :]


def _dense_gradient(xs: Array, deltas: Array, each: bool) -> list[Array]:
    if each:
        return [(xs[:, :, None] * deltas[:, None, :]).reshape(xs.shape[0], -1), deltas]
    return [(xs.T @ deltas).reshape(-1), deltas.sum(0)]


def _patches(stage: Stage, images: Array) -> Array:
    """The patch under each position of the filters, [n, positions, size x size x channels]."""
    xp, (rows, columns), margin = namespace(images), stage.positions, (stage.margin, stage.margin)
    if stage.margin:
        images = xp.pad(images, ((0, 0), margin, margin, (0, 0)))
    places = range(stage.size)
    shifts = [images[:, i : i + rows, j : j + columns] for i in places for j in places]
    return xp.concatenate(shifts, axis=-1).reshape(len(images), rows * columns, -1)


def _pooled(maps: Array) -> tuple[Array, Any]:
    """The largest of each 2 x 2 values, and for the way back also the four."""
    xp = namespace(maps)
    n, height, width, channels = maps.shape
    rows, columns = height // 2, width // 2
    quads = maps[:, : 2 * rows, : 2 * columns].reshape(n, rows, 2, columns, 2, channels)
    corners = (quads[:, :, 0, :, 0], quads[:, :, 0, :, 1], quads[:, :, 1, :, 0], quads[:, :, 1, :, 1])
    largest = xp.maximum(xp.maximum(corners[0], corners[1]), xp.maximum(corners[2], corners[3]))
    return largest, (largest, corners)


def _unpool(back: Array, cache: Any, image: Shape) -> Array:
    """d loss / d maps, [n, height, width, channels]: each goes to the first corner that attained the maximum."""
    largest, corners = cache
    xp = namespace(back)
    n, rows, columns, channels = back.shape
    pieces, taken = [], xp.zeros_like(back, dtype=bool)
    for corner in corners:
        wins = (corner == largest) & ~taken
        taken = taken | wins
        pieces.append(xp.where(wins, back, np.float32(0)))
    upper = xp.stack(pieces[:2], axis=3).reshape(n, rows, 2 * columns, channels)
    lower = xp.stack(pieces[2:], axis=3).reshape(n, rows, 2 * columns, channels)
    whole = xp.stack([upper, lower], axis=2).reshape(n, 2 * rows, 2 * columns, channels)
    dropped = ((0, 0), (0, image[0] - 2 * rows), (0, image[1] - 2 * columns), (0, 0))
    return xp.pad(whole, dropped) if image[:2] != (2 * rows, 2 * columns) else whole


def _convolve_back(stage: Stage, deltas: Array, weights: Array) -> Array:
    """d loss / d images of a convolution: the patches' derivatives, added where they overlap."""
    xp, (rows, columns), size, margin = namespace(deltas), stage.positions, stage.size, stage.margin
    height, width, channels = stage.inputs
    if weights.ndim == 2:
        patches = deltas.reshape(-1, deltas.shape[-1]) @ weights.T
    else:
        patches = deltas @ weights.swapaxes(-1, -2)
    patches = patches.reshape(len(deltas), rows, columns, size * size, channels)
    total = None
    for place in range(size * size):
        i, j = divmod(place, size)
        down, right = (i, height + 2 * margin - rows - i), (j, width + 2 * margin - columns - j)
        piece = xp.pad(patches[:, :, :, place], ((0, 0), down, right, (0, 0)))
        total = piece if total is None else total + piece
    assert total is not None
    return total[:, margin : margin + height, margin : margin + width]


def _filter_gradient(patches: Array, deltas: Array, each: bool) -> list[Array]:
    if each:
        return [(patches.swapaxes(1, 2) @ deltas).reshape(patches.shape[0], -1), deltas.sum(1)]
    inner = patches.reshape(-1, patches.shape[-1])
    return [(inner.T @ deltas.reshape(-1, deltas.shape[-1])).reshape(-1), deltas.sum((0, 1))]
