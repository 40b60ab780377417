"""Models by name, sized for the data."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ofediq.calls import parse_call
from ofediq.errors import InputError, require, require_integer, require_kind, require_nonnegative
from ofediq.models.anchor import Anchored, anchored
from ofediq.models.base import Model, Task
from ofediq.models.fourier import random_features
from ofediq.models.layers import is_stack, parse
from ofediq.models.paper import cnn, linear, mlp_classifier, mlp_regressor, softmax
from ofediq.models.prototypes import lvq
from ofediq.models.shared import per_feature
from ofediq.models.stack import Network, network

NAMES = ("auto", "linear", "softmax", "mlp", "cnn", "random_features", "lvq", "per_feature")
_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "linear": ("l2",),
    "softmax": ("l2",),
    "random_features": ("kernels", "pairs", "seed"),
    "lvq": ("each",),
    "per_feature": ("start",),
}
"""What can be said in brackets after a name."""


def checked_name(name: str) -> str:
    """`name`, if it is one of `NAMES`, maybe with settings in brackets, or layers in words.

    >>> checked_name("conv 8, pool, dense 10"), checked_name("random_features(kernels=4)")
    ('conv 8, pool, dense 10', 'random_features(kernels=4)')
    """
    require_kind(str, "model", name)
    if "(" in name:
        called, given = parse_call(name, what="model")
        settings = _SETTINGS.get(called, ())
        for one in given:
            rule = f"must have {', '.join(settings) or 'no settings'} in brackets after {called}"
            require(one in settings, "model", rule, name)
        checked_name(called)
    elif is_stack(name):
        parse(name)
    elif name not in NAMES:
        known = ", ".join(NAMES)
        raise InputError(f"`model` must be {known}, or layers like 'conv 32, pool, dense 10', got {name!r}")
    return name


def build(
    name: str,
    shape: tuple[int, ...],
    task: Task,
    classes: int | None = None,
    *,
    hidden: tuple[int, ...] = (64, 64),
    l2: float | None = None,
) -> Model:
    """The model called `name` for samples of this `shape` and `task`; layers in words make a `network`.

    `auto` is the paper's choice where it made one: the CNN for images of at least 28 x 28, softmax regression for
    smaller ones, the MLP with two hidden layers of 64 for everything else.

    >>> build("auto", (28, 28), "classification", classes=10).dim
    34826
    >>> build("auto", (5,), "regression").dim
    4609
    >>> build("conv 8, pool, dense 10", (28, 28), "classification", classes=10).dim
    13610
    >>> build("random_features(kernels=4, pairs=50)", (5,), "regression").dim
    400
    """
    checked_name(name)
    name, given = parse_call(name, what="model") if "(" in name else (name, {})
    if l2 is not None and name != "lvq":
        given = {"l2": l2, **given}
    if "l2" in given:
        require_nonnegative("l2", given["l2"])
    features = math.prod(shape)
    if is_stack(name):
        return network(name, shape=shape, task=task, classes=classes, **given)
    if name == "auto":
        image = task == "classification" and len(shape) == 2
        name = ("cnn" if min(shape) >= 28 else "softmax") if image else "mlp"
    if name == "random_features":
        return random_features(features, task=task, classes=classes, **given)
    if task == "regression":
        if name == "per_feature":
            return per_feature(features, hidden, **given)
        if name == "linear":
            return linear(features, **given)
        if name == "mlp":
            return mlp_regressor(features, hidden, **given)
        raise InputError(
            f"`model` must be linear, mlp, random_features or per_feature for a regression task, got {name!r}"
        )
    number = 0 if classes is None else require_integer("classes", classes, 0)
    require(number >= 2, "classes", "must be at least 2 for classification", classes)
    classes = number
    if name == "softmax":
        return softmax(features, classes, **given)
    if name == "mlp":
        return mlp_classifier(features, classes, hidden, **given)
    if name == "lvq":
        return lvq(features, classes, **given)
    if name in ("linear", "per_feature"):
        rule = "must be softmax, mlp, cnn, random_features or lvq for a classification task"
        raise InputError(f"`model` {rule}, got {name!r}")
    require(len(shape) == 2, "model", f"'cnn' needs images (height, width), samples here are {shape}", name)
    return cnn(shape[0], shape[1], classes, **given)


def build_anchored(
    name: str,
    columns: int,
    task: Task,
    classes: int | None = None,
    *,
    hidden: tuple[int, ...] = (64, 64),
    l2: float | None = None,
) -> Anchored:
    """The model called `name` on so many features beside a naive forecast, see `anchored`.

    `auto` is linear, or softmax regression: where a forecast is the start, little is left to be learnt. Without `l2`
    these have no penalty: 0 is the forecast, and a good start, but no better than another model.

    >>> build_anchored("auto", 12, "regression").dim
    13
    """
    usual = "linear" if task == "regression" else "softmax"
    name = usual if name == "auto" else name
    penalty = 0.0 if l2 is None and name == usual else l2
    inner = build(name, (columns,), task, classes=classes, hidden=hidden, l2=penalty)
    if not isinstance(inner, Network):
        raise InputError(f"`model` must be a stack of layers beside a naive forecast, got {name!r}")
    return anchored(inner)
