"""Code that runs on NumPy and JAX arrays alike.

A device holds NumPy arrays, the simulator traces JAX arrays. Pieces that both run (models, compressors,
participation) are written once, against the functions that the two libraries share.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeAlias, cast

Array: TypeAlias = Any
"""A NumPy or a JAX array: code that takes one returns the same kind."""


def namespace(array: Array) -> ModuleType:
    """The library that `array` belongs to: `numpy` or `jax.numpy`.

    >>> import numpy as np
    >>> namespace(np.zeros(3)).__name__
    'numpy'
    """
    return cast(ModuleType, array.__array_namespace__())
