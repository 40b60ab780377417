"""An Equinox module as a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ofediq.arrays import Array
from ofediq.errors import InputError, extra, require
from ofediq.models.adapters.loss import LossModel, model_of_outputs
from ofediq.models.base import Task


def from_equinox(
    module: Any | Callable[[int], Any],
    task: Task,
    classes: int | None = None,
    *,
    name: str | None = None,
    convex: bool = False,
    chunk: int | None = None,
    lower: bool = True,
) -> LossModel:
    """A model from an Equinox module that takes one sample, the convention there.

    The loss is the cross-entropy of its class scores, or the squared error of its number. All float arrays in the
    module are learnt, everything else stays as it is; dropout is off (`equinox.nn.inference_mode`).

    Args:
        module: an `equinox.Module` with its first parameters, or a function from a seed to one.
        task: "classification" or "regression".
        classes: the number of class scores, checked if given.
        name: what reports call the model; by default the module's class.
        convex: declare the loss convex in the parameters. Nobody checks it.
        chunk: how many clients to hold at once; by default their gradients fit in 8 MiB.
        lower: let ofediq's own layers compute where the module is a stack of layers that it knows: same parameters,
            same results up to rounding, and much faster.

    >>> import equinox, jax
    >>> from ofediq.models import from_equinox
    >>> def make(seed):
    ...     return equinox.nn.MLP(14, 4, width_size=64, depth=2, key=jax.random.key(seed))
    >>> from_equinox(make, "classification").dim  # as Model II of the paper
    5380
    """
    equinox = extra("equinox", "equinox")
    make = (lambda seed: module) if isinstance(module, equinox.Module) else module
    if not callable(make):
        raise InputError(
            f"`module` must be an equinox.Module or a function from a seed to one, got {module!r}"
        )
    first = make(0)
    if not isinstance(first, equinox.Module):
        raise InputError(f"`module` must give an equinox.Module for a seed, got {first!r}")

    def is_kept(leaf: Any) -> bool:
        return isinstance(leaf, equinox.nn.StateIndex)

    leaves = extra("jax", "sim").tree.leaves(first, is_leaf=is_kept)
    rule = "must keep no state between samples, such as statistics of batches"
    require(not any(map(is_kept, leaves)), "module", rule, type(first).__name__)
    _, rest = equinox.partition(equinox.nn.inference_mode(first), equinox.is_inexact_array)

    def start(seed: int) -> Any:
        return equinox.filter(make(seed), equinox.is_inexact_array)

    def outputs(params: Any, x: Array) -> Array:
        return equinox.combine(params, rest)(x)

    label = type(first).__name__ if name is None else name
    return model_of_outputs(
        outputs, start, task, classes, name=label, convex=convex, chunk=chunk, source="equinox", lower=lower
    )
