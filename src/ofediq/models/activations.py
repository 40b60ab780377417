"""Activations as values: what each makes of a number, and its slope there, for NumPy and JAX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.errors import require

_HALF_WIDTH = math.sqrt(2 / math.pi)  # of the hyperbolic tangent that stands for the normal distribution
_CUBIC = 0.044715


@dataclass(frozen=True)
class Activation:
    """A function of one number.

    Attributes:
        word: its name in words.
        rises: whether it never falls, so that the largest of some values stays the largest.
    """

    word: ClassVar[str]
    rises: ClassVar[bool] = True

    def __str__(self) -> str:
        return self.word

    def value(self, x: Array) -> Array:
        """The function at `x`."""
        raise NotImplementedError

    def slope(self, x: Array, value: Array) -> Array:
        """Its derivative at `x`, where it is `value`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Identity(Activation):
    """x itself: a hidden layer without an activation."""

    word: ClassVar[str] = "identity"

    def value(self, x: Array) -> Array:
        """`x`."""
        return x

    def slope(self, x: Array, value: Array) -> Array:
        """One."""
        return namespace(x).ones_like(x)


@dataclass(frozen=True)
class Relu(Activation):
    """max(0, x); nothing passes where it is not above zero."""

    word: ClassVar[str] = "relu"

    def value(self, x: Array) -> Array:
        """The larger one of `x` and 0."""
        return namespace(x).maximum(x, 0)

    def slope(self, x: Array, value: Array) -> Array:
        """One above zero."""
        return (value > 0).astype(np.float32)


@dataclass(frozen=True)
class Leaky(Activation):
    """x above zero, `below` times x below.

    Attributes:
        below: the slope there.
        at_zero: what counts as the slope at 0; by default `below`. Programs differ: jax.nn.leaky_relu has 1, and
            jnp.maximum(x, 0) has 1/2.
    """

    below: float = 0.01
    at_zero: float | None = None
    word: ClassVar[str] = "leaky"

    def __post_init__(self) -> None:
        require(0 <= self.below <= 1, "below", "must lie between 0 and 1", self.below)

    def __str__(self) -> str:
        zero = "" if self.at_zero in (None, self.below) else f" {self.at_zero:g}"
        return f"leaky {self.below:g}{zero}"

    @property
    def corner(self) -> float:
        """The slope at 0."""
        return self.below if self.at_zero is None else self.at_zero

    def value(self, x: Array) -> Array:
        """`x`, or less of it."""
        return namespace(x).where(x > 0, x, np.float32(self.below) * x)

    def slope(self, x: Array, value: Array) -> Array:
        """One of three."""
        xp = namespace(x)
        return xp.where(
            x > 0, np.float32(1), xp.where(x < 0, np.float32(self.below), np.float32(self.corner))
        )


@dataclass(frozen=True)
class Tanh(Activation):
    """The hyperbolic tangent."""

    word: ClassVar[str] = "tanh"

    def value(self, x: Array) -> Array:
        """tanh(x)."""
        return namespace(x).tanh(x)

    def slope(self, x: Array, value: Array) -> Array:
        """1 - tanh^2."""
        return 1 - value * value


@dataclass(frozen=True)
class Sigmoid(Activation):
    """1 / (1 + exp(-x))."""

    word: ClassVar[str] = "sigmoid"

    def value(self, x: Array) -> Array:
        """By the hyperbolic tangent, which does not overflow."""
        return _sigmoid(x)

    def slope(self, x: Array, value: Array) -> Array:
        """q (1 - q)."""
        return value * (1 - value)


@dataclass(frozen=True)
class Silu(Activation):
    """x times its sigmoid, also called swish; it falls below -1.28."""

    word: ClassVar[str] = "silu"
    rises: ClassVar[bool] = False

    def value(self, x: Array) -> Array:
        """x q."""
        return x * _sigmoid(x)

    def slope(self, x: Array, value: Array) -> Array:
        """q + x q (1 - q)."""
        q = _sigmoid(x)
        return q + value * (1 - q)


@dataclass(frozen=True)
class Gelu(Activation):
    """x times the probability that a standard normal number lies below it; it falls below -0.75."""

    word: ClassVar[str] = "gelu"
    rises: ClassVar[bool] = False

    def value(self, x: Array) -> Array:
        """x P(x)."""
        return x * _normal(x)[0]

    def slope(self, x: Array, value: Array) -> Array:
        """P(x) + x p(x)."""
        below, density = _normal(x)
        return below + x * density


@dataclass(frozen=True)
class GeluTanh(Activation):
    """What many programs compute for `Gelu`: a hyperbolic tangent stands for the normal distribution."""

    word: ClassVar[str] = "gelu-tanh"
    rises: ClassVar[bool] = False

    def value(self, x: Array) -> Array:
        """x (1 + t) / 2."""
        return np.float32(0.5) * x * (1 + self._tangent(x))

    def slope(self, x: Array, value: Array) -> Array:
        """(1 + t) / 2 + x / 2 (1 - t^2) d t'."""
        t = self._tangent(x)
        inner = np.float32(_HALF_WIDTH) * (1 + np.float32(3 * _CUBIC) * x * x)
        return np.float32(0.5) * (1 + t + x * (1 - t * t) * inner)

    def _tangent(self, x: Array) -> Array:
        return namespace(x).tanh(np.float32(_HALF_WIDTH) * (x + np.float32(_CUBIC) * x * x * x))


@dataclass(frozen=True)
class Elu(Activation):
    """x above zero, exp(x) - 1 below."""

    word: ClassVar[str] = "elu"

    def value(self, x: Array) -> Array:
        """Nothing that overflows is computed."""
        xp = namespace(x)
        return xp.where(x > 0, x, xp.expm1(xp.minimum(x, 0)))

    def slope(self, x: Array, value: Array) -> Array:
        """One above zero."""
        return namespace(x).where(x > 0, np.float32(1), value + 1)


@dataclass(frozen=True)
class Softplus(Activation):
    """log(1 + exp(x))."""

    word: ClassVar[str] = "softplus"

    def value(self, x: Array) -> Array:
        """Nothing that overflows is computed."""
        xp = namespace(x)
        return xp.maximum(x, 0) + xp.log1p(xp.exp(-abs(x)))

    def slope(self, x: Array, value: Array) -> Array:
        """The sigmoid."""
        return _sigmoid(x)


ACTIVATIONS: tuple[type[Activation], ...] = (
    Identity,
    Relu,
    Tanh,
    Leaky,
    Sigmoid,
    Silu,
    Gelu,
    GeluTanh,
    Elu,
    Softplus,
)
"""All there are, in the order of their numbers in the kernels."""


def _sigmoid(x: Array) -> Array:
    half = np.float32(0.5)
    return half * (1 + namespace(x).tanh(half * x))


def _normal(x: Array) -> tuple[Array, Array]:
    """The distribution of a standard normal number and its density; Hastings' fraction, to 1e-7."""
    xp = namespace(x)
    bell = xp.exp(np.float32(-0.5) * x * x)
    t = 1 / (1 + np.float32(0.3275911 / math.sqrt(2)) * abs(x))
    tail = np.float32(0)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail = (tail + np.float32(factor)) * t
    tail = np.float32(0.5) * tail * bell
    return xp.where(x > 0, 1 - tail, tail), np.float32(1 / math.sqrt(2 * math.pi)) * bell
