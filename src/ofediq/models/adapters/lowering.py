"""Find the stack of layers in a JAX function: the same outputs from layers that have fast passes and kernels.

The traced program is read operation by operation. What is understood are convolutions, dense layers, biases,
max-pooling, ReLU and tanh, and what moves axes about; anything else gives a sentence that says what it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ofediq.arrays import Array
from ofediq.errors import InputError, extra
from ofediq.models.layers import Conv, Dense, Identity, Layer, Pool, Relu, Tanh, arranged
from ofediq.models.stack import Network, Place
from ofediq.models.stages import Shape

Axes = tuple[tuple[Any, ...], ...]
"""For each axis of an array the labels that lie along it, one after another; none where its size is 1."""


class UnknownLayerError(Exception):
    """What in a program is no layer."""


@dataclass(frozen=True)
class _Parameter:
    """An array of parameters, perhaps with its axes moved; labels are the numbers of its own axes."""

    leaf: int
    axes: Axes


@dataclass(frozen=True)
class _Signal:
    """What a sample has become: after some layers, with labels h, w, c of an image or u of units.

    Before the first layer labels are the numbers of the sample's axes, and `image` is False.
    """

    axes: Axes
    sizes: tuple[tuple[Any, int], ...]
    shape: Shape
    channels_first: bool = False
    image: bool = False
    layers: tuple[Layer, ...] = ()
    places: tuple[tuple[int, Shape, tuple[int, ...]], ...] = ()  # leaf, shape, axes; of each array

    @property
    def size(self) -> dict[Any, int]:
        """The size along each label."""
        return dict(self.sizes)


def lower(
    outputs: Callable[[Any, Array], Array], tree: Any, shape: Shape, task: Any, name: str
) -> Network | str:
    """The stack that gives the same as `outputs(params, x)` of one sample of this `shape`, or why there is none.

    Its flat vector is that of `tree`, the parameters; how it starts is for the caller to say.
    """
    jax = extra("jax", "sim")
    leaves, structure = jax.tree.flatten(tree)
    leaves = [np.asarray(leaf, np.float32) for leaf in leaves]

    def of_leaves(leaves: list[Array], x: Array) -> Array:
        return outputs(structure.unflatten(leaves), x)

    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    try:
        traced = jax.make_jaxpr(of_leaves)(leaves, x)
        shapes = [leaf.shape for leaf in leaves]
        found = _read(traced, shapes, shape)
        sample = (found.shape, found.channels_first)
        model = assembled(found.layers, found.places, shapes, *sample, task, name)
    except (UnknownLayerError, InputError) as error:
        return str(error)
    except (TypeError, ValueError):  # how JAX says that shapes do not fit; who runs it will hear more
        return f"it does not take samples of shape {list(shape)}"
    noise = [0.1 * np.random.default_rng(1).normal(size=leaf.shape) for leaf in leaves]
    moved = [(leaf + other).astype(np.float32) for leaf, other in zip(leaves, noise, strict=True)]
    with jax.ensure_compile_time_eval():  # now, even while something around is being traced
        expected, slope = jax.vjp(of_leaves, moved, x)
        there = [np.asarray(leaf) for leaf in slope(jax.numpy.ones_like(expected))[0]]
        expected = np.asarray(expected)
    vector, steps = (np.concatenate([leaf.reshape(-1) for leaf in leaves]) for leaves in (moved, there))
    return (
        model
        if agrees(model, vector, x, expected, steps)
        else "its layers compute something else than itself"
    )


def agrees(model: Network, vector: Array, x: Array, outputs: Array, slope: Array) -> bool:
    """Whether at one sample outputs, and the derivatives of their sum, are these: what reading a program can miss."""
    found, cache = model.forward(vector, x[None])
    gradient = model.backward(vector, cache, np.ones_like(found), each=False)
    pairs = ((found[0], np.reshape(outputs, -1)), (gradient, slope))
    return all(np.allclose(a, b, rtol=1e-3, atol=1e-3 * float(np.abs(b).max())) for a, b in pairs)


def assembled(
    layers: Sequence[Layer],
    places: Sequence[tuple[int, Shape, tuple[int, ...]]],
    shapes: Sequence[Shape],
    sample: Shape,
    channels_first: bool,
    task: Any,
    name: str,
) -> Network:
    """The network of these layers, whose arrays lie at `places` among leaves with these `shapes`."""
    starts = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()
    if sorted(leaf for leaf, _, _ in places) != list(range(len(shapes))):
        raise UnknownLayerError("some of its parameters are not used once")
    kept = tuple(Place(starts[leaf], shape, axes) for leaf, shape, axes in places)
    stack = arranged(_explicit(layers))
    made = Network(name, task, stack, sample, places=kept, channels_first=channels_first)
    return replace(made, chunk=32 if made.convolves else 256)


def _explicit(layers: Sequence[Layer]) -> list[Layer]:
    """Layers with an identity where a hidden one has no activation: nothing is put in that is not there."""
    result: list[Layer] = []
    for index, layer in enumerate(layers):
        result.append(layer)
        if isinstance(layer, (Conv, Dense)):
            rest = layers[index + 1 :]
            until = next((i for i, one in enumerate(rest) if isinstance(one, (Conv, Dense))), len(rest))
            if not any(isinstance(one, (Relu, Tanh)) for one in rest[:until]):
                result.append(Identity())
    return result


def _read(traced: Any, shapes: Sequence[Shape], shape: Shape) -> _Signal:
    inputs: list[Any] = [_Parameter(leaf, _labels(one)) for leaf, one in enumerate(shapes)]
    axes = _labels(shape)
    sizes = tuple((label, side) for label, side in enumerate(shape) if side > 1)
    result = _run(traced.jaxpr, [*inputs, _Signal(axes, sizes, shape)], traced.consts, smooth=False)
    if not isinstance(result, _Signal):
        raise UnknownLayerError("its outputs do not depend on the sample")
    return result


def _labels(shape: Shape) -> Axes:
    return tuple((label,) if side > 1 else () for label, side in enumerate(shape))


def _run(jaxpr: Any, inputs: Sequence[Any], consts: Sequence[Any], smooth: bool) -> Any:
    """The value of the first output; `smooth` inside of a function with a derivative of its own, such as ReLU."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

    def value(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else values.get(atom)

    for equation in jaxpr.eqns:
        arguments = [value(atom) for atom in equation.invars]
        shapes = [tuple(atom.aval.shape) for atom in equation.invars]
        out = tuple(equation.outvars[0].aval.shape)
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        if inner is not None:
            own = smooth or equation.primitive.name.startswith("custom_jvp")
            body, constants = (inner.jaxpr, inner.consts) if hasattr(inner, "jaxpr") else (inner, ())
            result = _run(body, arguments, constants, own)
        else:
            result = _apply(equation.primitive.name, equation.params, arguments, shapes, out, smooth)
        values[equation.outvars[0]] = result
    return value(jaxpr.outvars[0])


def _apply(
    name: str, params: dict[str, Any], arguments: list[Any], shapes: list[Shape], out: Shape, smooth: bool
) -> Any:
    """One operation; constants stay numbers."""
    signals = [one for one in arguments if isinstance(one, _Signal)]
    if not any(isinstance(one, (_Signal, _Parameter)) for one in arguments):
        return None
    first: Any = arguments[0]
    if name in ("reshape", "squeeze", "expand_dims"):
        return _reshaped(first, shapes[0], out)
    if name == "broadcast_in_dim" and math.prod(shapes[0]) == math.prod(out):
        return _reshaped(first, shapes[0], out)
    if name == "transpose":
        return replace(first, axes=tuple(first.axes[axis] for axis in params["permutation"]))
    if name in ("copy", "copy_p", "convert_element_type", "slice", "dynamic_slice") and shapes[0] == out:
        return first
    if len(signals) == 1:
        if name == "conv_general_dilated" and isinstance(arguments[1], _Parameter):
            return _convolved(first, arguments[1], params, shapes, out)
        if name == "dot_general" and any(isinstance(one, _Parameter) for one in arguments):
            return _multiplied(arguments, params["dimension_numbers"], shapes, out)
        if name in ("add", "add_any") and any(isinstance(one, _Parameter) for one in arguments):
            return _biased(*sorted(arguments, key=lambda one: isinstance(one, _Parameter)))
        if name == "reduce_window_max":
            return _pooled(first, params, out)
        if name == "tanh":
            return _activated(first, Tanh())
        if name == "max" and any(_is_zero(one) for one in arguments):
            if not smooth:
                raise UnknownLayerError("maximum(x, 0) has half a slope at 0, which jax.nn.relu has not")
            return _activated(signals[0], Relu())
    raise UnknownLayerError(f"{name!r} is no layer that the kernels know")


def _is_zero(value: Any) -> bool:
    return not isinstance(value, (_Signal, _Parameter)) and value is not None and not np.any(value)


def _reshaped(value: Any, before: Shape, after: Shape) -> Any:
    """`value` with its labels along other axes, in the same order."""
    if value is None:
        return None
    if isinstance(value, _Signal):
        size = value.size
        if not value.layers and not value.image and _natural(value):
            labels = _labels(after)  # a sample may be cut anew: nothing has looked at it yet
            sizes = tuple((label, side) for label, side in enumerate(after) if side > 1)
            return replace(value, axes=labels, sizes=sizes, shape=after)
    else:
        size = {label: before[axis] for axis, labels in enumerate(value.axes) for label in labels}
    rest = [label for labels in value.axes for label in labels]
    axes: list[tuple[Any, ...]] = []
    for side in after:
        taken: list[Any] = []
        while rest and math.prod(size[label] for label in taken) < side:
            taken.append(rest.pop(0))
        if math.prod(size[label] for label in taken) != side:
            raise UnknownLayerError(f"a reshape from {list(before)} to {list(after)} cuts axes apart")
        axes.append(tuple(taken))
    return replace(value, axes=tuple(axes))


def _natural(signal: _Signal) -> bool:
    """Whether a sample's axes still lie in their own order."""
    order = [label for labels in signal.axes for label in labels]
    return order == sorted(order)


def _as_image(signal: _Signal, height: int, width: int, channels: int | None) -> _Signal:
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


def _convolved(
    signal: _Signal, weights: _Parameter, params: dict[str, Any], shapes: list[Shape], out: Shape
) -> _Signal:
    numbers = params["dimension_numbers"]
    batch, feature, *spatial = numbers.lhs_spec
    plain = (
        len(spatial) == 2
        and shapes[0][batch] == 1
        and set(params["window_strides"]) == {1}
        and set(params["lhs_dilation"]) == set(params["rhs_dilation"]) == {1}
        and params["feature_group_count"] == params["batch_group_count"] == 1
    )
    if not plain:
        raise UnknownLayerError("a convolution must have two dimensions, stride 1, no dilation and one group")
    if not isinstance(signal, _Signal):
        raise UnknownLayerError("a convolution of parameters is no layer")
    image = _as_image(signal, spatial[0], spatial[1], feature)
    own = weights.axes
    filters, given, *sides = numbers.rhs_spec
    size = shapes[1][sides[0]]
    margins = set(params["padding"])
    same = margins == {(size // 2, size // 2)}
    if shapes[1][sides[1]] != size or not (same or margins == {(0, 0)}):
        raise UnknownLayerError(
            "a convolution must have square filters and no padding, or as much as keeps the size"
        )
    shape, order = _kept(own, shapes[1], (*sides, given, filters))
    layer = Conv(shapes[1][filters], size, same, bias=False)
    _, out_feature, *out_spatial = numbers.out_spec
    axes: list[tuple[Any, ...]] = [()] * len(out)
    for axis, label in ((out_feature, "c"), (out_spatial[0], "h"), (out_spatial[1], "w")):
        axes[axis] = (label,) if out[axis] > 1 else ()
    return replace(
        image,
        axes=tuple(axes),
        sizes=_sizes(axes, out),
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


def _multiplied(arguments: list[Any], numbers: Any, shapes: list[Shape], out: Shape) -> _Signal:
    (contracted, batches) = numbers
    side = 0 if isinstance(arguments[0], _Signal) else 1
    signal: _Signal = arguments[side]
    weights: _Parameter = arguments[1 - side]
    ours, theirs = contracted[side], contracted[1 - side]
    order = [label for labels in signal.axes for label in labels]
    along = [label for axis in ours for label in signal.axes[axis]]
    if batches[0] or len(theirs) != 1 or along != order or len(shapes[1 - side]) != 2:
        raise UnknownLayerError("a product must be one of all numbers of a sample with a matrix")
    if not signal.layers and not signal.image:
        if not _natural(signal):
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
        sizes=_sizes(axes, out),
        layers=(*signal.layers, layer),
        places=(*signal.places, (weights.leaf, shape, turned)),
    )


def _sizes(axes: Sequence[tuple[Any, ...]], shape: Shape) -> tuple[tuple[Any, int], ...]:
    return tuple((labels[0], side) for labels, side in zip(axes, shape, strict=True) if labels)


def _biased(signal: _Signal, bias: _Parameter) -> _Signal:
    """A number per channel or unit, added to what a layer without one gave."""
    last = signal.layers[-1] if signal.layers else None
    if not isinstance(last, (Conv, Dense)) or last.bias:
        raise UnknownLayerError("parameters are added that are no bias")
    units = last.filters if isinstance(last, Conv) else last.units
    used = [axis for axis, labels in enumerate(bias.axes) if labels]
    label = ("c",) if isinstance(last, Conv) else ("u",)
    fits = len(used) == 1 and signal.axes[used[0]] == label if units != 1 else not used
    if not fits:
        raise UnknownLayerError("parameters are added that are no bias")
    place = (bias.leaf, (int(units or 0),), (0,))
    return replace(
        signal, layers=(*signal.layers[:-1], replace(last, bias=True)), places=(*signal.places, place)
    )


def _pooled(signal: _Signal, params: dict[str, Any], out: Shape) -> _Signal:
    window, strides = tuple(params["window_dimensions"]), tuple(params["window_strides"])
    spatial = [axis for axis, side in enumerate(window) if side > 1]
    plain = (
        [window[axis] for axis in spatial] == [2, 2]
        and strides == window
        and not np.any(params["padding"])
        and {*params["base_dilation"], *params["window_dilation"]} == {1}
    )
    if not plain:
        raise UnknownLayerError("a pooling must be the maximum of 2 x 2 values, stride 2, without padding")
    others = [axis for axis, labels in enumerate(signal.axes) if labels and axis not in spatial]
    image = _as_image(signal, spatial[0], spatial[1], others[0] if others else None)
    axes = [labels if out[axis] > 1 else () for axis, labels in enumerate(image.axes)]
    return replace(image, axes=tuple(axes), sizes=_sizes(axes, out), layers=(*image.layers, Pool()))


def _activated(signal: _Signal, layer: Layer) -> _Signal:
    if not signal.layers:
        raise UnknownLayerError("an activation comes before the first layer")
    return replace(signal, layers=(*signal.layers, layer))
