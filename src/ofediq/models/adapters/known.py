"""Layers that operations of a traced program are: what each makes of a signal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ofediq.models.adapters.symbols import Axes, Flow, Leaf, UnknownLayerError, is_natural, sizes_of
from ofediq.models.layers import Conv, Dense, Mean, Pool
from ofediq.models.stages import Shape


def as_image(signal: Flow, height: int, width: int, channels: int | None) -> Flow:
    """`signal` as an image whose height, width and channels lie along these axes."""
    wanted = {"h": signal.axes[height], "w": signal.axes[width], "c": ()}
    if channels is not None:
        wanted["c"] = signal.axes[channels]
    if signal.layers or signal.image:
        if any(labels not in ((), (name,)) for name, labels in wanted.items()):
            raise UnknownLayerError("an image's axes are mixed up")
        return signal
    order = [label for labels in signal.axes for label in labels]
    size = signal.size
    if any(len(labels) > 1 for labels in wanted.values()) or sum(map(len, wanted.values())) != len(order):
        raise UnknownLayerError("a sample's axes are not those of an image")
    names = {labels[0]: name for name, labels in wanted.items() if labels}
    spelled = "".join(names[label] for label in sorted(order))
    if spelled not in ("hw", "hwc", "chw"):
        raise UnknownLayerError("a sample must be [height, width], with channels first or last")
    shape = tuple(size[label] for label in sorted(order))
    axes = tuple(tuple(names[label] for label in labels) for labels in signal.axes)
    sizes = tuple((names[label], size[label]) for label in order)
    return replace(signal, axes=axes, sizes=sizes, shape=shape, channels_first=spelled == "chw", image=True)


def convolved(signal: Flow, weights: Leaf, params: dict[str, Any], shapes: list[Shape], out: Shape) -> Flow:
    """A convolution."""
    numbers = params["dimension_numbers"]
    batch, feature, *spatial = numbers.lhs_spec
    steps = set(params["window_strides"])
    plain = (
        len(spatial) == 2
        and shapes[0][batch] == 1
        and len(steps) == 1
        and set(params["lhs_dilation"]) == set(params["rhs_dilation"]) == {1}
        and params["feature_group_count"] == params["batch_group_count"] == 1
    )
    if not plain:
        raise UnknownLayerError(
            "a convolution must have two dimensions, one stride, no dilation and one group"
        )
    image = as_image(signal, spatial[0], spatial[1], feature)
    own = weights.axes
    filters, given, *sides = numbers.rhs_spec
    size = shapes[1][sides[0]]
    margins = {(int(before), int(after)) for before, after in params["padding"]}
    if shapes[1][sides[1]] != size or len(margins) != 1 or min(min(margins)) < 0:
        raise UnknownLayerError("a convolution must have square filters and the same margins on both axes")
    (margin,) = margins
    same = size % 2 == 1 and size > 1 and margin == (size // 2, size // 2)
    shape, order = _kept(own, shapes[1], (*sides, given, filters))
    margin = (0, 0) if same else margin
    layer = Conv(shapes[1][filters], size, same, bias=False, stride=int(min(steps)), margin=margin)
    _, out_feature, *out_spatial = numbers.out_spec
    axes: list[tuple[Any, ...]] = [()] * len(out)
    for axis, label in ((out_feature, "c"), (out_spatial[0], "h"), (out_spatial[1], "w")):
        axes[axis] = (label,) if out[axis] > 1 else ()
    return replace(
        image,
        axes=tuple(axes),
        sizes=sizes_of(axes, out),
        layers=(*image.layers, layer),
        places=(*image.places, (weights.leaf, shape, order)),
    )


def _kept(axes: Axes, shape: Shape, order: Sequence[int]) -> tuple[Shape, tuple[int, ...]]:
    """A parameter's own shape, and its own axes in the order of `order`, which counts the axes that it has now."""
    own: dict[int, int] = {}
    for axis, labels in enumerate(axes):
        if len(labels) > 1:
            raise UnknownLayerError("weights are reshaped before they are used")
        if labels:
            own[labels[0]] = shape[axis]
    kept = sorted(own)
    turned = [axes[axis][0] for axis in order if axes[axis]]
    return tuple(own[label] for label in kept), tuple(kept.index(label) for label in turned)


