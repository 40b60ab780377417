"""What Flax and Equinox modules share: their outputs and the loss of the task make a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ofediq.arrays import Array
from ofediq.models.adapters.flat import flatten
from ofediq.models.adapters.loss import LossModel
from ofediq.models.adapters.outputs import checked_chunk, checked_outputs, checked_task, sample_loss
from ofediq.models.base import Task


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
) -> LossModel:
    """A model from `outputs(params, x)` of one sample and `start(seed)`, a tree of parameters."""
    checked_task(task, classes)
    checked = checked_outputs(outputs, task, classes, "module")
    loss_of = sample_loss(task)

    def loss(params: Any, x: Array, y: Array) -> Array:
        return loss_of(checked(params, x), y)

    _, layout = flatten(start(0), "module")
    chunk = checked_chunk(chunk, layout.dim)
    return LossModel(name, task, loss, checked, start, layout, source, convex, chunk)
