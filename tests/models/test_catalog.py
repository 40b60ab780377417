from __future__ import annotations

from typing import Any

import pytest

from ofediq.errors import InputError
from ofediq.models import build


@pytest.mark.parametrize(
    ("shape", "task", "classes", "name", "dim"),
    [
        ((28, 28), "classification", 10, "cnn", 34_826),  # MNIST: Model I
        ((8, 8), "classification", 10, "softmax", 650),  # digits: too small for Model I
        ((14,), "classification", 4, "mlp", 5380),  # Room: Model II
        ((5,), "regression", None, "mlp", 4609),  # Air: Model III
        ((25,), "regression", None, "mlp", 5889),  # Energy: Model III
        ((5, 5), "regression", None, "mlp", 5889),  # a number from an image: no classes, no softmax
    ],
)
def test_auto_is_the_papers_choice(shape: Any, task: Any, classes: Any, name: str, dim: int) -> None:
    model = build("auto", shape, task, classes=classes)
    assert (model.name, model.task, model.dim) == (name, task, dim)


def test_settings_reach_the_model() -> None:
    assert build("mlp", (3,), "regression", hidden=(7,)).dim == 4 * 7 + 8
    assert build("softmax", (3,), "classification", classes=2, l2=0.5).describe()["l2"] == 0.5
    assert build("linear", (2, 3), "regression").dim == 7
    assert build("dense 7, tanh, dense", (2, 3), "classification", classes=4, l2=0.5).dim == 7 * 7 + 8 * 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tree", (3,), "regression"), "`model` must be auto, .*, or layers like 'conv 32, .*', got 'tree'"),
        (("conv 4 9x8, dense", (9, 9), "regression"), "`layers` must be words like .*, got 'conv 4 9x8'"),
        (
            ("softmax", (3,), "regression"),
            "`model` must be linear, mlp, random_features or per_feature for a regression task, got 'softmax'",
        ),
        (
            ("cnn", (28, 28), "regression"),
            "`model` must be linear, mlp, random_features or per_feature for a regression task, got 'cnn'",
        ),
        (
            ("linear", (3,), "classification", 2),
            "`model` must be softmax, mlp, cnn, random_features or lvq for a classification task",
        ),
        (
            ("random_features(speed=3)", (3,), "regression"),
            "`model` must have kernels, pairs, seed in brackets",
        ),
        (
            ("random_features(kernels=0)", (3,), "regression"),
            "`kernels` must be an integer from 1 to 64, got 0",
        ),
        (("random_features(kernels=__import__('os'))", (3,), "regression"), "`kernels` must be an integer"),
        (("mlp(hidden=3)", (3,), "regression"), "`model` must have no settings in brackets after mlp"),
        (("lvq", (3,), "regression"), "`model` must be linear, mlp, random_features or per_feature"),
        (("per_feature", (3,), "classification", 2), "`model` must be softmax, mlp, cnn"),
        (("softmax", (3,), "classification"), "`classes` must be at least 2 for classification, got None"),
        (("mlp", (3,), "classification", 1), "`classes` must be at least 2 for classification, got 1"),
        (("cnn", (784,), "classification", 10), r"`model` 'cnn' needs images \(height, width\)"),
        (("cnn", (8, 8), "classification", 10), "`height` must be at least 10"),
        (("mlp", (3,), "regression", None, (0,)), "`hidden` must be an integer >= 1, got 0"),
        (("mlp", (3,), "regression", None, (4,), -1.0), "`l2` must be a finite number >= 0, got -1.0"),
        (("mlp", (3,), "regression", None, (4,), float("nan")), "`l2` must be a finite number >= 0, got nan"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(arguments: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build(*arguments[:4], **dict(zip(("hidden", "l2"), arguments[4:], strict=False)))
