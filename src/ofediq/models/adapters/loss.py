"""Any JAX function `loss(params, x, y)` as a model: gradients by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ofediq.arrays import Array, Vector
from ofediq.errors import InputError, extra
from ofediq.models.adapters.flat import Layout, flatten
from ofediq.models.adapters.lowering import lower as find_layers
from ofediq.models.adapters.lowering import lower_loss
from ofediq.models.adapters.outputs import checked_chunk, checked_outputs, checked_task, sample_loss
from ofediq.models.adapters.products import with_products, with_sums
from ofediq.models.base import Model, Task
from ofediq.models.stack import Network
from ofediq.models.stages import Shape

Lowering = Callable[[Shape], Network | str]
"""From the shape of a sample to a stack of layers with the same outputs, or why there is none."""


@dataclass(frozen=True, eq=False)
class LossModel(Model):
    """A model given by the loss of one sample; made by `from_loss`, `from_flax` and `from_equinox`.

    All functions run compiled. NumPy arrays in give NumPy arrays out, anything else JAX arrays. Two of these models
    are equal only if they are the same object: nobody can compare two functions.

    Attributes:
        loss: the loss of one sample from the tree of parameters.
        outputs: class scores or a number for one sample, if known.
        start: from a seed to the parameters before the first step.
        layout: how a flat vector unfolds into the tree.
        source: which adapter made the model.
        lowered: how a stack of layers is found that computes instead, or why not at all.
        head: the loss from outputs and label, where that is what it is.
    """

    name: str
    task: Task
    loss: Callable[[Any, Array, Array], Array]
    outputs: Callable[[Any, Array], Array] | None
    start: Callable[[int], Any]
    layout: Layout
    source: str
    convex: bool = False
    chunk: int = 256
    lowered: Lowering | str = "the loss is a function of its own"
    head: Callable[[Array, Array], Array] | None = None

    @property
    def dim(self) -> int:  # type: ignore[override]  # derived here, an attribute in the base class
        """D, the number of parameters in all arrays together."""
        return self.layout.dim

    def initial(self, seed: int = 0) -> Vector:
        """The given parameters, or what the given function makes of the seed."""
        vector, layout = flatten(self.start(seed))
        if (layout.names, layout.shapes) != (self.layout.names, self.layout.shapes):
            raise InputError(
                f"`params` must have the same structure for every seed, got another one at {seed}"
            )
        return vector

    def scores(self, shape: tuple[int, ...]) -> int | None:
        """How many class scores a sample of this `shape` gets; traced, not computed."""
        if self.outputs is None:
            return None
        jax, outputs = extra("jax", "sim"), self.outputs
        given = [jax.ShapeDtypeStruct(one, np.float32) for one in ((self.dim,), shape)]
        found = jax.eval_shape(lambda params, x: outputs(self.layout.unflatten(params), x), *given)
        return int(found.shape[-1])

    def predict(self, params: Array, xs: Array) -> Array:
        """The predicted class (int) or number (float) for each sample."""
        if self.outputs is None:
            raise InputError("`predict` must be given to `from_loss` for a model that predicts, got None")
        return self._run("predict", params, xs)

    def evaluate(self, params: Array, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Losses and errors of each sample."""
        # Traced, it stands in the engine's loops, where XLA's convolutions are slow forward too.
        looped = isinstance(xs, extra("jax", "sim").core.Tracer)
        losses, errors = self._run("evaluate_looped" if looped else "evaluate", params, xs, ys)
        return losses, errors

    def client_gradients(self, params: Array, xs: Array, ys: Array) -> Array:
        """One gradient per sample."""
        return self._run("client_gradients", params, xs, ys)

    def batch_gradient(
        self, params: Array, xs: Array, ys: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Losses, errors and the weighted sum of the gradients, in one pass over the batch."""
        losses, errors, gradient = self._run("batch_gradient", params, xs, ys, weights)
        return losses, errors, gradient

    def stack(self, shape: Shape) -> Network | str:
        """The layers that compute the same, with the same flat vector and start, or why there are none."""
        if isinstance(self.lowered, str):
            return self.lowered
        if shape not in self._stacks:
            found = self.lowered(shape)
            if isinstance(found, Network):
                found = replace(found, start=self.initial, chunk=min(found.chunk, self.chunk))
            self._stacks[shape] = found
        return self._stacks[shape]

    @cached_property
    def _stacks(self) -> dict[Shape, Network | str]:
        """What has been found."""
        return {}

    def _layers(self, xs: Array, ys: Array | None = None) -> Network | None:
        """The stack for these samples, if there is one and it has a score for each of these labels."""
        found = self.stack(tuple(xs.shape[1:]))
        if isinstance(found, str):
            return None
        known = isinstance(ys, np.ndarray) and self.task == "classification" and ys.size > 0
        if known and int(np.max(ys)) >= found.outputs:  # type: ignore[arg-type]  # an array here
            raise InputError(
                f"`module` must give a score for every label, got {found.outputs} for label {int(np.max(ys))}"  # type: ignore[arg-type]  # likewise
            )
        return found

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration; its code is the user's."""
        shapes = {
            name: list(shape) for name, shape in zip(self.layout.names, self.layout.shapes, strict=True)
        }
        return {**super().describe(), "source": self.source, "parameters": shapes}

    def _run(self, function: str, *arrays: Array) -> Any:
        layers = self._layers(*arrays[1:3])
        if layers is not None:
            return getattr(layers, function.removesuffix("_looped"))(*arrays)
        result = self._compiled[function](*arrays)
        if all(isinstance(array, np.ndarray) for array in arrays):
            return extra("jax", "sim").tree.map(np.asarray, result)
        return result

    @cached_property
    def _compiled(self) -> dict[str, Callable[..., Any]]:
        """The functions over many samples, each from one over one sample."""
        jax = extra("jax", "sim")

        def over_samples(one: Callable[..., Any]) -> Callable[..., Any]:
            def many(params: Array, *samples: Array) -> Any:
                axes = (0 if params.ndim == 2 else None, *(0 for _ in samples))
                return jax.vmap(one, in_axes=axes)(params, *samples)

            return many

        evaluate, learn = over_samples(self._evaluate_one), over_samples(with_products(self._evaluate_one))

        def flat(tree: Any) -> Array:
            return extra("jax.flatten_util", "sim").ravel_pytree(tree)[0]

        def gradient(params: Array, x: Array, y: Array) -> Array:
            # By the tree: a derivative by the flat vector would add up as many vectors as there are arrays.
            return flat(jax.grad(with_products(self._loss_of))(self.layout.unflatten(params), x, y))

        def batch_gradient(params: Array, xs: Array, ys: Array, weights: Array) -> tuple[Array, Array, Array]:
            def total(tree: Any) -> tuple[Array, tuple[Array, Array]]:
                axes = (None, 0, 0)
                losses, errors = jax.vmap(with_products(self._evaluate_of), axes)(tree, xs, ys)
                return weights @ losses, (losses, errors)

            found, (losses, errors) = jax.grad(total, has_aux=True)(self.layout.unflatten(params))
            return losses, errors, flat(found)

        functions = {
            "predict": over_samples(self._predict_one),
            "evaluate": evaluate,
            "evaluate_looped": with_sums(learn),
            "client_gradients": with_sums(over_samples(gradient)),
            "batch_gradient": with_sums(batch_gradient),
        }
        return {name: jax.jit(function) for name, function in functions.items()}

    def _loss_of(self, tree: Any, x: Array, y: Array) -> Array:
        """The loss of one sample."""
        loss = self.loss(tree, x, y)
        shape = np.shape(loss)
        if shape != ():
            raise InputError(f"`loss` must return one number per sample, got shape {list(shape)}")
        return loss

    def _predict_one(self, params: Array, x: Array) -> Array:
        return self._predict_of(self.layout.unflatten(params), x)

    def _predict_of(self, tree: Any, x: Array) -> Array:
        assert self.outputs is not None
        return self._predicted(self.outputs(tree, x))

    def _predicted(self, outputs: Array) -> Array:
        return outputs.argmax() if self.task == "classification" else outputs.reshape(())

    def _evaluate_one(self, params: Array, x: Array, y: Array) -> tuple[Array, Array]:
        return self._evaluate_of(self.layout.unflatten(params), x, y)

    def _evaluate_of(self, tree: Any, x: Array, y: Array) -> tuple[Array, Array]:
        if (
            self.head is not None and self.outputs is not None
        ):  # once: a compiler does not see that kernels do the same
            outputs = self.outputs(tree, x)
            loss, prediction = self.head(outputs, y), self._predicted(outputs)
        else:
            loss = self._loss_of(tree, x, y)
            if self.outputs is None:
                return loss, loss
            prediction = self._predict_of(tree, x)
        if self.task == "classification":
            return loss, (prediction != y).astype(np.float32)
        return loss, (prediction - y) ** 2


def model_of_outputs(
    outputs: Callable[[Any, Array], Array],
    start: Callable[[int], Any],
    task: Task,
    classes: int | None,
    *,
    name: str,
    convex: bool,
    chunk: int | None,
    source: str,
    lower: bool,
) -> LossModel:
    """A model from `outputs(params, x)` of one sample and `start(seed)`, a tree of parameters."""
    checked_task(task, classes)
    checked = checked_outputs(outputs, task, classes, "module")
    loss_of = sample_loss(task)

    def loss(params: Any, x: Array, y: Array) -> Array:
        return loss_of(checked(params, x), y)

    first = start(0)
    _, layout = flatten(first, "module")

    def lowered(shape: tuple[int, ...]) -> Network | str:
        return find_layers(checked, first, shape, task, name)

    chunk = checked_chunk(chunk, layout.shapes)
    how = lowered if lower else f"{name!r} was not to be lowered"
    return LossModel(name, task, loss, checked, start, layout, source, convex, chunk, how, loss_of)


def from_loss(
    loss: Callable[[Any, Array, Array], Array],
    params: Any,
    predict: Callable[[Any, Array], Array] | None = None,
    task: Task = "classification",
    *,
    classes: int | None = None,
    name: str = "own",
    convex: bool = False,
    chunk: int | None = None,
    lower: bool = True,
) -> LossModel:
    """A model from a JAX function `loss(params, x, y)` of one sample.

    Args:
        loss: the loss of one sample, one number. It is traced: write it in `jax.numpy`.
        params: the parameters before the first step, any tree of float arrays; or a function from a seed to
            such a tree. All arrays are kept in float32.
        predict: `predict(params, x)` for one sample: one score per class, of which the largest wins, or a number.
            The error that is reported comes from it. A classification needs it. A regression without it reports
            its loss as its error.
        task: "classification" (the label is an integer from 0) or "regression".
        classes: the number of scores, checked if given.
        name: what reports call the model.
        convex: declare the loss convex in the parameters, as the regret theorems assume. Nobody checks it.
        chunk: how many clients to hold at once; by default their gradients fit in 8 MiB (8 to 512 clients).
        lower: let ofediq's own layers compute where the loss is the cross-entropy or the squared error of a stack of
            layers that it knows: same parameters, same results up to rounding, and much faster.

    >>> import jax.numpy as jnp
    >>> def line(params, x):
    ...     return params["slope"] @ x + params["offset"]
    >>> def absolute(params, x, y):
    ...     return jnp.abs(line(params, x) - y)
    >>> start = {"slope": jnp.zeros(3), "offset": 0.0}
    >>> model = from_loss(absolute, start, predict=line, task="regression", convex=True)
    >>> losses, errors = model.evaluate(model.initial(), np.ones((2, 3)), np.array([1.0, -2.0]))
    >>> model.dim, losses.tolist(), errors.tolist()
    (4, [1.0, 2.0], [1.0, 4.0])
    """
    extra("jax", "sim")
    checked_task(task, classes)
    if not callable(loss):
        raise InputError(f"`loss` must be a function of params, x and y, got {loss!r}")
    if predict is None and task == "classification":
        raise InputError(
            "`predict` must be given for a classification task, a function from params and x to "
            "one score per class, got None"
        )
    outputs = None if predict is None else checked_outputs(predict, task, classes, "predict")
    start = params if _makes_parameters(params) else lambda seed: params
    first = start(0)
    _, layout = flatten(first)
    chunk = checked_chunk(chunk, layout.shapes)

    def lowered(shape: tuple[int, ...]) -> Network | str:
        return lower_loss(loss, outputs, first, shape, task, name)

    how = lowered if lower else f"{name!r} was not to be lowered"
    return LossModel(name, task, loss, outputs, start, layout, "loss", convex, chunk, how)


def _makes_parameters(params: Any) -> bool:
    """Whether `params` is a function from a seed; a tree may be callable too (an Equinox module), but is no leaf."""
    return callable(params) and bool(extra("jax", "sim").tree_util.all_leaves([params]))
