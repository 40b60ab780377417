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

import numpy as np

from ofediq.arrays import FASTER, Array, faster
from ofediq.errors import extra

_CALLS = ("jit", "pjit")  # functions inside of functions
_MANY = 2**14  # numbers to be added up
_LARGEST = 49  # places in a filter or window; patches are so many times larger than the image

Better = Callable[[Any], Callable[..., Any] | None]
"""From an operation of a program to what computes the same faster, if anything does."""


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
    return _rewritten(function, _product_of)


def with_sums(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with sums of many numbers by kernels, where there are some: XLA adds one number after another.

    Kernels have no derivatives here: it goes around a gradient, not into it.
    """
    return _rewritten(function, _sum_of)


def _rewritten(function: Callable[..., Any], better: Better) -> Callable[..., Any]:
    """`function` with other operations in the places of some, where it runs on a CPU."""
    jax = extra("jax", "sim")

    def run(*arguments: Any) -> Any:
        if jax.default_backend() != "cpu":
            return function(*arguments)
        traced, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        if not _has_any(traced.jaxpr, better):
            return function(*arguments)
        results = _evaluate(traced.jaxpr, traced.consts, jax.tree.leaves(arguments), better)
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return run


def _has_any(jaxpr: Any, better: Better) -> bool:
    inner = (equation.params.get("jaxpr") for equation in jaxpr.eqns if equation.primitive.name in _CALLS)
    here = any(better(equation) is not None for equation in jaxpr.eqns)
    return here or any(_has_any(one.jaxpr, better) for one in inner if one is not None)


def _product_of(equation: Any) -> Callable[..., Any] | None:
    """What computes the same as a convolution or a pooling, faster; None where it is fast."""
    name = equation.primitive.name
    if name == "conv_general_dilated":
        return _product if _is_plain(equation) else None
    if name in _FOLDS:
        return partial(_folded, name) if _is_moderate(equation) else None
    return None


def _sum_of(equation: Any) -> Callable[..., Any] | None:
    """The same of sums."""
    values = equation.invars[0].aval if equation.primitive.name == "reduce_sum" else None
    many = values is not None and values.dtype == np.float32 and values.size >= _MANY
    return _summed if many and "sums" in FASTER else None


def _evaluate(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any], better: Better) -> list[Any]:
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def value(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.eqns:
        inputs = [value(atom) for atom in equation.invars]
        name, inner = equation.primitive.name, equation.params.get("jaxpr")
        other = better(equation)
        if other is not None:
            results = [other(*inputs, **equation.params)]
        elif name in _CALLS and inner is not None:
            results = _evaluate(inner.jaxpr, inner.consts, inputs, better)
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
    """A convolution in any number of dimensions: by kernels, or patches times filters, group by group."""
    numbers, groups = params["dimension_numbers"], params["feature_group_count"]
    how = (params["window_strides"], params["rhs_dilation"], params["padding"], groups)
    ahead = tuple(range(images.ndim))  # channels, or units, stand in front
    first, units_first = numbers.lhs_spec == numbers.out_spec == ahead, numbers.rhs_spec == ahead
    batch, feature, *spatial = numbers.lhs_spec
    out, given, *sides = numbers.rhs_spec
    behind = images.transpose(batch, *spatial, feature), filters.transpose(*sides, given, out)
    arrays = images if first else behind[0], filters if units_first else behind[1]
    maps = faster("convolution", *arrays, *how, first, units_first)
    if maps is not None and first:
        return maps
    if maps is None:
        maps = _patched(*behind, *how)
    order = [0] * maps.ndim
    for place, axis in zip(numbers.out_spec, (0, maps.ndim - 1, *range(1, maps.ndim - 1)), strict=True):
        order[place] = axis
    return maps.transpose(*order)


def _patched(
    images: Array,
    filters: Array,
    steps: Sequence[int],
    spread: Sequence[int],
    padding: Sequence[tuple[int, int]],
    groups: int,
) -> Array:
    """Maps [n, *positions, units] of images and filters whose channels come last."""
    jnp = extra("jax.numpy", "sim")
    images = jnp.pad(images, ((0, 0), *padding, (0, 0)))
    *size, channels, units = filters.shape
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
    return maps.reshape(*shape, units)


def _shifted(array: Array, offset: Sequence[int], window: Sequence[int], steps: Sequence[int]) -> Array:
    """The value at this `offset` of each window."""
    jax = extra("jax", "sim")
    counts = [(side - size) // step + 1 for side, size, step in zip(array.shape, window, steps, strict=True)]
    ends = [start + (count - 1) * step + 1 for start, count, step in zip(offset, counts, steps, strict=True)]
    shifted: Array = jax.lax.slice(array, offset, ends, steps)
    return shifted


def _summed(values: Array, *, axes: Sequence[int], **_: Any) -> Array:
    """Sums along `axes`: neighbours at once, the first ones first."""
    rest = sorted(axes)
    while rest:
        first = rest[0]
        among = [axis for place, axis in enumerate(rest) if axis == first + place]
        before, within = values.shape[:first], values.shape[first : first + len(among)]
        after = values.shape[first + len(among) :]
        blocks = values.reshape(math.prod(before), math.prod(within), math.prod(after))
        found = faster("sums", blocks)
        values = (blocks.sum(1) if found is None else found).reshape(*before, *after)
        rest = [axis - len(among) for axis in rest[len(among) :]]
    return values


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
