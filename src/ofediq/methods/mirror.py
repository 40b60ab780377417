"""Mirror maps: the geometry in which a step is taken.

Online mirror descent takes its step in the dual space and comes back:

    w' = back(dual(w) - eta * gradient)

With the Euclidean map both ways are the identity and this is gradient descent. The entropic maps turn it into the
exponentiated gradient, for weights that must stay positive (and sum to one).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.errors import require_choice
from ofediq.methods.pieces import piece


class MirrorMap(abc.ABC):
    """A way to the dual space and back."""

    name: str
    """Short name."""

    @abc.abstractmethod
    def start(self, params: Array) -> Array:
        """`params` if they lie in the domain of the map, else its centre."""

    @abc.abstractmethod
    def dual(self, params: Array) -> Array:
        """To the dual space."""

    @abc.abstractmethod
    def back(self, dual: Array) -> Array:
        """From the dual space to the parameters."""


@piece
@dataclass(frozen=True)
class Euclidean(MirrorMap):
    """phi(w) = ||w||^2 / 2: all of R^D; mirror descent is gradient descent."""

    name = "euclidean"

    def start(self, params: Array) -> Array:
        """`params`: every point lies in the domain."""
        return params

    def dual(self, params: Array) -> Array:
        """The identity."""
        return params

    def back(self, dual: Array) -> Array:
        """The identity."""
        return dual


@piece
@dataclass(frozen=True)
class Entropic(MirrorMap):
    """phi(w) = sum w log w: positive weights, on the `simplex` (they sum to one) or unconstrained above zero.

    dual(w) = log w; back(z) = exp(z), divided by its sum on the simplex.
    """

    simplex: bool = True

    @property
    def name(self) -> str:  # type: ignore[override]  # it depends on the domain
        """Short name."""
        return "simplex" if self.simplex else "positive"

    def start(self, params: Array) -> Array:
        """`params` if all are positive (and sum to one), else equal weights of 1 / D."""
        inside = bool((params > 0).all()) and (not self.simplex or abs(float(params.sum()) - 1.0) < 1e-5)
        return params if inside else namespace(params).full_like(params, 1.0 / params.shape[-1])

    def dual(self, params: Array) -> Array:
        """The logarithm; a weight that has underflowed to zero stays at the smallest normal number."""
        xp = namespace(params)
        return xp.log(xp.maximum(params, np.finfo(np.float32).tiny))

    def back(self, dual: Array) -> Array:
        """The exponential, normalised on the simplex."""
        xp = namespace(dual)
        if not self.simplex:
            return xp.exp(dual)
        weights = xp.exp(dual - dual.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)


def mirror_map(name: str) -> MirrorMap:
    """The mirror map called `name`: euclidean, simplex or positive.

    >>> mirror_map("simplex").back(np.zeros(4))
    array([0.25, 0.25, 0.25, 0.25])
    """
    require_choice("mirror", name, ("euclidean", "simplex", "positive"))
    return Euclidean() if name == "euclidean" else Entropic(simplex=name == "simplex")
