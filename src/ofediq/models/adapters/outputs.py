"""What every adapter checks in the same way: the task, the outputs of a module, the size of a chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, get_args

from ofediq.arrays import Array
from ofediq.errors import InputError, extra, require, require_choice, require_integer
from ofediq.models.base import Task

_CHUNK_NUMBERS = 2**21  # gradients of one chunk: 8 MiB, which a core's cache and two copies can take


def checked_task(task: Task, classes: int | None) -> None:
    """Raise unless `task` is one, and `classes` fits it."""
    require_choice("task", task, get_args(Task))
    if classes is not None:
        require(task == "classification", "classes", "must be None for a regression task", classes)
        require_integer("classes", classes, 2)


def checked_chunk(chunk: int | None, shapes: Sequence[tuple[int, ...]]) -> int:
    """`chunk`, or as many clients as keep one chunk of gradients of these arrays within 8 MiB: 8 to 512.

    At most 32 where filters are among them: what such a network keeps on its way forward is far larger than its
    gradient.

    >>> checked_chunk(None, [(64, 10), (10,)]), checked_chunk(None, [(10**7,)])
    (512, 8)
    >>> checked_chunk(None, [(3, 3, 1, 32), (32,)])
    32
    """
    if chunk is not None:
        return require_integer("chunk", chunk, 1)
    most = 32 if any(len(shape) > 2 for shape in shapes) else 512
    return min(most, max(8, _CHUNK_NUMBERS // sum(map(math.prod, shapes))))


def check_outputs(shape: tuple[int, ...], task: Task, classes: int | None, argument: str) -> None:
    """Raise unless outputs of this `shape` for one sample fit the task; errors name `argument`."""
    size = math.prod(shape)
    if task == "regression":
        if size != 1:
            raise InputError(f"`{argument}` must give one number per sample, got shape {list(shape)}")
    elif size == 1:
        raise InputError(
            f"`{argument}` must give one score per class and sample, got shape {list(shape)}; "
            "of two classes with one logit z the scores are (0, z)"
        )
    elif len(shape) != 1:
        raise InputError(f"`{argument}` must give one score per class and sample, got shape {list(shape)}")
    elif classes is not None and size != classes:
        raise InputError(f"`{argument}` must give {classes} scores, one per class, got {size}")


def checked_outputs(
    outputs: Callable[[Any, Array], Array], task: Task, classes: int | None, argument: str
) -> Callable[[Any, Array], Array]:
    """`outputs(params, x)` of one sample, with the shape of its result checked (while JAX traces it)."""
    jnp = extra("jax.numpy", "sim")

    def checked(params: Any, x: Array) -> Array:
        result = jnp.asarray(outputs(params, x))
        check_outputs(result.shape, task, classes, argument)
        return result

    return checked


def sample_loss(task: Task) -> Callable[[Array, Array], Array]:
    """The loss of one sample from the outputs, in JAX: cross-entropy of class scores, or squared error."""
    jax = extra("jax", "sim")
    jnp = jax.numpy

    def cross_entropy(scores: Array, label: Array) -> Array:
        # A mask instead of an index: its derivative is no scatter, which is slow on a CPU.
        own = jnp.where(jnp.arange(scores.shape[0]) == label, scores, 0).sum()
        return jax.nn.logsumexp(scores) - own

    def squared(outputs: Array, target: Array) -> Array:
        return (outputs.reshape(()) - target) ** 2

    return cross_entropy if task == "classification" else squared
