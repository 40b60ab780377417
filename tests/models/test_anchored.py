"""A model that starts from a naive forecast: untrained it *is* the forecast, and it reports in the target's unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.models import anchored, linear, mlp_classifier, mlp_regressor, softmax
from ofediq.models.stack import Place


@pytest.mark.parametrize("inner", [linear(3), mlp_regressor(3, (8,))])
def test_untrained_it_is_the_forecast(inner: object) -> None:
    model = anchored(inner)  # type: ignore[arg-type]  # the parameters are networks
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 5)).astype(np.float32)
    rows[:, -1] = [0.0, 0.1, 1.0, 10.0, 1e4]
    y = rng.normal(size=5).astype(np.float32)
    np.testing.assert_array_equal(model.predict(model.initial(3), rows), rows[:, 3])
    np.testing.assert_allclose(model.evaluate(model.initial(3), rows, y)[1], (rows[:, 3] - y) ** 2, rtol=1e-6)


@pytest.mark.parametrize("inner", [softmax(3, 4), mlp_classifier(3, 4, (8,))])
def test_untrained_it_is_the_naive_label(inner: object) -> None:
    model = anchored(inner)  # type: ignore[arg-type]  # the parameters are networks
    rows = np.random.default_rng(0).normal(size=(6, 7)).astype(np.float32)
    np.testing.assert_array_equal(model.predict(model.initial(3), rows), rows[:, 3:].argmax(1))


def test_learns_in_its_unit_and_reports_in_the_targets() -> None:
    """The same client in another unit: equal losses and gradients, errors in the square of the unit."""
    model = anchored(linear(2))
    params = np.array([0.5, -0.25, 0.1], np.float32)
    rows = np.array([[1.0, 2.0, 3.0, 0.5]], np.float32)
    y = np.array([3.3], np.float32)
    other = rows * np.array([1, 1, 1000, 1000], np.float32)
    for name in ("evaluate", "client_gradients"):
        plain, scaled = (getattr(model, name)(params, *pair) for pair in ((rows, y), (other, 1000 * y)))
        if name == "evaluate":
            np.testing.assert_allclose(scaled[0], plain[0], rtol=1e-4)
            np.testing.assert_allclose(scaled[1], 1e6 * plain[1], rtol=1e-4)
        else:
            np.testing.assert_allclose(scaled, plain, rtol=1e-4)
    prediction = 3.0 + 0.5 * (0.5 * 1 - 0.25 * 2 + 0.1)
    np.testing.assert_allclose(model.predict(params, rows), prediction, rtol=1e-6)
    np.testing.assert_allclose(model.evaluate(params, rows, y)[1], (prediction - 3.3) ** 2, rtol=1e-5)


def test_without_a_unit_nothing_is_learnt() -> None:
    model = anchored(linear(2))
    rows = np.array([[1.0, 2.0, 3.0, 0.0]], np.float32)
    assert not model.client_gradients(np.ones(3, np.float32), rows, np.array([9.0], np.float32)).any()


def test_the_last_layers_parameters_must_come_last() -> None:
    turned = replace(linear(2), places=(Place(1, (2, 1), (0, 1)), Place(0, (1,), (0,))))
    with pytest.raises(InputError, match="`inner` must end with a dense layer whose parameters come last"):
        anchored(turned)
