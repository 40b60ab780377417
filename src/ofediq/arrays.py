"""Code that runs on NumPy and JAX arrays alike.

A device holds NumPy arrays, the simulator traces JAX arrays. Pieces that both run (models, compressors,
participation, whole rounds) are written once, against the functions that the two libraries share.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

Array: TypeAlias = Any
"""A NumPy or a JAX array: code that takes one returns the same kind."""

Vector: TypeAlias = npt.NDArray[np.float32]
"""Models, updates and samples, and rows of them."""
Floats: TypeAlias = npt.NDArray[np.float64]
"""Curves, sums and whatever else is worked out in double precision."""
Flags: TypeAlias = npt.NDArray[np.bool_]
"""Who is there, which counts."""
Numbers: TypeAlias = npt.NDArray[Any]
"""NumPy arrays of any kind of number."""

FASTER: dict[str, Callable[..., Any]] = {}
"""Compiled code, by name, for what JAX does slowly on a CPU; where it cannot serve it returns None."""


def faster(name: str, array: Array, *rest: Any) -> Any:
    """What the compiled `name` makes of a JAX array, or None: the caller then does it itself."""
    if isinstance(array, np.ndarray) or name not in FASTER:
        return None
    return FASTER[name](array, *rest)


def namespace(array: Array) -> ModuleType:
    """The library that `array` belongs to: `numpy` or `jax.numpy`.

    >>> namespace(np.zeros(3)).__name__
    'numpy'
    """
    return cast(ModuleType, array.__array_namespace__())


def map_leaves(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """`function` on every array in nested tuples, named tuples, lists and dicts; `others` have the same shape.

    What `jax.tree.map` does, for devices without JAX.

    >>> map_leaves(lambda a, b: a + b, {"x": (1, 2)}, {"x": (10, 20)})
    {'x': (11, 22)}
    """
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: map_leaves(function, tree[key], *(other[key] for other in others)) for key in tree}
    if isinstance(tree, (tuple, list)):
        parts = [map_leaves(function, *parts) for parts in zip(tree, *others, strict=True)]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree, *others)


def repeat(times: int, step: Callable[[Any], Any], state: Any) -> Any:
    """`state` after so many times `step`; with JAX one loop, so that a compiler reads `step` once.

    >>> repeat(3, lambda pair: (pair[0] + pair[1], pair[1]), (np.ones(1), np.full(1, 2.0)))
    (array([7.]), array([2.]))
    """
    if hasattr(state[0], "aval"):
        return importlib.import_module("jax.lax").fori_loop(0, times, lambda _, now: step(now), state)
    for _ in range(times):
        state = step(state)
    return state


def float32(value: Any) -> Array:
    """A number, or a JAX value, in single precision."""
    return value.astype(np.float32) if hasattr(value, "aval") else np.float32(value)


def column(mask: Array, like: Array) -> Array:
    """`mask` [n] shaped to broadcast against `like` [n, ...].

    >>> column(np.ones(2), np.ones((2, 3, 4))).shape
    (2, 1, 1)
    """
    return mask.reshape(mask.shape + (1,) * (like.ndim - 1))
