"""Forward and backward pass of each kind of stage, for NumPy and JAX, with common or per-sample parameters.

Convolutions are matrix products of patches, forward and backward: on a CPU this is several times faster than the
compiler's own gradient of a convolution, above all for one gradient per client.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.models.activations import Identity, Relu
from ofediq.models.stages import Shape, Stage


def forward(stage: Stage, weights: Array, bias: Array, xs: Array) -> tuple[Array, Any]:
    """Results [n, ...] of `xs` [n, ...], and what the backward pass needs.

    `weights` is [inputs, outputs] in common or [n, inputs, outputs], one for each sample; `bias` the same.
    """
    corners = None
    if stage.kind == "dense":
        kept = xs.reshape(xs.shape[0], -1)
        values = _dense(kept, weights) + bias
    elif stage.kind == "norm":
        kept = _normalized(stage, xs)
        values = kept[0] * _along(weights[..., 0, :], xs.ndim) + _along(bias, xs.ndim)
    elif stage.kind == "mean":
        kept, values = None, _windows(stage, xs).mean((2, 4))
    elif stage.kind == "pool":
        kept = None
        values, corners = _largest(stage, xs)
    else:
        kept = _patches(stage, xs)
        if weights.ndim == 2:  # one large product
            maps = kept.reshape(-1, kept.shape[-1]) @ weights
        else:
            maps = kept @ weights
        values = maps.reshape(len(xs), *stage.positions, -1)
        if stage.pooled:
            values, corners = _largest(stage, values)
        values = values + _along(bias, values.ndim)
    result = stage.activation.value(values)
    return result, (kept, _passes(stage, values, result), corners)


def backward(
    stage: Stage, weights: Array, cache: Any, deltas: Array, each: bool, further: bool
) -> tuple[list[Array], Array | None]:
    """Gradients of weights and bias, flat (per sample if `each`, else summed), and d loss / d inputs if `further`."""
    kept, passes, corners = cache
    deltas = _through(stage, deltas.reshape(-1, *stage.outputs), passes)
    if stage.kind == "pool":
        return [], _unpool(stage, deltas, corners, stage.inputs) if further else None
    if stage.kind == "mean":
        return [], _unmean(stage, deltas) if further else None
    if stage.kind == "dense":
        pieces = _dense_gradient(kept, deltas, each)
        back = _dense(deltas, weights.swapaxes(-1, -2)) if further else None
    elif stage.kind == "norm":
        pieces = _norm_gradient(kept[0], deltas, each)
        back = _norm_back(kept, deltas * _along(weights[..., 0, :], deltas.ndim))
    else:
        if corners is not None:
            deltas = _unpool(stage, deltas, corners, (*stage.positions, deltas.shape[-1]))
        deltas = deltas.reshape(len(deltas), -1, deltas.shape[-1])
        pieces = _filter_gradient(kept, deltas, each)
        back = _convolve_back(stage, deltas, weights) if further else None
    return pieces if stage.bias else pieces[:1], back


def _along(vector: Array, axes: int) -> Array:
    """A number per channel, or one for each sample and channel, to go with an array of so many `axes`."""
    if getattr(vector, "ndim", 0) != 2:
        return vector
    return vector.reshape(vector.shape[0], *(1 for _ in range(axes - 2)), -1)


def _passes(stage: Stage, values: Array, result: Array) -> Array | None:
    """How much of a derivative passes the activation; the result itself for ReLU, nothing for the identity."""
    if isinstance(stage.activation, (Identity, Relu)):
        return result if isinstance(stage.activation, Relu) else None
    return stage.activation.slope(values, result)


def _through(stage: Stage, deltas: Array, passes: Array | None) -> Array:
    """d loss / d values before the activation; a unit that was not above zero passes nothing through ReLU."""
    if passes is None:
        return deltas
    if isinstance(stage.activation, Relu):
        return namespace(deltas).where(passes > 0, deltas, np.float32(0))
    return deltas * passes


def _dense(xs: Array, weights: Array) -> Array:
    return xs @ weights if weights.ndim == 2 else (xs[:, None, :] @ weights)[:, 0, :]


def _dense_gradient(xs: Array, deltas: Array, each: bool) -> list[Array]:
    if each:
        return [(xs[:, :, None] * deltas[:, None, :]).reshape(xs.shape[0], -1), deltas]
    return [(xs.T @ deltas).reshape(-1), deltas.sum(0)]


def _normalized(stage: Stage, xs: Array) -> tuple[Array, Array]:
    """`xs` with mean 0 and variance 1 over the last axis, and 1 / their spread."""
    centred = xs - xs.mean(-1, keepdims=True)
    spread = 1 / namespace(xs).sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(stage.epsilon))
    return centred * spread, spread


def _norm_gradient(normalized: Array, deltas: Array, each: bool) -> list[Array]:
    axes = tuple(range(1 if each else 0, deltas.ndim - 1))
    return [(normalized * deltas).sum(axes), deltas.sum(axes)]


def _norm_back(kept: tuple[Array, Array], slopes: Array) -> Array:
    """d loss / d inputs of a norm from the derivatives by what was normalised."""
    normalized, spread = kept
    along = (slopes * normalized).mean(-1, keepdims=True)
    return spread * (slopes - slopes.mean(-1, keepdims=True) - normalized * along)


def _patches(stage: Stage, images: Array) -> Array:
    """The patch under each position of the filters, [n, positions, size x size x channels]."""
    xp, (rows, columns), step = namespace(images), stage.positions, stage.stride
    if any(stage.margins):
        images = xp.pad(images, ((0, 0), stage.margins, stage.margins, (0, 0)))
    down, right = (rows - 1) * step + 1, (columns - 1) * step + 1
    height, width = stage.size
    shifts = [
        images[:, i : i + down : step, j : j + right : step] for i in range(height) for j in range(width)
    ]
    return xp.concatenate(shifts, axis=-1).reshape(len(images), rows * columns, -1)


def _window(stage: Stage) -> tuple[int, int]:
    """Rows and columns that a pooling takes together."""
    return stage.size if stage.kind != "conv" else (2, 2)


def _windows(stage: Stage, maps: Array) -> Array:
    """`maps` cut into windows, [n, rows, window, columns, window, channels]."""
    n, height, width, channels = maps.shape
    down, right = _window(stage)
    rows, columns = height // down, width // right
    return maps[:, : down * rows, : right * columns].reshape(n, rows, down, columns, right, channels)


def _largest(stage: Stage, maps: Array) -> tuple[Array, Any]:
    """The largest of each window, and for the way back also all of it."""
    xp, windows = namespace(maps), _windows(stage, maps)
    down, right = _window(stage)
    places = [windows[:, :, i, :, j] for i in range(down) for j in range(right)]
    while len(places) > 1:  # in pairs
        rest = places[len(places) // 2 * 2 :]
        places = [xp.maximum(*pair) for pair in zip(places[::2], places[1::2], strict=False)] + rest
    return places[0], (places[0], windows)


def _unpool(stage: Stage, back: Array, cache: Any, image: Shape) -> Array:
    """d loss / d maps, [n, height, width, channels]: each goes to the first place that attained the maximum."""
    largest, windows = cache
    xp, (down, right) = namespace(back), _window(stage)
    pieces, taken = [], xp.zeros_like(back, dtype=bool)
    for i in range(down):
        for j in range(right):
            wins = (windows[:, :, i, :, j] == largest) & ~taken
            taken = taken | wins
            pieces.append(xp.where(wins, back, np.float32(0)))
    rows = [xp.stack(pieces[i * right : (i + 1) * right], axis=3) for i in range(down)]
    return _uncut(xp.stack(rows, axis=2), image)


def _unmean(stage: Stage, deltas: Array) -> Array:
    """d loss / d maps of a mean: the same for all of a window."""
    down, right = stage.size
    n, rows, columns, channels = deltas.shape
    each = deltas[:, :, None, :, None] / np.float32(down * right)
    return _uncut(
        namespace(deltas).broadcast_to(each, (n, rows, down, columns, right, channels)), stage.inputs
    )


def _uncut(windows: Array, image: Shape) -> Array:
    """The way back from [n, rows, window, columns, window, channels], with zeros where nothing was cut."""
    n, rows, down, columns, right, channels = windows.shape
    whole = windows.reshape(n, rows * down, columns * right, channels)
    dropped = (image[0] - rows * down, image[1] - columns * right)
    if not any(dropped):
        return whole
    return namespace(windows).pad(whole, ((0, 0), (0, dropped[0]), (0, dropped[1]), (0, 0)))


def _convolve_back(stage: Stage, deltas: Array, weights: Array) -> Array:
    """d loss / d images of a convolution: the patches' derivatives, added where they overlap."""
    xp, (rows, columns), step, (before, after) = (
        namespace(deltas),
        stage.positions,
        stage.stride,
        stage.margins,
    )
    height, width, channels = stage.inputs
    if weights.ndim == 2:
        patches = deltas.reshape(-1, deltas.shape[-1]) @ weights.T
    else:
        patches = deltas @ weights.swapaxes(-1, -2)
    patches = patches.reshape(len(deltas), rows, columns, -1, channels)
    down, right = (rows - 1) * step + 1, (columns - 1) * step + 1
    total = None
    for place in range(patches.shape[3]):
        i, j = divmod(place, stage.size[1])
        piece = _spread(patches[:, :, :, place], step)
        below, beside = height + before + after - down - i, width + before + after - right - j
        piece = xp.pad(piece, ((0, 0), (i, below), (j, beside), (0, 0)))
        total = piece if total is None else total + piece
    assert total is not None
    return total[:, before : before + height, before : before + width]


def _spread(maps: Array, step: int) -> Array:
    """`maps` with `step` - 1 rows and columns of zeros between its own."""
    if step == 1:
        return maps
    n, rows, columns, channels = maps.shape
    wide = namespace(maps).pad(maps[:, :, None, :, None], ((0, 0), *((0, 0), (0, step - 1)) * 2, (0, 0)))
    return wide.reshape(n, rows * step, columns * step, channels)[
        :, : (rows - 1) * step + 1, : (columns - 1) * step + 1
    ]


def _filter_gradient(patches: Array, deltas: Array, each: bool) -> list[Array]:
    if each:
        return [(patches.swapaxes(1, 2) @ deltas).reshape(patches.shape[0], -1), deltas.sum(1)]
    inner = patches.reshape(-1, patches.shape[-1])
    return [(inner.T @ deltas.reshape(-1, deltas.shape[-1])).reshape(-1), deltas.sum((0, 1))]
