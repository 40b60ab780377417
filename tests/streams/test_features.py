"""Features made online: no look ahead, equal bits alone and among others, and any unit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofediq.errors import DataError, InputError
from ofediq.streams import Dataset, Stream, partition
from ofediq.streams.features import LabelTarget, NumberTarget, Pipeline, Readings, featurize, suggest

START = 1_700_000_000.0  # seconds since 1970

cases = st.fixed_dictionaries(
    {
        "classes": st.sampled_from([None, 2, 5]),
        "baseline": st.sampled_from(["auto", "last", "mean", "season", "none"]),
        "scaling": st.sampled_from(["standard", "robust"]),
        "seed": st.integers(0, 10_000),
        "ahead": st.sampled_from([1, 2, 5, 6]),
    }
)


def make(
    classes: int | None, baseline: str, scaling: str, seed: int, ahead: int = 1
) -> tuple[Stream, Pipeline]:
    """Three clients that come and go, with gaps in their readings."""
    rng = np.random.default_rng(seed)
    size = 60
    x = rng.normal(size=(size, 3)) * [1e-3, 1.0, 1e4]
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 1] = rng.integers(0, 2, size)
    y = rng.normal(size=size) * 1e4 if classes is None else rng.integers(0, classes, size)
    data = Dataset(
        "made",
        x,
        y,
        "regression" if classes is None else "classification",
        classes=classes,
        client_ids=rng.permutation(np.arange(size) % 3),
        time=START + 3600.0 * np.arange(size),
        gaps=True,
    )
    target: Any = NumberTarget(baseline, 4, ahead=ahead)
    if classes is not None:
        target = LabelTarget(classes, baseline, 4, ahead=ahead)
    readings = Readings(("a", "b", "c"), flags=("b",), gaps=("a", "c"))
    return partition(data, kind="column"), Pipeline(readings, target, True, scaling, horizon=20.0)


@settings(max_examples=40, deadline=None)
@given(case=cases, step=st.integers(1, 18))
def test_no_row_depends_on_what_comes_later(case: dict[str, Any], step: int) -> None:
    """Another future, the same features: readings after t, and targets from t on, change nothing up to t."""
    stream, pipeline = make(**case)
    rows = featurize(stream, pipeline)
    width = len(pipeline.columns) + len(pipeline.anchors)  # of what is predicted from
    later = stream.order[step:]
    later = later[later >= 0]
    x, y = stream.x.copy(), stream.y.copy()
    now = stream.order[step][stream.present[step]]
    x[np.setdiff1d(later, now)] = -7.0
    y[later] = y[later][::-1] if stream.classes else y[later] * 3 + 1
    changed = Stream(Dataset(**{**vars(stream.dataset), "x": x, "y": y}), stream.order)
    other = featurize(changed, pipeline)
    seen = rows.order[: step + 1]
    seen = seen[seen >= 0]
    np.testing.assert_array_equal(other.x[seen, :width], rows.x[seen, :width])


@settings(max_examples=40, deadline=None)
@given(case=cases)
def test_a_client_alone_gets_the_same_bits_as_among_others(case: dict[str, Any]) -> None:
    stream, pipeline = make(**case)
    together = featurize(stream, pipeline)
    told = Pipeline.from_dict(json.loads(json.dumps(pipeline.to_dict())))
    assert told == pipeline
    late = told.target.ahead - 1
    for client in range(stream.clients):
        memory, rows = told.memory(), []
        own = stream.order[stream.present[:, client], client]
        for row in own:
            assert stream.dataset.time is not None
            made, memory = told.observe(memory, stream.x[[row]], stream.dataset.time[[row]])
            rows.append(made[0])
            memory = told.learn(memory, stream.y[[row]])
            assert made.dtype == np.float32
            assert np.isfinite(made).all()
        samples = together.order[:, client]
        samples = samples[samples >= 0]
        assert len(samples) == len(own) - late
        for place, sample in enumerate(samples):
            assert together.y[sample] == stream.y[own[place + late]]
            x, width = together.x[sample], len(rows[0])
            np.testing.assert_array_equal(x[:width], rows[place])
            if late and place >= late:
                np.testing.assert_array_equal(x[width:-2], rows[place - late])
                assert x[-2:].tolist() == [stream.y[own[place]], 1.0]
            elif late:
                assert not x[width:].any()


@given(shift=st.floats(-1e4, 1e4), scale=st.sampled_from([1e-3, 1.0, 1e4]))
def test_units_do_not_matter(shift: float, scale: float) -> None:
    """Readings and targets in another unit give the same features, and anchors in that unit."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), np.cumsum(rng.normal(size=40))
    pipeline = Pipeline(Readings(("a", "b")), NumberTarget(season=3))
    width = len(pipeline.columns)

    def rows(x: Any, y: Any) -> Any:
        memory, made = pipeline.memory(), []
        for reading, target in zip(x, y, strict=True):
            row, memory = pipeline.observe(memory, reading[None])
            memory = pipeline.learn(memory, target[None])
            made.append(row[0])
        return np.stack(made)[3:]

    plain, other = rows(x, y), rows(x * scale + shift, y * scale + shift)
    np.testing.assert_allclose(other[:, :width], plain[:, :width], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(other[:, width], plain[:, width] * scale + shift, rtol=1e-4, atol=1e-3 * scale)
    np.testing.assert_allclose(other[:, width + 1], plain[:, width + 1] * scale, rtol=1e-3)


def test_a_level_is_scaled_by_the_past_and_a_gap_is_marked() -> None:
    pipeline = Pipeline(Readings(("heat",), gaps=("heat",)), NumberTarget(lags=0))
    assert pipeline.columns[:3] == ("heat", "change of heat", "heat is missing")
    values = [1.0, 3.0, 5.0, np.nan]
    memory = pipeline.memory()
    for value in values:
        row, memory = pipeline.observe(memory, np.array([[value]]))
        memory = pipeline.learn(memory, np.zeros(1))
        known = np.array([one for one in values[: values.index(value) + 1] if one == one])
        level = 0.0 if value != value or len(known) == 1 else (value - known.mean()) / known.std()
        np.testing.assert_allclose(row[0, 0], level, rtol=1e-6)
    assert row[0, :3].tolist() == [0.0, 0.0, 1.0]


def test_an_outlier_is_cut_and_a_constant_says_nothing() -> None:
    pipeline = Pipeline(Readings(("jump", "flat")), NumberTarget())
    memory = pipeline.memory()
    for t in range(50):
        row, memory = pipeline.observe(memory, np.array([[1e6 if t == 49 else t % 2, 7.0]]))
        memory = pipeline.learn(memory, np.array([0.0]))
    assert row[0, 0] == 5.0
    assert row[0, 1] == 0.0


def test_auto_follows_the_best_naive_forecast() -> None:
    """The last value on a random walk, the mean in noise, the season in a cycle: within 2 % after a while."""
    rng, size = np.random.default_rng(3), 600
    cycle = np.tile(rng.normal(size=6), size // 6) + 0.1 * rng.normal(size=size)
    for series in (np.cumsum(rng.normal(size=size)), rng.normal(size=size), cycle):
        errors = {}
        for baseline in ("auto", "last", "mean", "season"):
            data = Dataset("s", np.zeros((size, 1)), series, "regression")
            pipeline = Pipeline(Readings(("x",)), NumberTarget(baseline, 6))
            rows = featurize(Stream(data, np.arange(size)[:, None]), pipeline)
            errors[baseline] = float(np.mean((rows.x[100:, -2] - series[100:]) ** 2))
        assert errors["auto"] <= 1.02 * min(errors["last"], errors["mean"], errors["season"])


def _early_skill(walks: bool, lasting: bool, flags: bool = False) -> float:
    """Of the naive forecast in rows 2 to 11 of 400 clients, against the better one of last value and mean."""
    rng, clients = np.random.default_rng(8), 400
    steps, drawn = rng.normal(size=(11, clients)), rng.normal(size=(11, clients, 4))
    series, readings = (np.cumsum(steps, 0) if walks else steps), (np.cumsum(drawn, 0) if lasting else drawn)
    names = ("a", "b", "c", "d")
    pipeline = Pipeline(Readings(names, names if flags else ()), NumberTarget())
    readings = (readings > 0).astype(np.float64) if flags else readings
    memory, missed, naive = pipeline.memory(clients), 0.0, 0.0
    for row, target in enumerate(series):
        found, memory = pipeline.observe(memory, readings[row])
        memory = pipeline.learn(memory, target)
        if row:
            missed += float(((found[:, -2] - target) ** 2).sum())
            best = series[row - 1] if walks else series[:row].mean(axis=0)
            naive += float(((best - target) ** 2).sum())
    return 1 - missed / naive


def test_readings_tell_whether_the_last_value_is_to_be_trusted() -> None:
    """Walks hardly pay for the mean; rows in no order find it sooner where their readings are in none too."""
    assert _early_skill(walks=True, lasting=True) > -0.01
    assert _early_skill(walks=True, lasting=False) > -0.02
    assert _early_skill(walks=False, lasting=False) > _early_skill(walks=False, lasting=True) + 0.05


def test_flags_tell_it_where_there_are_no_numbers() -> None:
    assert _early_skill(walks=True, lasting=True, flags=True) > -0.02
    apart = _early_skill(walks=False, lasting=False, flags=True), _early_skill(False, True, True)
    assert apart[0] > apart[1] + 0.02


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("stays", [False, True])
def test_after_a_target_far_away_the_client_knows_whether_such_targets_stay(stays: bool, ahead: int) -> None:
    """Twelve far targets: spikes are left out once one has been seen, new levels are believed at once."""
    rng, size, every = np.random.default_rng(5), 600, 50
    series = 10 + np.cumsum(0.1 * rng.normal(size=size))
    far = np.arange(every - 1, size - ahead, every)
    for row in far:
        series[row : None if stays else row + 1] += 500 * rng.choice([-1, 1])
    data = Dataset("s", np.zeros((size, 1)), series, "regression")
    pipeline = Pipeline(Readings(("x",)), NumberTarget(ahead=ahead))
    rows = featurize(Stream(data, np.arange(size)[:, None]), pipeline)
    forecast = rows.x[:, len(pipeline.columns)]
    target = rows.y
    known = far[2:] + 1  # the far target is the newest one that is known
    assert (np.abs(forecast[known] - target[known]) < 50).all()
    if ahead == 1:  # the rows of the far targets themselves
        assert (np.abs(forecast[far] - target[far]) > 400).all()


def test_small_spikes_tell_what_a_large_one_is() -> None:
    """Four spikes, each seven times as large as the one before: the last one is left out like the others."""
    series = 10 + 0.1 * np.random.default_rng(6).normal(size=200).cumsum()
    for place, row in enumerate(far := [30, 70, 120, 180]):
        series[row] += 20 * 7.0**place
    rows = featurize(
        Stream(Dataset("s", np.zeros((200, 1)), series, "regression"), np.arange(200)[:, None]),
        Pipeline(Readings(("x",)), NumberTarget()),
    )
    off = np.abs(rows.x[:, -2] - series) / (np.abs(series - 10) + np.roll(np.abs(series - 10), 1))
    assert off[far[0] + 1] > 0.8  # nothing was known
    assert (off[np.array(far[2:]) + 1] < 0.05).all()


def test_probabilities_of_the_naive_label_add_up_to_one() -> None:
    stream, pipeline = make(5, "auto", "standard", 1)
    anchors = featurize(stream, pipeline).x[:, -5:]
    totals = np.exp(anchors.astype(np.float64)).sum(1)
    np.testing.assert_allclose(totals[totals != 5], 1.0, rtol=1e-5)  # 5: nothing known yet, all alike


def test_suggest_sees_flags_gaps_dates_and_days() -> None:
    x = np.stack([np.linspace(0, 9, 50), np.arange(50) % 2, np.linspace(0, 1, 50)], axis=1)
    x[3, 2] = np.nan
    data = Dataset("d", x, np.arange(50.0), "regression", time=START + 1800 * np.arange(50), gaps=True)
    pipeline = suggest(data)
    assert pipeline.readings == Readings(("x0", "x1", "x2"), ("x1",), ("x2",))
    assert (pipeline.calendar, pipeline.target.season) == (True, 48)
    counted = suggest(Dataset("d", np.nan_to_num(x), np.arange(50), "classification", time=np.arange(50)))
    assert (counted.calendar, counted.target.season) == (False, 0)


def test_many_readings_have_changes_where_they_last_and_a_number_is_predicted() -> None:
    """Their levels move together slowly; the levels of clients, which differ, do not make their rows last."""
    rng, ids = np.random.default_rng(0), np.repeat(np.arange(4, dtype=np.int32), 100)
    jumps = rng.normal(size=(400, 65))
    lasting = np.cumsum(jumps, axis=0)
    y, labels = rng.normal(size=400), np.arange(400) % 2

    def differ(x: Any, y: Any) -> bool:
        task: Any = "regression" if y.dtype.kind == "f" else "classification"
        return suggest(Dataset("wide", x, y, task, client_ids=ids, gaps=True)).readings.differences

    assert differ(lasting, y)
    assert differ(np.where(rng.random(lasting.shape) < 0.2, np.nan, lasting), y)
    assert not differ(jumps + 100 * ids[:, None], y)
    assert not differ(lasting, labels)


def test_what_does_not_fit_is_named() -> None:
    pipeline = Pipeline(Readings(("a",)), NumberTarget(), calendar=True)
    with pytest.raises(DataError, match=r"`readings` must have shape \[1, 1\], got \[1, 2\]"):
        pipeline.observe(pipeline.memory(), np.zeros((1, 2)), np.zeros(1))
    with pytest.raises(DataError, match="`time` must be 1 numbers, seconds since 1970"):
        pipeline.observe(pipeline.memory(), np.zeros((1, 1)))
    with pytest.raises(InputError, match="`baseline` must be one of"):
        Pipeline(Readings(("a",)), NumberTarget("best"))
    with pytest.raises(InputError, match="'season' needs the rows per season"):
        Pipeline(Readings(("a",)), NumberTarget("season"))
    with pytest.raises(InputError, match=r"must be what `Pipeline\.to_dict` writes"):
        Pipeline.from_dict({"task": "regression"})
    with pytest.raises(DataError, match=r"rows of numbers, got shape \[2, 2\]"):
        suggest(Dataset("image", np.zeros((3, 2, 2)), [0, 1, 0], "classification"))  # type: ignore[arg-type]  # lists are converted


def test_samples_are_read_by_name() -> None:
    readings = Readings(
        ("heat", "light", "mode=eco", "mode=full"), flags=("mode=eco", "mode=full"), gaps=("light",)
    )
    wanted = [[1.5, 0.0, 0.0, 1.0]]
    assert readings.read({"heat": 1.5, "light": 0, "mode": "full"}).tolist() == wanted
    assert readings.read({"mode": "full", "light": "0", "heat": "1.5"}).tolist() == wanted
    for absent in ({}, {"light": None}, {"light": ""}, {"light": float("inf")}):
        assert np.isnan(readings.read({"heat": 1.5, "mode": "eco", **absent})[0, 1])
    with pytest.raises(DataError, match="`sample` must hold 'heat', got light, mode"):
        readings.read({"light": 1.0, "mode": "eco"})
    with pytest.raises(DataError, match="`heat` must be a number or missing, got 'warm'"):
        readings.read({"heat": "warm", "mode": "eco"})
