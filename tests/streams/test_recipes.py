"""The named datasets against facts known about them: published counts and independently computed references.

The facts are the upstream descriptions, the paper's table of datasets, and figures computed once from the raw files
by other means.
"""

from __future__ import annotations

import numpy as np
import pytest

from ofediq.streams import Dataset, load, naive_references, partition
from ofediq.streams.sources import ABOUT

mnist = pytest.mark.parametrize("real_data", ["mnist"], indirect=True)
room = pytest.mark.parametrize("real_data", ["room"], indirect=True)
pm25 = pytest.mark.parametrize("real_data", ["pm25"], indirect=True)
air = pytest.mark.parametrize("real_data", ["air"], indirect=True)
energy = pytest.mark.parametrize("real_data", ["energy"], indirect=True)


def _least_squares_error(data: Dataset) -> float:
    design = np.column_stack([data.x, np.ones(len(data))]).astype(float)
    solution = np.linalg.lstsq(design, data.y.astype(float), rcond=None)[0]
    return float(np.mean((design @ solution - data.y) ** 2))


def _final_references(data: Dataset) -> dict[str, float]:
    stream = partition(data, clients=1, kind="sequential")
    return {name: float(curve[-1]) for name, curve in naive_references(stream).items()}


@pytest.mark.parametrize("real_data", ["mnist", "room", "pm25", "air", "energy"], indirect=True)
def test_samples_and_features_are_as_listed_and_scaled_to_the_unit_interval(real_data: str) -> None:
    data, about = load(real_data), ABOUT[real_data]
    assert (len(data), int(np.prod(data.sample_shape)), data.task) == (
        about.samples,
        about.features,
        about.task,
    )
    assert (data.x.min(), data.x.max()) == (0, 1)
    if data.task == "regression":
        assert (data.y.min(), data.y.max()) == (0, 1)


@mnist
def test_mnist_has_the_published_counts_and_mean(real_data: str) -> None:
    train, test = load("mnist"), load("mnist", split="test")
    assert np.bincount(train.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(test.y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert [round(float(data.x.mean(dtype=float)), 4) for data in (train, test)] == [0.1307, 0.1325]
    assert train.sample_shape == (28, 28)


@room
def test_room_leaves_the_motion_sensors_out(real_data: str) -> None:
    data = load("room")
    assert (data.feature_names[0], data.feature_names[-1]) == ("S1_Temp", "S5_CO2_Slope")
    assert np.bincount(data.y).tolist() == [8228, 459, 748, 694]
    np.testing.assert_array_equal(data.x, load("room", scaling="authors").x)
    assert (data.x.min(axis=0) == 0).all()
    assert (data.x.max(axis=0) == 1).all()


@room
def test_always_answering_nobody_is_right_for_81_percent_of_room(real_data: str) -> None:
    data = load("room")
    references = _final_references(data)
    assert round(references["constant"], 3) == 0.812
    assert abs(references["last"] - np.mean(data.y[1:] == data.y[:-1])) < 1 / len(data)
    assert round(references["last"], 3) == 0.997


@room
def test_the_balanced_room_has_the_authors_counts_in_time_order(real_data: str) -> None:
    data = load("room", subset="balanced")
    assert np.bincount(data.y).tolist() == [2499, 459, 748, 694]
    assert round(_final_references(data)["constant"], 3) == 0.568
    everything = iter([row.tobytes() for row in load("room", "none").x])
    assert all(row.tobytes() in everything for row in load("room", "none", subset="balanced").x)


@pm25
def test_pm25_is_the_series_in_windows_of_five(real_data: str) -> None:
    data = load("pm25", scaling="authors")
    assert data.x.shape == (38_563, 5)
    np.testing.assert_array_equal(data.x[1:, :-1], data.x[:-1, 1:])
    np.testing.assert_array_equal(data.x[1:, -1], data.y[:-1])
    assert data.target_range == (0.0, 994.0)
    np.testing.assert_allclose(data.x, load("pm25").x, atol=1e-7)


@pm25
def test_pm25_references(real_data: str) -> None:
    data = load("pm25", scaling="authors")
    references = _final_references(data)
    assert round(references["constant"], 5) == 0.00850
    assert round(references["last"], 6) == 0.000624
    assert round(_least_squares_error(data), 6) == 0.000590


@air
@pytest.mark.parametrize(
    ("target", "samples"),
    [("C6H6(GT)", 8991), ("NOx(GT)", 7396), ("NO2(GT)", 7393), ("CO(GT)", 7344), ("NMHC(GT)", 887)],
)
def test_air_has_the_complete_rows_of_each_pollutant(real_data: str, target: str, samples: int) -> None:
    data = load("air", target=target)
    assert len(data) == samples
    assert all(name.startswith("PT08.") for name in data.feature_names)
    assert load("air", scaling="none", target=target).x.min() > 0  # the mark of a missing value is -200


@energy
def test_energy_has_25_columns_of_rows_up_to_300_watt_hours(real_data: str) -> None:
    data = load("energy", scaling="none")
    assert (data.feature_names[0], data.feature_names[-1]) == ("lights", "Tdewpoint")
    assert not {"date", "rv1", "rv2"} & set(data.feature_names)
    assert (data.y.min(), data.y.max()) == (10, 300)


@energy
def test_energy_as_the_authors_scale_it(real_data: str) -> None:
    raw, data = load("energy", scaling="none"), load("energy", scaling="authors")
    np.testing.assert_allclose(data.x, (raw.x.astype(float) + 6.6) / (772.3 + 6.6), atol=1e-6)
    np.testing.assert_allclose(data.y, (raw.y - 10) / 290, atol=1e-6)
    pressure = data.feature_names.index("Press_mm_hg")
    assert data.x[:, pressure].min() > 0.93
    assert np.delete(data.x, pressure, axis=1).max() < 0.15


@energy
def test_energy_references(real_data: str) -> None:
    data = load("energy")
    references = _final_references(data)
    assert round(references["constant"], 5) == 0.02831
    # The figure is over pairs; the first sample has nothing before it and errs by at most 1.
    assert abs(references["last"] - 0.01450) < 0.000005 + 1 / len(data)
    assert round(_least_squares_error(data), 5) == 0.02126


@energy
def test_scaling_can_be_fitted_on_the_past_only(real_data: str) -> None:
    early = load("energy", scaling_fit=0.1)
    first = early.x[: len(early) // 10]
    assert (first.min(), first.max()) == (0, 1)
    assert early.x.max() > 1
