"""Find the stack of layers in a JAX function: the same outputs from layers that have fast passes and kernels.

The traced program is read operation by operation (`reading`); what is no known operation is recognised by what it
computes (`recognition`). Anything else gives a sentence that says what it was. At the end outputs and derivatives at
one sample are compared: what reading can miss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ofediq.arrays import Array
from ofediq.errors import InputError, extra
from ofediq.models.adapters.reading import Program
from ofediq.models.adapters.recognition import is_cross_entropy, is_log_softmax, is_squared_error, recognized
from ofediq.models.adapters.symbols import (
    Flow,
    Leaf,
    Pending,
    Reader,
    UnknownLayerError,
    labels_of,
    sizes_of,
)
from ofediq.models.layers import Activation, Conv, Dense, Identity, Layer, arranged
from ofediq.models.stack import Network, Place
from ofediq.models.stages import Shape

Function = Callable[..., Array]

_UNREAD = "its program holds operations that cannot be read as layers"  # shapes that no layer here has


def lower(outputs: Function, tree: Any, shape: Shape, task: Any, name: str) -> Network | str:
    """The stack that gives the same as `outputs(params, x)` of one sample of this `shape`, or why there is none.

    Its flat vector is that of `tree`, the parameters; how it starts is for the caller to say.
    """
    jax = extra("jax", "sim")
    leaves, of_leaves = _by_leaves(outputs, tree)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    shapes = [leaf.shape for leaf in leaves]
    try:
        traced = _program(of_leaves, shape, leaves, x)
        with jax.ensure_compile_time_eval():  # now, even while something around is being traced
            found = _outputs(traced, shapes, shape, task)
        model = assembled(found, shapes, task, name)
    except (UnknownLayerError, InputError) as error:
        return str(error)
    except (TypeError, ValueError):
        return _UNREAD
    noise = [0.1 * np.random.default_rng(1).normal(size=leaf.shape) for leaf in leaves]
    moved = [(leaf + other).astype(np.float32) for leaf, other in zip(leaves, noise, strict=True)]
    # Not traced inside of `ensure_compile_time_eval`: Flax would really draw parameters again, for their shapes.
    computed = jax.jit(partial(_with_slopes, of_leaves, task)).lower(moved, x).compile()
    expected, there = jax.tree.map(np.asarray, computed(moved, x))
    vector, steps = (np.concatenate([leaf.reshape(-1) for leaf in leaves]) for leaves in (moved, there))
    same = _agrees(model, vector, x, expected, steps)
    return model if same else "its layers compute something else than itself"


def lower_loss(
    loss: Function, outputs: Function | None, tree: Any, shape: Shape, task: Any, name: str
) -> Network | str:
    """The stack whose loss is `loss(params, x, y)` and whose outputs are `outputs(params, x)`, if these are given."""
    jax = extra("jax", "sim")
    leaves, of_leaves = _by_leaves(loss, tree)
    x, shapes = np.zeros(shape, np.float32), [leaf.shape for leaf in leaves]
    y = np.float32(0) if task == "regression" else np.int32(0)
    try:
        traced = _program(of_leaves, shape, leaves, x, y)
        with jax.ensure_compile_time_eval():
            head = _head(traced, shapes, shape)
        if not _is_usual(*head, task):
            return "its loss is neither the cross-entropy nor the squared error of its outputs"
        signal = head[0].base
        assert signal is not None
        model = assembled(signal, shapes, task, name)
    except (UnknownLayerError, InputError) as error:
        return str(error)
    except (TypeError, ValueError):
        return _UNREAD
    if outputs is None:
        return model
    other = lower(outputs, tree, shape, task, name)
    if isinstance(other, str):
        return other
    return model if model == other else "its predictions come from other layers than its loss"


def _program(function: Function, shape: Shape, *arguments: Any) -> Any:
    """What JAX traces of `function`; `UnknownLayerError` where it takes no sample of this `shape`."""
    try:
        return extra("jax", "sim").make_jaxpr(function)(*arguments)
    except (
        TypeError,
        ValueError,
    ) as error:  # how JAX says that shapes do not fit; who runs it will hear more
        raise UnknownLayerError(f"it does not take samples of shape {list(shape)}") from error


def _with_slopes(function: Function, task: Any, leaves: list[Array], x: Array) -> tuple[Array, list[Array]]:
    """Outputs, and the derivatives of their sum by the parameters; of class scores those that matter."""
    jax = extra("jax", "sim")

    def outputs(leaves: list[Array]) -> Array:
        found = function(leaves, x)
        return jax.nn.log_softmax(found) if task == "classification" else found

    found, back = jax.vjp(outputs, leaves)
    return found, back(jax.numpy.ones_like(found))[0]


def _agrees(model: Network, vector: Array, x: Array, outputs: Array, slope: Array) -> bool:
    """Whether at one sample outputs, and the derivatives of their sum, are these: what reading a program can miss."""
    found, cache = model.forward(vector, x[None])
    deltas = np.ones_like(found)
    if model.task == "classification":
        found = found - np.log(np.exp(found - found.max()).sum()) - found.max()
        deltas = 1 - found.shape[-1] * np.exp(found)
    gradient = model.backward(vector, cache, deltas, each=False)
    pairs = ((found[0], np.reshape(outputs, -1)), (gradient, slope))
    return all(np.allclose(a, b, rtol=1e-3, atol=1e-3 * float(np.abs(b).max())) for a, b in pairs)


def assembled(found: Flow, shapes: Sequence[Shape], task: Any, name: str) -> Network:
    """The network of a signal's layers, whose arrays lie among leaves with these `shapes`."""
    starts = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()
    if sorted(leaf for leaf, _, _ in found.places) != list(range(len(shapes))):
        raise UnknownLayerError("some of its parameters are not used once")
    kept = tuple(Place(starts[leaf], shape, axes) for leaf, shape, axes in found.places)
    stack = arranged(_explicit(found.layers))
    made = Network(
        name,
        task,
        stack,
        found.shape,
        places=kept,
        channels_first=found.channels_first,
        scaling=found.scaling,
    )
    return replace(made, chunk=32 if made.convolves else 256)


