from __future__ import annotations

import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.streams.scaling import fit_scaler, target_scaler

VALUES = np.array([[2.0, 0.1], [4.0, 0.1], [10.0, 0.1]])


def test_minmax_maps_each_column_to_the_unit_interval() -> None:
    assert fit_scaler(VALUES, "minmax").apply(VALUES)[:, 0].tolist() == [0.0, 0.25, 1.0]


def test_standard_gives_mean_zero_and_variance_one() -> None:
    scaled = fit_scaler(VALUES, "standard").apply(VALUES)[:, 0]
    np.testing.assert_allclose([scaled.mean(), scaled.var()], [0, 1], atol=1e-12)


@pytest.mark.parametrize("kind", ["minmax", "standard"])
def test_a_constant_column_becomes_zero(kind: str) -> None:
    np.testing.assert_allclose(fit_scaler(VALUES, kind).apply(VALUES)[:, 1], 0, atol=1e-12)


def test_none_changes_nothing() -> None:
    np.testing.assert_array_equal(fit_scaler(VALUES, "none").apply(VALUES), VALUES)


def test_fit_looks_at_the_first_rows_only() -> None:
    assert fit_scaler(VALUES, "minmax", fit=0.67).apply(VALUES)[:, 0].tolist() == [0.0, 1.0, 4.0]


def test_bytes_are_scaled_in_single_precision() -> None:
    pixels = np.array([[0], [255]], np.uint8)
    scaled = fit_scaler(pixels, "minmax").apply(pixels)
    assert scaled.dtype == np.float32
    assert scaled.ravel().tolist() == [0.0, 1.0]


def test_targets_keep_their_unit_without_scaling_and_labels_always() -> None:
    y = np.array([10.0, 20.0])
    assert target_scaler(y, "regression", "none").range == (0.0, 1.0)
    assert target_scaler(y, "classification", "minmax").range == (0.0, 1.0)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="`scaling` must be one of none, minmax, standard, got 'log'"):
        fit_scaler(VALUES, "log")
    with pytest.raises(InputError, match=r"`scaling_fit` must lie in \(0, 1\], got 0"):
        fit_scaler(VALUES, "minmax", fit=0)
