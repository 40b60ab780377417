"""Which layer a function of a signal is: found by its values and slopes at many points, not by how it is written."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ofediq.arrays import Array, Numbers, Vector
from ofediq.errors import extra
from ofediq.models.activations import ACTIVATIONS, Activation, Leaky
from ofediq.models.adapters.symbols import Flow, Given, Pending, UnknownLayerError, sizes_of
from ofediq.models.layers import Mean, Norm
from ofediq.models.stages import Shape

_SIDE = np.concatenate([np.linspace(0.01, 8, 150), np.logspace(-6, 1.5, 60), [0.5, 1.0, 2.0]])
_POINTS = np.concatenate([[0.0], _SIDE, -_SIDE]).astype(np.float32)
"""Where activations are compared: 0 itself, many close to it, and where they are flat or straight."""

_CLOSE = 3e-5


def recognized(pending: Pending, base_shape: Shape, leaves: Sequence[Shape]) -> Flow:
    """The signal that `pending` gives, whose base stands for an array of this shape; else `UnknownLayerError`."""
    base = pending.base
    assert base is not None
    found: Flow | None = None
    if pending.each and pending.shape == base_shape:
        found = _activated(pending, base, base_shape)
    elif not pending.leaves and not pending.labelled and base.layers:
        found = _averaged(pending, base, base_shape)
    elif pending.leaves and not pending.labelled and pending.shape == base_shape and base.layers:
        found = _normalized(pending, base, base_shape, leaves)
    if found is None:
        raise UnknownLayerError(f"{pending.name!r} is no layer that the kernels know")
    return found


def is_cross_entropy(pending: Pending, base_shape: Shape) -> bool:
    """Whether it is the cross-entropy of the base, class scores, and the label: at all scales, and for all labels."""
    jax = extra("jax", "sim")

    def expected(scores: Array, label: Array) -> Array:
        flat = scores.reshape(-1)
        return jax.nn.logsumexp(flat) - flat[label]

    classes = int(np.prod(base_shape))
    labels = np.resize(np.arange(classes, dtype=np.int32), 40 * classes)
    return classes > 1 and _same_loss(pending, expected, base_shape, labels)


def is_log_softmax(pending: Pending, base_shape: Shape) -> bool:
    """Whether it is the logarithms of the probabilities of the base, class scores, at all scales."""
    jax = extra("jax", "sim")
    classes = int(np.prod(base_shape))
    if classes < 2 or int(np.prod(pending.shape)) != classes or pending.labelled:
        return False
    rng = np.random.default_rng(6)
    points = (10.0 ** rng.uniform(-3, 2, (64, 1)) * rng.normal(size=(64, classes))).astype(np.float32)

    def both(point: Array) -> tuple[Array, Array]:
        own = pending.read(Given(point.reshape(base_shape), ())).reshape(-1)
        return own, jax.nn.log_softmax(point)

    own, expected = (np.asarray(part) for part in jax.jit(jax.vmap(both))(points))
    return bool((np.abs(own - expected) <= _CLOSE * (1 + np.abs(expected))).all())


def is_squared_error(pending: Pending, base_shape: Shape) -> bool:
    """Whether it is the squared difference of the base, one number, and the label: at all scales."""

    def expected(outputs: Array, label: Array) -> Array:
        return (outputs.reshape(()) - label) ** 2

    labels = (10.0 ** np.random.default_rng(3).uniform(-3, 3, 400)).astype(np.float32)
    return int(np.prod(base_shape)) == 1 and _same_loss(pending, expected, base_shape, labels)


def _same_loss(pending: Pending, expected: Any, shape: Shape, labels: Numbers) -> bool:
    jax = extra("jax", "sim")
    rng = np.random.default_rng(2)
    scales = 10.0 ** rng.uniform(-3, 3, (len(labels), *(1 for _ in shape)))
    points = (scales * rng.normal(size=(len(labels), *shape))).astype(np.float32)

    def own(base: Array, label: Array) -> Array:
        return pending.read(Given(base, (), label))

    pairs = [jax.jit(jax.vmap(jax.value_and_grad(one)))(points, labels) for one in (own, expected)]
    size = np.abs(points).reshape(len(points), -1).max(1) + np.abs(labels)
    tolerances = (_CLOSE * (1 + size * size), (_CLOSE * (1 + size)).reshape(-1, *(1 for _ in shape)))
    return all(
        bool((np.abs(np.asarray(one) - np.asarray(other)) <= tolerance).all())
        for one, other, tolerance in zip(*pairs, tolerances, strict=True)
    )


def _activated(pending: Pending, base: Flow, shape: Shape) -> Flow | None:
    """An activation; or, of a sample, a factor and a shift."""
    values, slopes = _at_points(pending, shape)
    if base.times != 1:
        mean = np.abs(values - _POINTS / base.times) <= 1e-6 * (1 + np.abs(_POINTS))
        return replace(base, times=1) if mean.all() else None
    if not base.layers:
        return _scaled(base, values, slopes)
    for candidate in _candidates(values, slopes):
        expected = candidate.value(_POINTS)
        near = np.abs(values - expected) <= _CLOSE * (1 + np.abs(_POINTS))
        same = np.abs(slopes - candidate.slope(_POINTS, expected)) <= _CLOSE
        if near.all() and same.all():
            return replace(base, layers=(*base.layers, candidate))
    return None


def _at_points(pending: Pending, shape: Shape) -> tuple[Vector, Vector]:
    """Values and slopes of a function of each number at all points."""
    jax = extra("jax", "sim")
    size = int(np.prod(shape))
    rows = -(-len(_POINTS) // size)
    filled = np.resize(_POINTS, (rows, *shape))

    def both(base: Array) -> tuple[Array, Array]:
        result, back = jax.vjp(lambda base: pending.read(Given(base, ())), base)
        return result, back(jax.numpy.ones_like(result))[0]

    values, slopes = jax.jit(jax.vmap(both))(filled)
    flat = (np.asarray(part, np.float32).reshape(-1)[: len(_POINTS)] for part in (values, slopes))
    return next(flat), next(flat)


def _candidates(values: Numbers, slopes: Numbers) -> Iterator[Activation]:
    for kind in ACTIVATIONS:
        if kind is not Leaky:
            yield kind()
    below = abs(float(values[_POINTS == -1][0]))
    at_zero = float(slopes[0])
    if 0 <= below <= 1:
        below, at_zero = (float(f"{number:.6g}") for number in (below, at_zero))
        yield Leaky(below, None if at_zero == below else at_zero)


def _scaled(base: Flow, values: Numbers, slopes: Numbers) -> Flow | None:
    """A sample times a factor, plus a shift; nothing has looked at it yet."""
    factor, shift = float(slopes[0]), float(values[0])
    size = abs(shift) + abs(factor) * (1 + np.abs(_POINTS))
    straight = (np.abs(values - (factor * _POINTS + shift)) <= 1e-5 * size).all()
    if not straight or factor == 0 or not (np.abs(slopes - factor) <= 1e-5 * abs(factor)).all():
        return None
    first, second = base.scaling
    return replace(base, scaling=(first * factor, second * factor + shift))


def _averaged(pending: Pending, base: Flow, shape: Shape) -> Flow | None:
    """The mean of windows of an image, or of all of it."""
    axes = {labels[0]: axis for axis, labels in enumerate(base.axes) if len(labels) == 1}
    if "h" not in axes or "w" not in axes:
        return None
    high, wide = axes["h"], axes["w"]
    image = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    found = np.asarray(_compiled(pending)(image, ()))
    labelled = [axis for axis in range(len(shape)) if base.axes[axis]]
    kept = {len(axes): axes for axes in (labelled, list(range(len(shape))))}.get(found.ndim)
    if kept is None:  # the image's own axes are gone: a mean of all of it
        rest = [[axis for axis in axes if axis not in (high, wide)] for axes in (labelled, range(len(shape)))]
        kept = {len(axes): axes for axes in rest}.get(found.ndim)
    if kept is None:
        return None
    length = dict(zip(kept, found.shape, strict=True))
    counts = (length.get(high, 1), length.get(wide, 1))
    sides = (shape[high], shape[wide])
    layer = _mean_layer(sides, (sides[0] // counts[0], sides[1] // counts[1]))
    if layer is None:
        return None
    expected = _means(np.moveaxis(image, (high, wide), (0, 1)), counts, sides)
    expected = np.moveaxis(expected, (0, 1), (high, wide))
    if expected.size != found.size or not np.allclose(found.reshape(expected.shape), expected, atol=1e-5):
        return None
    labels = [base.axes[axis] if length[axis] > 1 else () for axis in kept]
    return replace(
        base, axes=tuple(labels), sizes=sizes_of(labels, found.shape), layers=(*base.layers, layer)
    )


def _mean_layer(sides: tuple[int, int], sizes: tuple[int, int]) -> Mean | None:
    if sizes == sides:
        return Mean()
    return Mean(sizes[0]) if sizes[0] == sizes[1] > 1 else None


def _compiled(pending: Pending) -> Any:
    """The function of the base and all parameters, in one program."""
    return extra("jax", "sim").jit(lambda base, leaves: pending.read(Given(base, leaves)))


def _means(image: Numbers, counts: tuple[int, int], sides: tuple[int, int]) -> Numbers:
    rows, columns = counts
    down, right = sides[0] // rows, sides[1] // columns
    cut = image[: rows * down, : columns * right].reshape(rows, down, columns, right, *image.shape[2:])
    means: Numbers = cut.mean((1, 3))
    return means


def _normalized(pending: Pending, base: Flow, shape: Shape, leaves: Sequence[Shape]) -> Flow | None:
    """Layer normalisation over the channels or units."""
    along = [axis for axis, labels in enumerate(base.axes) if labels in (("c",), ("u",))]
    used = sorted(pending.leaves)
    width = shape[along[0]] if len(along) == 1 else 0
    if not width or len(used) > 2 or any(int(np.prod(leaves[leaf])) != width for leaf in used):
        return None
    rng = np.random.default_rng(5)
    params = [rng.normal(size=one).astype(np.float32) for one in leaves]
    for order in itertools.permutations(used):
        scale, bias = params[order[0]].reshape(-1), np.zeros(width, np.float32)
        if len(order) > 1:
            bias = params[order[1]].reshape(-1)
        points = [np.float32(size) * rng.normal(size=shape).astype(np.float32) for size in (1e-2, 1.0, 30.0)]
        found = [np.asarray(_compiled(pending)(point, params)) for point in points]
        rows, results = (
            [np.moveaxis(array, along[0], -1).reshape(-1, width) for array in arrays]
            for arrays in (points, found)
        )
        epsilon = _epsilon(rows[0], results[0], scale, bias)
        pairs = zip(rows, results, strict=True)
        if epsilon is not None and all(_is_norm(x, made, scale, bias, epsilon) for x, made in pairs):
            places = tuple((leaf, (width,), (0,)) for leaf in order)
            layer = Norm(epsilon, bias=len(order) > 1)
            return replace(base, layers=(*base.layers, layer), places=(*base.places, *places))
    return None


def _epsilon(x: Any, result: Any, scale: Any, bias: Any) -> float | None:
    """What was added to the variance of these small numbers, if they were normalised at all."""
    centred = (x - x.mean(-1, keepdims=True)).astype(np.float64)
    made = (result - bias) / scale
    with np.errstate(all="ignore"):
        spread = (made * centred).sum(-1) / (centred * centred).sum(-1)
        epsilon = float(np.median(1 / spread**2 - (centred * centred).mean(-1)))
    if not 1e-9 < epsilon < 1:
        return None
    return float(f"{epsilon:.1g}")


def _is_norm(x: Any, result: Any, scale: Any, bias: Any, epsilon: float) -> bool:
    centred = (x - x.mean(-1, keepdims=True)).astype(np.float64)
    expected = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + epsilon) * scale + bias
    return bool(np.allclose(result, expected, rtol=1e-3, atol=1e-3))
