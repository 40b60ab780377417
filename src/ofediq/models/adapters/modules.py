"""What Flax and Equinox modules share: their outputs and the loss of the task make a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ofediq.arrays import Array
from ofediq.models.adapters.flat import flatten
from ofediq.models.adapters.loss import LossModel
from ofediq.models.adapters.lowering import lower as lower_outputs
from ofediq.models.adapters.outputs import checked_chunk, checked_outputs, checked_task, sample_loss
from ofediq.models.base import Task
from ofediq.models.stack import Network


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
        return lower_outputs(checked, first, shape, task, name)

    chunk = checked_chunk(chunk, layout.dim)
    how = lowered if lower else f"{name!r} was not to be lowered"
    return LossModel(name, task, loss, checked, start, layout, source, convex, chunk, how)
