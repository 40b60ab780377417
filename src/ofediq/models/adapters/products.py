"""Convolutions of a JAX function as matrix products: XLA's own are slow on a CPU, backward and in loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ofediq.arrays import Array
from ofediq.errors import extra

_CALLS = ("jit", "pjit")  # functions inside of functions
_LARGEST = 49  # places in a filter; patches are so many times larger than the image


def with_products(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its plain convolutions in two dimensions as matrix products, where it runs on a CPU.

    Results are the same up to rounding. Everything else, and derivatives that somebody has defined, stay as they are.

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
        if not _convolves(traced.jaxpr):
            return function(*arguments)
        results = _evaluate(traced.jaxpr, traced.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return run


def _convolves(jaxpr: Any) -> bool:
    inner = (equation.params.get("jaxpr") for equation in jaxpr.eqns if equation.primitive.name in _CALLS)
    plain = any(_is_plain(equation) for equation in jaxpr.eqns)
    return plain or any(_convolves(one.jaxpr) for one in inner if one is not None)


def _evaluate(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def value(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.eqns:
        inputs = [value(atom) for atom in equation.invars]
        name, inner = equation.primitive.name, equation.params.get("jaxpr")
        if _is_plain(equation):
            results = [_product(*inputs, **equation.params)]
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
    """Whether it is a convolution in two dimensions, without dilation, in one group, with moderate filters."""
    if equation.primitive.name != "conv_general_dilated":
        return False
    params, spec = equation.params, equation.params["dimension_numbers"].rhs_spec
    sides = [equation.invars[1].aval.shape[axis] for axis in spec[2:]]
    ones = {
        *params["lhs_dilation"],
        *params["rhs_dilation"],
        params["feature_group_count"],
        params["batch_group_count"],
    }
    margins = [side for pair in params["padding"] for side in pair]
    return len(sides) == 2 and ones == {1} and sides[0] * sides[1] <= _LARGEST and min(margins) >= 0


def _product(images: Array, filters: Array, **params: Any) -> Array:
    jax = extra("jax", "sim")
    numbers, (down, right) = params["dimension_numbers"], params["window_strides"]
    batch, feature, *spatial = numbers.lhs_spec
    images = images.transpose(batch, *spatial, feature)
    out, given, *sides = numbers.rhs_spec
    filters = filters.transpose(*sides, given, out)
    height, width, channels, units = filters.shape
    images = jax.numpy.pad(images, ((0, 0), *params["padding"], (0, 0)))
    rows, columns = (
        (side - size) // step + 1
        for side, size, step in zip(images.shape[1:3], (height, width), (down, right), strict=True)
    )
    shifts = [
        images[:, i : i + (rows - 1) * down + 1 : down, j : j + (columns - 1) * right + 1 : right]
        for i in range(height)
        for j in range(width)
    ]
    patches = jax.numpy.concatenate(shifts, axis=-1)
    maps = patches.reshape(-1, height * width * channels) @ filters.reshape(-1, units)
    maps = maps.reshape(len(images), rows, columns, units)
    order = [0] * 4
    for place, axis in zip(numbers.out_spec, (0, 3, 1, 2), strict=True):
        order[place] = axis
    return maps.transpose(*order)
