"""Model I of the paper: two convolutions with ReLU and max-pooling, then a softmax layer.

Convolutions are matrix products of patches, forward and backward: on a CPU this is several times faster than the
compiler's own gradient of a convolution, above all for one gradient per client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Array, namespace
from ofediq.errors import require, require_integer, require_nonnegative
from ofediq.models.base import LayeredModel, Task, dense, dense_gradient, flat_dim, glorot, unflatten

_SIDE = 3  # side of every filter


@dataclass(frozen=True)
class Cnn(LayeredModel):
    """Convolutions of `filters` 3x3 filters, each followed by ReLU and 2x2 max-pooling; `classes` outputs.

    Padding is 'valid' throughout; pooling drops an odd last row and column, and what it drops is never computed.
    """

    height: int
    width: int
    classes: int
    filters: tuple[int, int] = (32, 64)
    l2: float = 0.0
    name: str = "cnn"
    task: Task = "classification"
    chunk: int = 32

    @property
    def dim(self) -> int:  # type: ignore[override]  # derived here, an attribute in the base class
        """D = 10 x 32 + 289 x 64 + 1601 x 10 = 34,826 for 28 x 28 images and 10 classes."""
        return flat_dim(self._shapes())

    def initial(self, seed: int = 0) -> npt.NDArray[np.float32]:
        """Glorot weights, zero biases."""
        rng = np.random.default_rng(seed)
        area = _SIDE * _SIDE
        pieces = []
        for depth, (fan_in, fan_out) in enumerate(self._shapes()):
            receptive = area * fan_out if depth < 2 else fan_out
            pieces += [glorot(rng, fan_in, receptive, fan_in * fan_out), np.zeros(fan_out, np.float32)]
        return np.concatenate(pieces)

    def forward(self, params: Array, xs: Array) -> tuple[Array, Any]:
        """Logits, and for each layer what its backward pass needs."""
        (w1, b1), (w2, b2), (w3, b3) = unflatten(params, self._shapes())
        pooled1, cache1 = _convolve(xs.reshape(xs.shape[0], self.height, self.width, 1), w1, b1)
        pooled2, cache2 = _convolve(pooled1, w2, b2)
        flat = pooled2.reshape(pooled2.shape[0], -1)
        return dense(flat, w3, b3), (cache1, cache2, flat)

    def backward(self, params: Array, cache: Any, deltas: Array, each: bool) -> Array:
        """Back through softmax layer, second and first convolution."""
        cache1, cache2, flat = cache
        _, (w2, _), (w3, _) = unflatten(params, self._shapes())
        pooled2 = cache2[1]
        back = dense(deltas, w3.swapaxes(-1, -2), np.float32(0)).reshape(pooled2.shape)
        delta2 = _unpool(back, cache2)
        delta1 = _unpool(_convolve_back(delta2, w2, cache1[1].shape), cache1)
        pieces = (
            _filter_gradient(cache1[0], delta1, each)
            + _filter_gradient(cache2[0], delta2, each)
            + dense_gradient(flat, deltas, each)
        )
        return namespace(deltas).concatenate(pieces, axis=-1)

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration."""
        return {**super().describe(), "image": [self.height, self.width], "filters": list(self.filters)}

    def _shapes(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer's matrix."""
        rows, columns = ((side - 2) // 2 for side in (self.height, self.width))
        flat = ((rows - 2) // 2) * ((columns - 2) // 2) * self.filters[1]
        area = _SIDE * _SIDE
        return [(area, self.filters[0]), (area * self.filters[0], self.filters[1]), (flat, self.classes)]


def cnn(height: int = 28, width: int = 28, classes: int = 10, l2: float = 0.0) -> Cnn:
    """Model I.

    >>> cnn().dim
    34826
    """
    for name, side in (("height", height), ("width", width)):
        require(side >= 10, name, "must be at least 10 for two 3x3 convolutions with pooling", side)
    return Cnn(height, width, require_integer("classes", classes, 2), l2=require_nonnegative("l2", l2))


def _convolve(images: Array, filters: Array, bias: Array) -> tuple[Array, Any]:
    """Valid 3x3 convolution, 2x2 max-pooling, bias and ReLU (which commute with the maximum).

    `images` is [n, h, w, c]; `filters` [9 c, o], or [n, 9 c, o]. The cache holds the patches [n, p, 9 c], the
    result, and the four values that each maximum was taken from.
    """
    xp = namespace(images)
    n, height, width, channels = images.shape
    rows, columns = (height - 2) // 2 * 2, (width - 2) // 2 * 2
    shifts = [images[:, i : i + rows, j : j + columns] for i in range(_SIDE) for j in range(_SIDE)]
    patches = xp.concatenate(shifts, axis=-1).reshape(n, rows * columns, _SIDE * _SIDE * channels)
    if filters.ndim == 2:  # one large product
        maps = patches.reshape(n * rows * columns, -1) @ filters
    else:
        maps = patches @ filters
    quads = maps.reshape(n, rows // 2, 2, columns // 2, 2, -1)
    corners = (quads[:, :, 0, :, 0], quads[:, :, 0, :, 1], quads[:, :, 1, :, 0], quads[:, :, 1, :, 1])
    largest = xp.maximum(xp.maximum(corners[0], corners[1]), xp.maximum(corners[2], corners[3]))
    shift = bias if bias.ndim == 1 else bias[:, None, None, :]
    result = xp.maximum(largest + shift, 0)
    return result, (patches, result, largest, corners)


def _unpool(back: Array, cache: Any) -> Array:
    """d loss / d maps, [n, p, o]: each pooled value goes to the first corner that attained the maximum."""
    _, result, largest, corners = cache
    xp = namespace(back)
    n, rows, columns, outputs = back.shape
    back = xp.where(result > 0, back, 0)
    pieces, taken = [], xp.zeros_like(back, dtype=bool)
    for corner in corners:
        wins = (corner == largest) & ~taken
        taken = taken | wins
        pieces.append(xp.where(wins, back, 0))
    upper = xp.stack(pieces[:2], axis=3).reshape(n, rows, 2 * columns, outputs)
    lower = xp.stack(pieces[2:], axis=3).reshape(n, rows, 2 * columns, outputs)
    return xp.stack([upper, lower], axis=2).reshape(n, 4 * rows * columns, outputs)


def _convolve_back(deltas: Array, filters: Array, shape: tuple[int, ...]) -> Array:
    """d loss / d images of a convolution, [n, h, w, c]: the patches' derivatives, added where they overlap."""
    xp = namespace(deltas)
    n, height, width, channels = shape
    rows, columns = (height - 2) // 2 * 2, (width - 2) // 2 * 2
    if filters.ndim == 2:
        patches = deltas.reshape(n * rows * columns, -1) @ filters.T
    else:
        patches = deltas @ filters.swapaxes(-1, -2)
    patches = patches.reshape(n, rows, columns, _SIDE * _SIDE, channels)
    total = None
    for place in range(_SIDE * _SIDE):
        i, j = divmod(place, _SIDE)
        margins = ((0, 0), (i, height - rows - i), (j, width - columns - j), (0, 0))
        piece = xp.pad(patches[:, :, :, place], margins)
        total = piece if total is None else total + piece
    return total


def _filter_gradient(patches: Array, deltas: Array, each: bool) -> list[Array]:
    """Gradients of a convolution's filters and bias, flat: per sample if `each`, else summed."""
    if each:
        return [(patches.swapaxes(1, 2) @ deltas).reshape(patches.shape[0], -1), deltas.sum(1)]
    inner = patches.reshape(-1, patches.shape[-1])
    return [(inner.T @ deltas.reshape(-1, deltas.shape[-1])).reshape(-1), deltas.sum((0, 1))]
