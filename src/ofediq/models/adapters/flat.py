"""Parameters of any structure as one flat float32 vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ofediq.arrays import Array, Vector
from ofediq.errors import InputError, extra, require


@dataclass(frozen=True)
class Layout:
    """How a flat vector unfolds into a tree of arrays.

    Attributes:
        names: the path of each array in the tree.
        shapes: its shape.
        unflatten: from a vector [dim] to the tree; traceable by JAX.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    unflatten: Callable[[Array], Any]

    @property
    def dim(self) -> int:
        """D, the number of parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes)


def flatten(tree: Any, argument: str = "params") -> tuple[Vector, Layout]:
    """The numbers in `tree` as one vector, and its layout; errors name `argument`.

    >>> vector, layout = flatten({"bias": np.zeros(2), "weights": np.ones((3, 2))})
    >>> layout.dim, layout.shapes
    (8, ((2,), (3, 2)))
    >>> float(layout.unflatten(vector)["weights"].sum())
    6.0
    """
    jax = extra("jax", "sim")
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    names = tuple(jax.tree_util.keystr(path) or "the vector" for path, _ in paths)
    leaves = [_checked(leaf, name, argument) for name, (_, leaf) in zip(names, paths, strict=True)]
    require(sum(leaf.size for leaf in leaves) > 0, argument, "must hold at least one number", tree)
    same = jax.tree.unflatten(jax.tree.structure(tree), leaves)
    vector, unflatten = extra("jax.flatten_util", "sim").ravel_pytree(same)
    return np.asarray(vector), Layout(names, tuple(leaf.shape for leaf in leaves), unflatten)


def _checked(leaf: Any, name: str, argument: str) -> Vector:
    """`leaf` as float32; only finite floating-point numbers can be learnt."""
    jnp = extra("jax.numpy", "sim")
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    if not jnp.issubdtype(dtype, jnp.floating):
        raise InputError(f"`{argument}` must hold floating-point numbers only, got {dtype} at {name}")
    array = np.asarray(leaf).astype(np.float32)
    if not np.isfinite(array).all():
        raise InputError(f"`{argument}` must be finite in float32, got a value that is not at {name}")
    return array
