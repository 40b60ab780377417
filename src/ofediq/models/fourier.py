"""Random Fourier features: kernel regression as a linear model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.errors import InputError, require, require_integer, require_nonnegative
from ofediq.models.base import LayeredModel, Task


@dataclass(frozen=True)
class RandomFeatures(LayeredModel):
    """f(x) = sum over kernels i of theta_i . z_i(x); made by `random_features`.

    z_i(x) = m^-1/2 [cos(U_i x), sin(U_i x)] with m rows in U_i, drawn from N(0, 1 / width_i^2): z_i(x) . z_i(x') is
    about exp(-||x - x'||^2 / (2 width_i^2)), the Gaussian kernel (Rahimi and Recht, 2007). The parameters of a kernel
    lie together, [kernels, 2 m, outputs], so that methods can treat kernels apart.

    Attributes:
        features: numbers in a sample.
        widths: one for each kernel.
        pairs: m.
        outputs: class scores, or one.
        l2: penalty `l2 / 2 * ||params||^2`.
        seed: of the directions U, which are part of the model: the same for all clients and runs.
    """

    features: int
    widths: tuple[float, ...]
    pairs: int
    task: Task
    outputs: int = 1
    l2: float = 0.0
    seed: int = 0
    chunk: int = 256
    name = "random_features"
    convex = True

    @property
    def dim(self) -> int:  # type: ignore[override]  # derived here, an attribute in the base class
        """D = 2 m outputs for each kernel."""
        return 2 * self.pairs * len(self.widths) * self.outputs

    @cached_property
    def directions(self) -> Vector:
        """U, [features, kernels x m]."""
        rng = np.random.default_rng([self.seed, self.features])
        drawn = rng.standard_normal((self.features, len(self.widths), self.pairs))
        scaled = drawn / np.asarray(self.widths)[None, :, None]
        return np.asarray(scaled.reshape(self.features, -1), np.float32)

    def initial(self, seed: int = 0) -> Vector:
        """Zero, as the theorems assume."""
        return np.zeros(self.dim, np.float32)

    def lifted(self, xs: Array) -> Array:
        """z(x) of each sample, [n, kernels x 2 m]."""
        xp = namespace(xs)
        angles = (xs.reshape(xs.shape[0], -1) @ self.directions).reshape(xs.shape[0], -1, self.pairs)
        both = xp.concatenate([xp.cos(angles), xp.sin(angles)], axis=-1)
        return np.float32(1 / math.sqrt(self.pairs)) * both.reshape(xs.shape[0], -1)

    def forward(self, params: Array, xs: Array) -> tuple[Array, Any]:
        """theta . z(x)."""
        z = self.lifted(xs)
        weights = params.reshape(*params.shape[:-1], z.shape[-1], self.outputs)
        return (z @ weights if weights.ndim == 2 else (z[:, None, :] @ weights)[:, 0]), z

    def backward(self, params: Array, cache: Any, deltas: Array, each: bool) -> Array:
        """z times deltas."""
        if each:
            return (cache[:, :, None] * deltas[:, None, :]).reshape(cache.shape[0], -1)
        return (cache.T @ deltas).reshape(-1)

    def smoothness(self, xs: Vector) -> float:
        """beta = c kernels + l2, since ||z_i(x)|| = 1 for every sample; c = 2 for squared errors, else 1/2."""
        return (2.0 if self.task == "regression" else 0.5) * len(self.widths) + self.l2

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration."""
        shown = {"widths": list(self.widths), "pairs": self.pairs, "seed": self.seed}
        return {**super().describe(), **shown}


def random_features(
    features: int,
    *,
    kernels: int | tuple[float, ...] = 1,
    pairs: int = 100,
    task: Task = "regression",
    classes: int | None = None,
    l2: float = 0.0,
    seed: int = 0,
) -> RandomFeatures:
    """Linear on random Fourier features of Gaussian kernels: convex, and no longer linear in x.

    Args:
        features: numbers in a sample.
        kernels: how many, with widths 1/2, 1, 2, 4, ... (one alone has width 1); or their widths.
        pairs: directions for each kernel, two features each.
        task: "classification" or "regression".
        classes: the number of class scores.
        l2: penalty `l2 / 2 * ||params||^2`.
        seed: of the directions.

    >>> random_features(5, kernels=8).dim, random_features(5, kernels=(0.5, 2.0), pairs=10).dim
    (1600, 40)
    """
    require_integer("features", features, 1)
    require_integer("pairs", pairs, 1)
    require_integer("seed", seed, 0)
    if isinstance(kernels, (tuple, list)):
        widths = tuple(float(width) for width in kernels)
        positive = bool(widths) and all(math.isfinite(width) and width > 0 for width in widths)
        require(positive, "kernels", "must be how many, or positive widths", kernels)
    else:
        require_integer("kernels", kernels, 1, 64)
        widths = (1.0,) if kernels == 1 else tuple(2.0**power for power in range(-1, kernels - 1))
    outputs = 1
    if task == "classification":
        if classes is None or classes < 2:
            raise InputError(f"`classes` must be at least 2 for classification, got {classes}")
        outputs = classes
    chunk = min(256, max(8, 2**22 // (2 * pairs * len(widths) * outputs)))
    return RandomFeatures(features, widths, pairs, task, outputs, require_nonnegative("l2", l2), seed, chunk)
