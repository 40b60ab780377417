"""Models by name, sized for the data."""

from __future__ import annotations

import math
from typing import Any

from ofediq.errors import InputError, require, require_choice
from ofediq.models.base import Model, Task
from ofediq.models.cnn import cnn
from ofediq.models.linear import linear, softmax
from ofediq.models.mlp import mlp_classifier, mlp_regressor

NAMES = ("auto", "linear", "softmax", "mlp", "cnn")


def build(
    name: str,
    shape: tuple[int, ...],
    task: Task,
    classes: int | None = None,
    hidden: tuple[int, ...] = (64, 64),
    l2: float | None = None,
) -> Model:
    """The model called `name` for samples of this `shape` and `task`.

    `auto` is the paper's choice where it made one: the CNN for images of at least 28 x 28, softmax regression for
    smaller ones, the MLP with two hidden layers of 64 for everything else.

    >>> build("auto", (28, 28), "classification", classes=10).dim
    34826
    >>> build("auto", (5,), "regression").dim
    4609
    """
    require_choice("model", name, NAMES)
    require(l2 is None or (math.isfinite(l2) and l2 >= 0), "l2", "must be a finite number >= 0", l2)
    features = math.prod(shape)
    penalty: Any = {} if l2 is None else {"l2": l2}
    if name == "auto":
        image = task == "classification" and len(shape) == 2
        name = ("cnn" if min(shape) >= 28 else "softmax") if image else "mlp"
    if task == "regression":
        if name == "linear":
            return linear(features, **penalty)
        if name == "mlp":
            return mlp_regressor(features, hidden, **penalty)
        raise InputError(f"`model` must be linear or mlp for a regression task, got {name!r}")
    require(classes is not None and classes >= 2, "classes", "must be at least 2 for classification", classes)
    assert classes is not None
    if name == "softmax":
        return softmax(features, classes, **penalty)
    if name == "mlp":
        return mlp_classifier(features, classes, hidden, **penalty)
    if name == "linear":
        raise InputError("`model` must be softmax, mlp or cnn for a classification task, got 'linear'")
    require(len(shape) == 2, "model", f"'cnn' needs images (height, width), samples here are {shape}", name)
    return cnn(shape[0], shape[1], classes, **penalty)