def multiplied(arguments: list[Any], numbers: Any, shapes: list[Shape], out: Shape) -> Flow:
    """A dense layer: the product of all numbers of a signal with a matrix."""
    (contracted, batches) = numbers
    side = 0 if isinstance(arguments[0], Flow) else 1
    signal: Flow = arguments[side]
    weights: Leaf = arguments[1 - side]
    ours, theirs = contracted[side], contracted[1 - side]
    order = [label for labels in signal.axes for label in labels]
    along = [label for axis in ours for label in signal.axes[axis]]
    if batches[0] or len(theirs) != 1 or along != order or len(shapes[1 - side]) != 2:
        raise UnknownLayerError("a product must be one of all numbers of a sample with a matrix")
    if not signal.layers and not signal.image:
        if not is_natural(signal):
            raise UnknownLayerError("a sample's axes are moved before a dense layer")
        order = []  # as they come
    size = signal.size
    (given,) = theirs
    units = 1 - given
    shape, turned = _kept(weights.axes, shapes[1 - side], (given, units))
    if order and shapes[1 - side][given] > 1:
        # The inputs come in the order of the labels; the layer wants height, width, channels.
        first = weights.axes[given][0] < (weights.axes[units] or (math.inf,))[0]
        sides = tuple(size[label] for label in order)
        wanted = [order.index(label) for label in ("h", "w", "c", "u") if label in order]
        more = shape[1:] if first else shape[:-1]
        shape = (*sides, *more) if first else (*more, *sides)
        shift = 0 if first else len(more)
        last = len(sides) if first else 0
        turned = (*(shift + index for index in wanted), *([last] if more else []))
    layer = Dense(shapes[1 - side][units], bias=False)
    axes = [("u",) if length > 1 else () for length in out]
    return replace(
        signal,
        axes=tuple(axes),
        sizes=sizes_of(axes, out),
        layers=(*signal.layers, layer),
        places=(*signal.places, (weights.leaf, shape, turned)),
    )


def biased(signal: Flow, bias: Leaf) -> Flow | None:
    """A number per channel or unit, added to what a layer without one gave; None if it is none."""
    last = signal.layers[-1] if signal.layers else None
    if not isinstance(last, (Conv, Dense)) or last.bias:
        return None
    units = last.filters if isinstance(last, Conv) else last.units
    used = [axis for axis, labels in enumerate(bias.axes) if labels]
    label = ("c",) if isinstance(last, Conv) else ("u",)
    fits = len(used) == 1 and signal.axes[used[0]] == label if units != 1 else not used
    if not fits:
        return None
    place = (bias.leaf, (int(units or 0),), (0,))
    return replace(
        signal, layers=(*signal.layers[:-1], replace(last, bias=True)), places=(*signal.places, place)
    )


def pooled(signal: Flow, params: dict[str, Any], out: Shape, sums: bool = False) -> Flow:
    """The largest, or the sum, of each window."""
    window, strides = tuple(params["window_dimensions"]), tuple(params["window_strides"])
    spatial = [axis for axis, side in enumerate(window) if side > 1]
    sizes = {window[axis] for axis in spatial}
    plain = (
        len(spatial) == 2
        and len(sizes) == 1
        and strides == window
        and not np.any(params["padding"])
        and {*params["base_dilation"], *params["window_dilation"]} == {1}
    )
    if not plain or (sums and not signal.layers):
        raise UnknownLayerError("a pooling must be of squares side by side, without padding")
    others = [axis for axis, labels in enumerate(signal.axes) if labels and axis not in spatial]
    image = as_image(signal, spatial[0], spatial[1], others[0] if others else None)
    axes = [labels if out[axis] > 1 else () for axis, labels in enumerate(image.axes)]
    (size,) = sizes
    layer, times = (Mean(size), size * size) if sums else (Pool(size), 1)
    return replace(
        image, axes=tuple(axes), sizes=sizes_of(axes, out), layers=(*image.layers, layer), times=times
    )
