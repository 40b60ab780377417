"""What a model offers: the narrow seam between learning and everything else.

A model works on flat float32 parameter vectors of length `dim`. The engine calls three functions and knows
nothing else about it:

- `evaluate(params, xs, ys)`: losses and errors of many clients under one common model;
- `client_gradients(params, xs, ys)`: one gradient per client, under a common model or one model per client;
- `batch_gradient(params, xs, ys, weights)`: the weighted sum of the gradients, with losses and errors.

`LayeredModel` derives all three from a forward and a backward pass. A model from elsewhere (`adapters`) brings
its own.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from ofediq.arrays import Array, Vector, namespace
from ofediq.errors import InputError
from ofediq.wrapping import of_inner

if TYPE_CHECKING:
    from ofediq.models.stack import Network

Task = Literal["classification", "regression"]

Experts: TypeAlias = tuple[tuple[Array, Array], ...]
"""Models whose outputs are mixed: (weight, params) each; weights are numbers or [n], params [dim] or [n, dim]."""


class Model(abc.ABC):
    """A model on flat parameter vectors.

    Attributes:
        name: short name, as the command line knows it.
        task: what it predicts: a class (cross-entropy, 0/1 error) or a number (squared error).
        dim: D, the number of parameters.
        convex: whether the loss is convex in the parameters, as the regret theorems assume.
        chunk: how many clients one pass should hold at once; bounds the memory of the simulator.
        evaluate_chunk: the same for `evaluate` alone, which keeps no gradients; None for `chunk`.
        sender_chunk: the same for gradients that become messages and memories; None for `chunk`.
    """

    name: str
    task: Task
    dim: int
    convex: bool = False
    chunk: int = 256
    evaluate_chunk: int | None = None
    sender_chunk: int | None = None

    @abc.abstractmethod
    def initial(self, seed: int = 0) -> Vector:
        """w_1: the parameters before the first step."""

    @abc.abstractmethod
    def predict(self, params: Array, xs: Array) -> Array:
        """The predicted class (int) or number (float) for each sample."""

    def probabilities(self, experts: Experts, xs: Array) -> Array | None:
        """Of each class for each sample by mixed outputs, [n, classes]; None where the model has none."""
        return None

    @abc.abstractmethod
    def evaluate(self, params: Array, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Losses and errors, each [n]: the error is 0 or 1 in classification, squared in regression."""

    def evaluate_mixture(self, experts: Experts, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Losses and errors of the weighted mean of several models' outputs: (weight, params) each."""
        raise InputError(f"`model` must offer its outputs to be mixed, got {self.name!r}")

    def predict_mixture(self, experts: Experts, xs: Array) -> Array:
        """What `predict` says of the weighted mean of several models' outputs."""
        if len(experts) > 1:
            raise InputError(f"`model` must offer its outputs to be mixed, got {self.name!r}")
        return self.predict(experts[0][1], xs)

    @abc.abstractmethod
    def client_gradients(self, params: Array, xs: Array, ys: Array) -> Array:
        """One gradient per sample, [n, dim]; `params` is [dim], or [n, dim] with one model per sample."""

    @abc.abstractmethod
    def batch_gradient(
        self, params: Array, xs: Array, ys: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Losses [n], errors [n] and the weighted sum of the gradients, [dim]."""

    @property
    def deep(self) -> bool:
        """Whether hidden layers stand beside a naive forecast: then first moves should be small."""
        return False

    @property
    def linear_outputs(self) -> int:
        """Outputs of a linear model without penalty, whose gradients tell their sample; 0 for any other."""
        return 0

    def smoothness(self, xs: Vector) -> float | None:
        """beta of Assumption 2 over the samples `xs`, where it is known; else None."""
        return None

    def stack(self, shape: tuple[int, ...]) -> Network | str:
        """The layers that compute the same on samples of this `shape`, or why there are none, in one sentence."""
        return f"{self.name!r} is no stack of layers"

    def scores(self, shape: tuple[int, ...]) -> int | None:
        """How many class scores a sample of this `shape` gets, if that is known."""
        return None

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration."""
        return {"name": self.name, "task": self.task, "dim": self.dim, "convex": self.convex}


class Around(Model):
    """A model around another one: what is said of it here is the inner one's."""

    inner: Any

    name = of_inner()
    task = of_inner()
    dim = of_inner()
    convex = of_inner()
    chunk = of_inner()


class LayeredModel(Model):
    """A model given by a forward pass and a hand-derived backward pass.

    Loss: cross-entropy of softmax outputs, or `(prediction - y)^2`; plus `l2 / 2 * ||params||^2`.
    """

    l2: float = 0.0

    @abc.abstractmethod
    def forward(self, params: Array, xs: Array) -> tuple[Array, Any]:
        """Outputs [n, outputs], and what the backward pass needs."""

    @abc.abstractmethod
    def backward(self, params: Array, cache: Any, deltas: Array, each: bool) -> Array:
        """Gradients from `deltas` = d loss / d outputs: [n, dim] if `each`, else their sum, [dim]."""

    def scores(self, shape: tuple[int, ...]) -> int | None:
        """How many class scores a sample of this `shape` gets."""
        return int(self.forward(self.initial(0), np.zeros((1, *shape), np.float32))[0].shape[-1])

    def predict(self, params: Array, xs: Array) -> Array:
        """The predicted class (int) or number (float) for each sample."""
        return self._answer(self.forward(params, xs)[0])

    def probabilities(self, experts: Experts, xs: Array) -> Array | None:
        """Softmax of mixed outputs."""
        if self.task == "regression":
            return None
        outputs, _ = self._mixed(experts, xs)
        exponentials = namespace(outputs).exp(outputs - outputs.max(-1)[..., None])
        return exponentials / exponentials.sum(-1)[..., None]

    def evaluate(self, params: Array, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Losses and errors of each sample."""
        outputs, _ = self.forward(params, xs)
        losses, errors, _ = self._head(outputs, ys)
        return losses + self._penalty(params), errors

    def evaluate_mixture(self, experts: Experts, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Losses and errors of mixed outputs, with the weighted mean of the penalties."""
        outputs, penalty = self._mixed(experts, xs)
        losses, errors, _ = self._head(outputs, ys)
        return losses + penalty, errors

    def predict_mixture(self, experts: Experts, xs: Array) -> Array:
        """The class or number that mixed outputs mean."""
        return self._answer(self._mixed(experts, xs)[0])

    def client_gradients(self, params: Array, xs: Array, ys: Array) -> Array:
        """One gradient per sample."""
        outputs, cache = self.forward(params, xs)
        _, _, deltas = self._head(outputs, ys)
        gradients = self.backward(params, cache, deltas, each=True)
        return gradients + np.float32(self.l2) * params if self.l2 else gradients

    def batch_gradient(
        self, params: Array, xs: Array, ys: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Losses, errors and the weighted sum of the gradients."""
        outputs, cache = self.forward(params, xs)
        losses, errors, deltas = self._head(outputs, ys)
        gradient = self.backward(params, cache, deltas * weights[:, None], each=False)
        if self.l2:
            gradient = gradient + np.float32(self.l2) * weights.sum() * params
        return losses + self._penalty(params), errors, gradient

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration."""
        return {**super().describe(), "l2": self.l2}

    def _answer(self, outputs: Array) -> Array:
        """The class or number that outputs mean."""
        return outputs.argmax(-1) if self.task == "classification" else outputs[..., 0]

    def _mixed(self, experts: Experts, xs: Array) -> tuple[Array, Array]:
        """The weighted means of outputs and of penalties; an expert without weight may have diverged."""
        xp = namespace(xs)
        shares = [xp.broadcast_to(xp.asarray(weight), (xs.shape[0],)) for weight, _ in experts]
        total, outputs, penalty = sum(shares), np.float32(0), np.float32(0)
        for share, (_, params) in zip(shares, experts, strict=True):
            part = share / total
            scores = self.forward(params, xs)[0]
            outputs = outputs + xp.where(part[:, None] > 0, part[:, None] * scores, np.float32(0))
            penalty = penalty + xp.where(part > 0, part * self._penalty(params), np.float32(0))
        return outputs, penalty

    def _penalty(self, params: Array) -> Array | float:
        return np.float32(self.l2 / 2) * (params * params).sum(-1) if self.l2 else np.float32(0)

    def _head(self, outputs: Array, ys: Array) -> tuple[Array, Array, Array]:
        """Losses, errors and d loss / d outputs."""
        if self.task == "regression":
            residual = outputs[..., 0] - ys
            squared = residual * residual
            return squared, squared, (2 * residual)[..., None]
        xp = namespace(outputs)
        shifted = outputs - outputs.max(-1)[..., None]
        exponentials = xp.exp(shifted)
        total = exponentials.sum(-1)
        hot = (xp.arange(outputs.shape[-1]) == ys[..., None]).astype(np.float32)
        losses = xp.log(total) - (shifted * hot).sum(-1)
        errors = (outputs.argmax(-1) != ys).astype(np.float32)
        return losses, errors, exponentials / total[..., None] - hot
