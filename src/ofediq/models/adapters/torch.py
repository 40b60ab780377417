"""A `torch.nn.Module` as a model: torch computes losses and gradients, the engine calls it from compiled code.

With NumPy arrays (on a device, without JAX) torch is called at once. With JAX arrays the call becomes a host
callback of the compiled program. What runs inside a callback touches no JAX function: it could wait for the very
program that waits for it.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ofediq.arrays import Array, Vector
from ofediq.errors import InputError, extra, require_integer
from ofediq.models.adapters.loss import LossModel, model_of_outputs
from ofediq.models.adapters.outputs import check_outputs, checked_chunk, checked_task
from ofediq.models.adapters.torch_module import Tensor, learnt, made, using_threads
from ofediq.models.adapters.torch_program import translate
from ofediq.models.base import Model, Task
from ofediq.models.stack import Network
from ofediq.models.stages import Shape

_PROBED = 16  # samples of the first batch that are compared with each alone


@dataclass(frozen=True, eq=False)
class TorchModel(Model):
    """A model whose outputs come from a torch module; made by `from_torch`.

    Attributes:
        module: a copy in evaluation mode, on the CPU, in float32; its own parameters are never used.
        make: from a seed to a module with the parameters before the first step.
        shapes: name and shape of each parameter that is learnt, in the order of the flat vector.
        classes: the number of class scores, if known.
        threads: how many threads torch uses for this model.
        lower: whether JAX, or a stack of layers, may compute instead of torch.
        in_turn: set when torch was found not to take several models or gradients at once.
        apart: whether samples of a batch know nothing of each other, when that has been found out.
    """

    name: str
    task: Task
    module: Any
    make: Callable[[int], Any]
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    classes: int | None
    convex: bool = False
    chunk: int = 256
    threads: int = 1
    lower: bool = True
    # Calling a module with other parameters puts them inside it for the time of the call, so one call at a time;
    # with clients on several devices, callbacks come from several threads.
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    in_turn: threading.Event = field(default_factory=threading.Event, repr=False)
    apart: list[bool] = field(default_factory=list, repr=False)

    @property
    def dim(self) -> int:  # type: ignore[override]  # derived here, an attribute in the base class
        """D, the number of parameters that require a gradient."""
        return sum(int(np.prod(shape)) for _, shape in self.shapes)

    def initial(self, seed: int = 0) -> Vector:
        """The module's parameters; those of the module that the given function makes of the seed."""
        parameters = learnt(made(self.make, seed))
        if tuple((name, tuple(value.shape)) for name, value in parameters) != self.shapes:
            raise InputError(f"`module` must have the same parameters for every seed, got others at {seed}")
        pieces = [value.detach().cpu().numpy().astype(np.float32).reshape(-1) for _, value in parameters]
        vector: Vector = np.concatenate(pieces)
        return vector

    def scores(self, shape: Shape) -> int | None:
        """How many class scores a sample of this `shape` gets."""
        torch = extra("torch", "torch")
        with torch.no_grad():
            return int(self._outputs(torch.tensor(self.initial(0)), torch.zeros(1, *shape)).shape[-1])

    def predict(self, params: Array, xs: Array) -> Array:
        """The predicted class (int) or number (float) for each sample."""
        inner = self._inner(xs)
        if inner is not None:
            return inner.predict(params, xs)
        kind = np.int32 if self.task == "classification" else np.float32
        return self._call(self._predict, [((len(xs),), kind)], params, xs)[0]

    def evaluate(self, params: Array, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Losses and errors of each sample."""
        inner = self._inner(xs)
        if inner is not None:
            return inner.evaluate(params, xs, ys)
        each = ((len(xs),), np.float32)
        losses, errors = self._call(self._evaluate, [each, each], params, xs, ys)
        return losses, errors

    def client_gradients(self, params: Array, xs: Array, ys: Array) -> Array:
        """One gradient per sample."""
        inner = self._inner(xs)
        if inner is not None:
            return inner.client_gradients(params, xs, ys)
        return self._call(self._gradients, [((len(xs), self.dim), np.float32)], params, xs, ys)[0]

    def batch_gradient(
        self, params: Array, xs: Array, ys: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Losses, errors and the weighted sum of the gradients, in one pass over the batch."""
        inner = self._inner(xs)
        if inner is not None:
            return inner.batch_gradient(params, xs, ys, weights)
        each, whole = ((len(xs),), np.float32), ((self.dim,), np.float32)
        losses, errors, gradient = self._call(
            self._batch_gradient, [each, each, whole], params, xs, ys, weights
        )
        return losses, errors, gradient

    def stack(self, shape: Shape) -> Network | str:
        """The layers that compute the same, with the same flat vector and start, or why there are none."""
        found = self._translated(shape)
        return found if isinstance(found, str) else found.stack(shape)

    def _inner(self, xs: Array) -> LossModel | None:
        """What computes in JAX instead of torch, if anything."""
        found = self._translated(tuple(xs.shape[1:]))
        return None if isinstance(found, str) else found

    def _translated(self, shape: Shape) -> LossModel | str:
        """The same model in JAX, for samples of this shape, or why there is none."""
        if not self.lower:
            return f"{self.name!r} was not to be lowered"
        if shape not in self._translations:
            jax = sys.modules.get("jax")  # which may be tracing the program that asks
            with nullcontext() if jax is None else jax.ensure_compile_time_eval():
                outputs = translate(self.module, shape)
                self._translations[shape] = (
                    f"torch computes it: {outputs}" if isinstance(outputs, str) else self._in_jax(outputs)
                )
        return self._translations[shape]

    def _in_jax(self, outputs: Callable[..., Any]) -> LossModel:
        def start(seed: int) -> list[Vector]:
            sizes = np.cumsum([int(np.prod(shape)) for _, shape in self.shapes])[:-1]
            pieces = np.split(self.initial(seed), sizes)
            return [piece.reshape(shape) for piece, (_, shape) in zip(pieces, self.shapes, strict=True)]

        return model_of_outputs(
            outputs,
            start,
            self.task,
            self.classes,
            name=self.name,
            convex=self.convex,
            chunk=self.chunk,
            source="torch",
            lower=True,
        )

    @cached_property
    def _alone(self) -> Any:
        """The module for the samples of a batch one by one."""
        torch = extra("torch", "torch")

        class Alone(torch.nn.Sequential):  # type: ignore[misc, name-defined]  # torch is not typed here
            def forward(self, xs: Tensor) -> Tensor:
                return torch.cat([self[0](x[None]) for x in xs])

        return Alone(self.module)

    @cached_property
    def _translations(self) -> dict[Shape, LossModel | str]:
        """What has been found."""
        return {}

    def describe(self) -> dict[str, Any]:
        """What identifies this model in a run's configuration; its code is the user's."""
        shapes = {name: list(shape) for name, shape in self.shapes}
        return {**super().describe(), "source": "torch", "parameters": shapes}

    def _call(
        self, function: Callable[..., tuple[Tensor, ...]], results: list[tuple[Any, Any]], *arrays: Array
    ) -> tuple[Array, ...]:
        """`function` on tensors, from NumPy arrays now or from JAX arrays when the compiled program gets there."""
        torch = extra("torch", "torch")

        def host(*arrays: Array) -> tuple[Array, ...]:
            tensors = [torch.tensor(np.asarray(array)) for array in arrays]  # a copy: ours may be read-only
            with self.lock, using_threads(self.threads):
                found = function(tensors[0].float(), *tensors[1:])
            return tuple(
                value.detach().numpy().astype(dtype, copy=False)
                for value, (_, dtype) in zip(found, results, strict=True)
            )

        if all(isinstance(array, np.ndarray) for array in arrays):
            return host(*arrays)
        jax = extra("jax", "sim")
        promised = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results)
        given: tuple[Array, ...] = jax.pure_callback(host, promised, *arrays, vmap_method="sequential")
        return given

    def _predict(self, params: Tensor, xs: Tensor) -> tuple[Tensor]:
        with extra("torch", "torch").no_grad():
            return (self._predictions(self._outputs(params, xs)),)

    def _evaluate(self, params: Tensor, xs: Tensor, ys: Tensor) -> tuple[Tensor, Tensor]:
        with extra("torch", "torch").no_grad():
            outputs = self._outputs(params, xs)
            self._check_labels(outputs, ys)
            return self._losses(outputs, ys), self._errors(outputs, ys)

    def _gradients(self, params: Tensor, xs: Tensor, ys: Tensor) -> tuple[Tensor]:
        functions = extra("torch.func", "torch")

        def loss(params: Tensor, x: Tensor, y: Tensor) -> Tensor:
            return self._losses(self._batch_outputs(params, x[None]), y[None])[0]

        gradient = functions.grad(loss)
        if params.ndim == 2:
            return (self._each(gradient, params, xs, ys),)
        return (self._each(lambda x, y: gradient(params, x, y), xs, ys),)

    def _each(self, function: Callable[..., Tensor], *arrays: Tensor) -> Tensor:
        """`function` of each row: of all at once, or in turn where torch cannot, as with recurrent modules."""
        torch = extra("torch", "torch")
        if not self.in_turn.is_set():
            try:
                return torch.vmap(function)(*arrays)
            except (RuntimeError, InputError):  # if the rows themselves are wrong, the first of them tells
                self.in_turn.set()
        return torch.stack([function(*row) for row in zip(*arrays, strict=True)])

    def _batch_gradient(
        self, params: Tensor, xs: Tensor, ys: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        params.requires_grad_()
        outputs = self._outputs(params, xs)
        self._check_labels(outputs, ys)
        losses = self._losses(outputs, ys)
        (gradient,) = extra("torch", "torch").autograd.grad(weights.float() @ losses, params)
        return losses, self._errors(outputs, ys), gradient

    def _outputs(self, params: Tensor, xs: Tensor) -> Tensor:
        """Outputs of each sample, [n, ...]; `params` is [dim], or [n, dim] with one model per sample."""
        if params.ndim == 2:
            return self._each(lambda own, x: self._batch_outputs(own, x[None])[0], params, xs)
        if len(xs) == 1 or self._are_apart(params, xs):
            return self._batch_outputs(params, xs)
        return self._batch_outputs(params, xs, together=False)

    def _are_apart(self, params: Tensor, xs: Tensor) -> bool:
        """Whether the module gives each sample of a batch what it gives it alone, and does not branch on values."""
        if not self.apart:
            torch = extra("torch", "torch")
            with torch.no_grad():
                few = xs[:_PROBED]
                alone = self._batch_outputs(params, few, together=False)
                room = 1e-4 * (float(alone.abs().max()) + 1e-6)
                same = torch.allclose(self._batch_outputs(params, few), alone, 1e-3, room, equal_nan=True)
                self.apart.append(same and not self._branches(params, few))
        return self.apart[0]

    def _branches(self, params: Tensor, xs: Tensor) -> bool:
        """Whether a sample's values decide what is computed: torch then refuses to see many at once."""
        try:
            extra("torch", "torch").vmap(lambda x: self._batch_outputs(params, x[None])[0])(xs)
        except (RuntimeError, InputError) as error:
            return "data-dependent" in str(error)
        return False

    def _batch_outputs(self, params: Tensor, xs: Tensor, together: bool = True) -> Tensor:
        """What the module gives for a batch, or for each of it alone, with the parameters in the vector `params`."""
        torch = extra("torch", "torch")
        pieces = params.split([int(np.prod(shape)) for _, shape in self.shapes])
        named = {name: piece.view(shape) for (name, shape), piece in zip(self.shapes, pieces, strict=True)}
        try:
            if together:
                outputs = torch.func.functional_call(self.module, named, (xs,))
            else:  # parameters go in and out once
                outputs = torch.func.functional_call(
                    self._alone, {f"0.{name}": named[name] for name in named}, (xs,)
                )
        except RuntimeError as error:  # how torch says that shapes do not fit
            shape = list(xs.shape[1:])
            raise InputError(
                f"`module` must take a batch of float32 samples of shape {shape}: {error}"
            ) from error
        if not isinstance(outputs, torch.Tensor):
            raise InputError(f"`module` must give one tensor, got {type(outputs).__name__}")
        check_outputs(tuple(outputs.shape[1:]), self.task, self.classes, "module")
        return outputs

    def _check_labels(self, outputs: Tensor, ys: Tensor) -> None:
        if self.task == "classification" and int(ys.max()) >= outputs.shape[-1]:
            classes = outputs.shape[-1]
            raise InputError(
                f"`module` must give a score for every label, got {classes} for label {int(ys.max())}"
            )

    def _losses(self, outputs: Tensor, ys: Tensor) -> Tensor:
        if self.task == "classification":
            functional = extra("torch.nn.functional", "torch")
            return functional.cross_entropy(outputs, ys.long(), reduction="none")
        return self._errors(outputs, ys)

    def _errors(self, outputs: Tensor, ys: Tensor) -> Tensor:
        predictions = self._predictions(outputs)
        return (predictions != ys) if self.task == "classification" else (predictions - ys) ** 2

    def _predictions(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(-1) if self.task == "classification" else outputs.reshape(len(outputs))


def from_torch(
    module: Any | Callable[[int], Any],
    task: Task,
    classes: int | None = None,
    *,
    name: str | None = None,
    convex: bool = False,
    chunk: int | None = None,
    threads: int = 1,
    lower: bool = True,
) -> TorchModel:
    """A model from a `torch.nn.Module` that takes a batch of samples, the convention there.

    The loss is the cross-entropy of its class scores, or the squared error of its number. What is learnt are the
    parameters that require a gradient. The module runs in evaluation mode on the CPU: dropout is off, batch
    normalisation uses its stored statistics, and these stay as they are. `torch.func.vmap` must be able to run it
    (no branching on values).

    Example::

        from torch import nn

        def make(seed):  # torch's generator is seeded with `seed` while this runs
            return nn.Sequential(nn.Linear(14, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))

        models.from_torch(make, "classification").dim  # 5380, as Model II of the paper

    Args:
        module: an `nn.Module` with its first parameters, or a function from a seed to one.
        task: "classification" or "regression".
        classes: the number of class scores, checked if given.
        name: what reports call the model; by default the module's class.
        convex: declare the loss convex in the parameters. Nobody checks it.
        chunk: how many clients to hold at once; by default their gradients fit in 8 MiB.
        threads: how many threads torch uses for this model, whatever it uses elsewhere. The engine's own threads
            want the same cores: more than one pays for large modules on an idle machine only.
        lower: let JAX compute where every operation of the module is known there, and ofediq's own layers where it is
            a stack of those: same parameters, same results up to rounding, and much faster.
    """
    torch = extra("torch", "torch")
    checked_task(task, classes)
    make = (lambda seed: module) if isinstance(module, torch.nn.Module) else module
    first = made(make, 0)
    if any(map(torch.nn.parameter.is_lazy, first.parameters())):
        raise InputError("`module` must know its shapes: call it once with a batch, for its lazy layers")
    shapes = tuple((name, tuple(value.shape)) for name, value in learnt(first))
    if not shapes:
        raise InputError(f"`module` must have parameters that require a gradient, got {first!r}")
    try:
        frozen = copy.deepcopy(first).cpu().float().eval()
    except RuntimeError as error:  # as of the weight_norm that torch has replaced
        raise InputError(f"`module` must be one that can be copied: {error}") from None
    label = type(first).__name__ if name is None else name
    sizes = [shape for _, shape in shapes]
    chunk, threads = checked_chunk(chunk, sizes), require_integer("threads", threads, 1)

    return TorchModel(label, task, frozen, make, shapes, classes, convex, chunk, threads, lower)
