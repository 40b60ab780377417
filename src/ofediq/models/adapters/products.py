"""Convolutions of a JAX function as matrix products, poolings as folds.

XLA's own are slow on a CPU, backward and in loops.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ofediq.arrays import Array
from ofediq.errors import extra

_CALLS = ("jit", "pjit")  # functions inside of functions
_LARGEST = 49  # places in a filter or window; patches are so many times larger than the image


def with_products(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its convolutions as matrix products and its poolings as folds, where it runs on a CPU.

    Results are the same up to rounding, and derivatives go where XLA sends them: to the first that attained a
    maximum. Everything else, and derivatives that somebody has defined, stay as they are.

    >>> import jax, numpy as np
    >>> def blurred(image):
    ...     return jax.lax.conv_general_dilated(image[None, None], np.ones((1, 1, 2, 2)), (1, 1), "VALID")[0, 0]
    >>> with_products(blurred)(np.arange(6.0).reshape(2, 3)).tolist()
    [[8.0, 12.0]]
    """
    jax = extra("jax", "sim")

    def run(*arguments: Any) -> Any:
        if jax.default_backend() != "cpu":
            return function(*arguments)
        traced, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        if not _has_slow(traced.jaxpr):
            return function(*arguments)
        results = _evaluate(traced.jaxpr, traced.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return run


def _has_slow(jaxpr: Any) -> bool:
    inner = (equation.params.get("jaxpr") for equation in jaxpr.eqns if equation.primitive.name in _CALLS)
    slow = any(_faster(equation) is not None for equation in jaxpr.eqns)
    return slow or any(_has_slow(one.jaxpr) for one in inner if one is not None)


def _faster(equation: Any) -> Callable[..., Any] | None:
    """What computes the same as `equation`, faster; None where it is fast."""
    name = equation.primitive.name
    if name == "conv_general_dilated":
        return _product if _is_plain(equation) else None
    if name in _FOLDS:
        return partial(_folded, name) if _is_moderate(equation) else None
    return None


def _evaluate(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def value(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.eqns:
        inputs = [value(atom) for atom in equation.invars]
        name, inner = equation.primitive.name, equation.params.get("jaxpr")
        faster = _faster(equation)
        if faster is not None:
            results = [faster(*inputs, **equation.params)]
        elif name in _CALLS and inner is not None:
            results = _evaluate(inner.jaxpr, inner.consts, inputs)
        else:
            bound = equation.primitive.get_bind_params(equation.params)
            functions, params = bound if isinstance(bound, tuple) else ((), bound)  # before and since JAX 0.9
            found = equation.primitive.bind(*functions, *inputs, **params)
            results = found if equation.primitive.multiple_results else [found]
        values.update(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _is_plain(equation: Any) -> bool:
    """Whether it is a convolution that moves its filters over an image as it is, with moderate filters."""
    params, spec = equation.params, equation.params["dimension_numbers"].rhs_spec
    places = math.prod(equation.invars[1].aval.shape[axis] for axis in spec[2:])
    ones = {*params["lhs_dilation"], params["batch_group_count"]}
    margins = [side for pair in params["padding"] for side in pair]
    return len(spec) > 2 and ones == {1} and places <= _LARGEST and min(margins) >= 0


def _is_moderate(equation: Any) -> bool:
    """Whether it is a pooling of a few values each, of numbers that have a derivative."""
    params, values = equation.params, equation.invars[0].aval
    ones = {*params["base_dilation"], *params["window_dilation"]}
    return values.dtype.kind == "f" and ones == {1} and math.prod(params["window_dimensions"]) <= _LARGEST


def _product(images: Array, filters: Array, **params: Any) -> Array:
    """A convolution in any number of dimensions: patches times filters, group by group."""
    jnp = extra("jax.numpy", "sim")
    numbers, groups = params["dimension_numbers"], params["feature_group_count"]
    batch, feature, *spatial = numbers.lhs_spec
    images = images.transpose(batch, *spatial, feature)
    out, given, *sides = numbers.rhs_spec
    filters = filters.transpose(*sides, given, out)
    *size, channels, units = filters.shape
    images = jnp.pad(images, ((0, 0), *params["padding"], (0, 0)))
    steps, spread = params["window_strides"], params["rhs_dilation"]
    reach = [(one - 1) * far + 1 for one, far in zip(size, spread, strict=True)]
    offsets = itertools.product(*(range(0, one, far) for one, far in zip(reach, spread, strict=True)))
    shifts = [_shifted(images, (0, *offset, 0), (1, *reach, 1), (1, *steps, 1)) for offset in offsets]
    shape = shifts[0].shape[:-1]
    if groups == 1:
        maps = jnp.concatenate(shifts, axis=-1).reshape(math.prod(shape), -1) @ filters.reshape(-1, units)
    else:
        patches = jnp.stack(shifts, axis=-2).reshape(math.prod(shape), len(shifts), groups, channels)
        matrix = filters.reshape(len(shifts), channels, groups, units // groups)
        maps = jnp.einsum("npgc,pcgu->ngu", patches, matrix)
    last = len(shape)
    order = [0] * (last + 1)
    for place, axis in zip(numbers.out_spec, (0, last, *range(1, last)), strict=True):
        order[place] = axis
    return maps.reshape(*shape, units).transpose(*order)


def _shifted(array: Array, offset: Sequence[int], window: Sequence[int], steps: Sequence[int]) -> Array:
    """The value at this `offset` of each window."""
    jax = extra("jax", "sim")
    counts = [(side - size) // step + 1 for side, size, step in zip(array.shape, window, steps, strict=True)]
    ends = [start + (count - 1) * step + 1 for start, count, step in zip(offset, counts, steps, strict=True)]
    shifted: Array = jax.lax.slice(array, offset, ends, steps)
    return shifted


def _folded(name: str, values: Array, **params: Any) -> Array:
    """The largest or the sum of each window of `values`."""
    jnp = extra("jax.numpy", "sim")
    window, steps, padding = params["window_dimensions"], params["window_strides"], params["padding"]
    empty, combine = _FOLDS[name]
    if any(side for pair in padding for side in pair):
        values = jnp.pad(values, padding, constant_values=empty)
    if tuple(window) == tuple(steps):  # windows lie side by side: cut, not gathered, which is faster backward
        counts = [side // size for side, size in zip(values.shape, window, strict=True)]
        whole = tuple(slice(0, count * size) for count, size in zip(counts, window, strict=True))
        cells = values[whole].reshape(*(side for pair in zip(counts, window, strict=True) for side in pair))
        inside = itertools.product(*(range(size) for size in window))
        parts = [cells[tuple(part for one in offset for part in (slice(None), one))] for offset in inside]
    else:
        offsets = itertools.product(*(range(size) for size in window))
        parts = [_shifted(values, offset, window, steps) for offset in offsets]
    result: Array = functools.reduce(combine, parts)
    return result


def _larger(first: Array, second: Array) -> Array:
    """The larger of two, and the first of equals; NaN where there is one."""
    wins = (second > first) | (second != second)
    larger: Array = extra("jax.numpy", "sim").where(wins, second, first)
    return larger


_FOLDS: dict[str, tuple[float, Callable[[Array, Array], Array]]] = {
    "reduce_window_max": (-math.inf, _larger),
    "reduce_window_sum": (0.0, operator.add),
}
"""Poolings: what stands where nothing is, and how two values become one."""