def _explicit(layers: Sequence[Layer]) -> list[Layer]:
    """Layers with an identity where a hidden one has no activation: nothing is put in that is not there."""
    result: list[Layer] = []
    for index, layer in enumerate(layers):
        result.append(layer)
        if isinstance(layer, (Conv, Dense)):
            rest = layers[index + 1 :]
            until = next((i for i, one in enumerate(rest) if isinstance(one, (Conv, Dense))), len(rest))
            if not any(isinstance(one, Activation) for one in rest[:until]):
                result.append(Identity())
    return result


def _by_leaves(function: Function, tree: Any) -> tuple[list[Any], Function]:
    """The parameters one by one, and `function` of them."""
    jax = extra("jax", "sim")
    leaves, structure = jax.tree.flatten(tree)

    def of_leaves(leaves: list[Array], *rest: Array) -> Array:
        return function(structure.unflatten(leaves), *rest)

    return [np.asarray(leaf, np.float32) for leaf in leaves], of_leaves


def _read(
    traced: Any, shapes: Sequence[Shape], shape: Shape, more: Sequence[Any] = ()
) -> tuple[Program, Any]:
    """The program, and what its output stands for; `more` are arguments behind the sample."""
    program = Program(lambda pending, base: recognized(pending, base, shapes))
    leaves = [Leaf(leaf, labels_of(one), _leaf_reader(leaf)) for leaf, one in enumerate(shapes)]
    axes = labels_of(shape)
    sample = program.note(Flow(axes, sizes_of(axes, shape), shape), shape)
    (result,) = program.run(traced.jaxpr, [*leaves, sample, *more], traced.consts)
    return program, result


def _leaf_reader(leaf: int) -> Reader:
    return lambda given: given.leaves[leaf]


def _outputs(traced: Any, shapes: Sequence[Shape], shape: Shape, task: Any) -> Flow:
    """What the outputs are; class scores before their logarithms of probabilities, which mean and cost the same."""
    program, result = _read(traced, shapes, shape)
    if task == "classification" and isinstance(result, Pending) and result.base is not None:
        base = program.shapes[id(result.base)]
        if not result.leaves and is_log_softmax(result, base):
            return result.base
    return program.signal(result)


def _head(traced: Any, shapes: Sequence[Shape], shape: Shape) -> tuple[Pending, Shape]:
    """The function of the outputs and the label that the loss is, and the shape of the outputs."""
    label = Pending(None, (), lambda given: given.label, labelled=True, name="label")
    program, result = _read(traced, shapes, shape, [label])
    if not isinstance(result, Pending) or result.base is None or result.leaves:
        raise UnknownLayerError("its loss is no function of outputs and label alone")
    return result, program.shapes[id(result.base)]


def _is_usual(head: Pending, shape: Shape, task: Any) -> bool:
    return is_squared_error(head, shape) if task == "regression" else is_cross_entropy(head, shape)
