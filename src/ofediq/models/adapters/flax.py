"""A Flax module as a model: `flax.nnx` with its parameters inside, or `flax.linen`, which makes them itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ofediq.arrays import Array
from ofediq.errors import InputError, extra, require, require_integer
from ofediq.models.adapters.loss import LossModel, model_of_outputs
from ofediq.models.base import Task

Parts = tuple[Callable[..., Array], Callable[[int], Any]]
"""Outputs of a batch from parameters and samples, and parameters from a seed."""


def from_flax(
    module: Any | Callable[[int], Any],
    sample_shape: tuple[int, ...],
    task: Task,
    classes: int | None = None,
    *,
    name: str | None = None,
    convex: bool = False,
    chunk: int | None = None,
    lower: bool = True,
) -> LossModel:
    """A model from a Flax module that takes a batch of samples, the convention there.

    The loss is the cross-entropy of its class scores, or the squared error of its number. What is learnt are the
    parameters (`params` in linen, `nnx.Param` in nnx); other variables stay as they are. In an nnx module dropout is
    off (`module.eval()`); in a linen module it must be deterministic, and statistics the stored ones.

    Args:
        module: a `flax.linen.Module`; or an `nnx.Module` with its first parameters, or a function from a seed to
            one.
        sample_shape: the shape of one sample, without the batch axis.
        task: "classification" or "regression".
        classes: the number of class scores, checked if given.
        name: what reports call the model; by default the module's class.
        convex: declare the loss convex in the parameters. Nobody checks it.
        chunk: how many clients to hold at once; by default their gradients fit in 8 MiB.
        lower: let ofediq's own layers compute where the module is a stack of layers that it knows: same parameters,
            same results up to rounding, and much faster.

    >>> from flax import linen
    >>> from ofediq.models import from_flax
    >>> module = linen.Sequential([linen.Dense(64), linen.relu, linen.Dense(64), linen.relu, linen.Dense(4)])
    >>> from_flax(module, (14,), "classification").dim  # as Model II of the paper
    5380
    """
    linen = extra("flax.linen", "flax")
    sides: Any = sample_shape
    sides = sides if isinstance(sides, (tuple, list)) else (sides,)
    shape = tuple(require_integer("sample_shape", side, 1) for side in sides)
    if isinstance(module, linen.Module):
        kind, (batch_outputs, start) = type(module).__name__, _linen_parts(module, shape)
    else:
        kind, (batch_outputs, start) = _nnx_parts(module)

    def outputs(params: Any, x: Array) -> Array:
        if x.shape != shape:
            raise InputError(f"`module` must get samples of shape {list(shape)}, got {list(x.shape)}")
        return batch_outputs(params, x[None])[0]

    model = model_of_outputs(
        outputs,
        start,
        task,
        classes,
        name=name or kind,
        convex=convex,
        chunk=chunk,
        source="flax",
        lower=lower,
    )
    _try(model, shape)
    if not isinstance(module, linen.Module):
        sample, first = np.ones((1, *shape), np.float32), start(0)
        found, again = batch_outputs(first, sample), batch_outputs(first, sample, later=1)
        require(np.array_equal(found, again, equal_nan=True), "module", "must not draw at random", kind)
    return model


def _linen_parts(module: Any, shape: tuple[int, ...]) -> Parts:
    jax = extra("jax", "sim")
    flax_error = extra("flax.errors", "flax").FlaxError

    def drawn(seed: int) -> Any:
        try:
            return module.init(jax.random.key(seed), jax.numpy.zeros((1, *shape)))
        except (flax_error, TypeError, ValueError) as error:
            raise InputError(
                f"`module` must take a batch of samples of shape {list(shape)}: {error}"
            ) from error

    first = drawn(0)
    rest = {name: variables for name, variables in first.items() if name != "params"}
    if not first.get("params"):
        raise InputError(f"`module` must have params, got {sorted(first)}")

    def start(seed: int) -> Any:
        return (first if seed == 0 else drawn(seed))["params"]

    def outputs(params: Any, xs: Array) -> Array:
        return module.apply({"params": params, **rest}, xs)

    return outputs, start


def _nnx_parts(module: Any) -> tuple[str, Parts]:
    nnx = extra("flax.nnx", "flax")
    make = (lambda seed: module) if isinstance(module, nnx.Module) else module
    first = make(0) if callable(make) else None
    if not isinstance(first, nnx.Module):
        raise InputError(
            f"`module` must be a linen.Module, an nnx.Module or a function from a seed to one, got {module!r}"
        )
    frozen = nnx.clone(first)
    frozen.eval()
    graph, _, draws, rest = nnx.split(frozen, nnx.Param, nnx.RngState, ...)
    jax = extra("jax", "sim")

    def start(seed: int) -> Any:
        return nnx.state(make(seed), nnx.Param)

    def outputs(params: Any, xs: Array, later: int = 0) -> Array:
        # Recurrent layers count draws that they make no use of: each call counts on its own.
        def counted(leaf: Any) -> Any:
            return leaf + later if jax.numpy.issubdtype(leaf.dtype, jax.numpy.integer) else leaf

        return nnx.merge(graph, params, jax.tree.map(counted, draws), rest)(xs)

    return type(first).__name__, (outputs, start)


def _try(model: LossModel, shape: tuple[int, ...]) -> None:
    """Trace the outputs once: what does not fit shows now, not in the middle of a run."""
    jax = extra("jax", "sim")
    sample = jax.ShapeDtypeStruct(shape, jax.numpy.float32)
    vector = jax.ShapeDtypeStruct((model.dim,), jax.numpy.float32)
    assert model.outputs is not None
    try:
        jax.eval_shape(lambda params, x: model.outputs(model.layout.unflatten(params), x), vector, sample)
    except extra("flax.errors", "flax").FlaxError as error:
        raise InputError(
            "`module` must need nothing but parameters and samples, such as no random draws, and change nothing, "
            f"such as no statistics of a batch: {error}"
        ) from error
