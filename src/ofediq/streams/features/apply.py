"""Run a pipeline over a stream, and choose one for a dataset."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ofediq.arrays import Numbers
from ofediq.errors import DataError
from ofediq.streams.cells import SINCE_1970
from ofediq.streams.dataset import UNKNOWN_LABEL, Dataset
from ofediq.streams.features.labels import LabelTarget
from ofediq.streams.features.numbers import NumberTarget
from ofediq.streams.features.pipeline import Pipeline, put, take
from ofediq.streams.features.readings import LASTING, Readings
from ofediq.streams.stream import ABSENT, Stream

# Above so many readings only their levels are features: changes would double a model that is large already.
_MANY_READINGS = 64
# Where a number is predicted from readings that last they are worth it, up to here.
_MOST_CHANGES, _CLIENTS_TRIED, _ROWS_TRIED = 480, 20, 500
_MANY_CLASSES = 20
_DAY = 86_400.0
_LONGEST_SEASON = 512


def featurize(stream: Stream, pipeline: Pipeline) -> Stream:
    """`stream` with the features of `pipeline` as samples, computed by each client as it goes.

    Client k's row at step t depends on its readings up to t and its targets before t, and on nothing else. Every
    (client, step) gets a sample of its own, since the same reading means something else after another past.

    >>> data = Dataset("ramp", x=np.arange(5.0)[:, None], y=[0.0, 2.0, 4.0, 6.0, 8.0], task="regression")
    >>> rows = featurize(Stream(data, np.arange(5)[:, None]), Pipeline(Readings(("x",)), NumberTarget("last")))
    >>> rows.x[:, -2:].tolist()  # forecast and unit: the last value, and its usual change
    [[0.0, 0.0], [0.0, 0.0], [2.0, 0.0], [4.0, 0.0], [6.0, 2.0]]

    With `ahead` = N > 1 the target of a sample is that of the client's row N - 1 later. Beside what is predicted from
    a sample then holds what is learnt at its step: the row of N - 1 before, whose target has come just now, that
    target, and 1; all 0 before there is one (`ofediq.models.late` reads it). A client's last N - 1 rows have no
    target and are left out.
    """
    source = stream.dataset
    readings = _flat(source)
    present = stream.present
    places = np.cumsum(present.ravel()).reshape(present.shape) - 1
    order = np.where(present, places, ABSENT)
    rows = stream.order[present]  # steps one after another, clients in order
    width = len(pipeline.columns) + len(pipeline.anchors)
    out = np.empty((len(rows), width), np.float32)
    memory = pipeline.memory(stream.clients)
    begin = 0
    for t in range(stream.steps):
        here = np.flatnonzero(present[t])
        end = begin + len(here)
        if not len(here):
            continue
        used = rows[begin:end]
        own = memory if len(here) == stream.clients else take(memory, here)
        time = None if source.time is None else source.time[used]
        out[begin:end], own = pipeline.observe(own, readings[used], time)
        own = pipeline.learn(own, source.y[used])
        if len(here) == stream.clients:
            memory = own
        else:
            put(memory, here, own)
        begin = end
    made = replace(
        source,
        x=out,
        y=source.y[rows],
        # The source's previous target may be another client's, and in its future.
        previous=_last_known(source.y[rows], order),
        own_past=True,
        season=_a_season_ago(source.y[rows], order, pipeline),
        time=None if source.time is None else source.time[rows],
        client_ids=None if source.client_ids is None else source.client_ids[rows],
        feature_names=(*pipeline.columns, *pipeline.anchors),
        gaps=False,
    )
    return _ahead(Stream(made, order), pipeline.target.ahead)


def begun(stream: Stream, pipeline: Pipeline) -> Stream:
    """`stream` of `featurize` without the samples whose client knows no number yet: nobody predicts from nothing.

    Their errors would be as large as the targets, whatever is learnt, and hide all others for thousands of steps. A
    label is predicted from readings at once; a number with baseline "none" too. Where clients have few rows, so that
    more than half of the samples were gone, all stay.

    >>> data = Dataset("ramp", x=np.arange(5.0)[:, None], y=[50.0, 52.0, 54.0, 56.0, 58.0], task="regression")
    >>> pipeline = Pipeline(Readings(("x",)), NumberTarget("last"))
    >>> rows = begun(featurize(Stream(data, np.arange(5)[:, None]), pipeline), pipeline)
    >>> rows.order.ravel().tolist(), rows.dataset.previous[1:].tolist()
    ([-1, 1, 2, 3, 4], [50.0, 52.0, 54.0, 56.0])
    """
    previous = stream.dataset.previous
    if stream.task == "classification" or pipeline.target.baseline == "none" or previous is None:
        return stream
    order = np.where(stream.present & ~np.isnan(previous[stream.order]), stream.order, ABSENT)
    few = 2 * np.count_nonzero(order >= 0) < np.count_nonzero(stream.present)
    return stream if few else Stream(stream.dataset, order)


def _last_known(y: Numbers, order: Numbers) -> Numbers:
    """The client's own target before each sample's; NaN or -1 before the first."""
    last = np.full(len(y), np.nan if y.dtype.kind == "f" else UNKNOWN_LABEL, y.dtype)
    for column in order.T:
        own = column[column >= 0]
        last[own[1:]] = y[own[:-1]]
    return last


def _a_season_ago(y: Numbers, order: Numbers, pipeline: Pipeline) -> Numbers | None:
    """The client's own target whole seasons before each sample's, the last one that is known; None: no season."""
    season, ahead = pipeline.target.season, pipeline.target.ahead
    if not season:
        return None
    back = -(-ahead // season) * season
    ago = np.full(len(y), np.nan if y.dtype.kind == "f" else UNKNOWN_LABEL, y.dtype)
    for column in order.T:
        own = column[column >= 0]
        ago[own[back:]] = y[own[:-back]]
    return ago


def _ahead(stream: Stream, ahead: int) -> Stream:
    """Rows of `featurize` as samples whose targets are those of `ahead` - 1 rows later."""
    if ahead == 1:
        return stream
    data, order = stream.dataset, stream.order.copy()
    later, before = np.full(len(data), ABSENT), np.full(len(data), ABSENT)
    for client in range(stream.clients):
        own = order[stream.present[:, client], client]
        later[own[: 1 - ahead]], before[own[ahead - 1 :]] = own[ahead - 1 :], own[: 1 - ahead]
    kept = np.flatnonzero(later >= 0)
    if not len(kept):
        longest = int(stream.present.sum(axis=0).max())
        raise DataError(f"`horizon` must be at most the {longest} rows of a client, got {ahead}")
    # What is learnt at a step is the row whose target is that step's own.
    known, then = before[kept] >= 0, np.maximum(before[kept], 0)
    learnt = np.concatenate([data.x[then], data.y[kept, None], np.ones((len(kept), 1))], axis=1)
    places = np.full(len(data), ABSENT)
    places[kept] = np.arange(len(kept))
    order = np.where(order >= 0, places[order], ABSENT)
    made = replace(
        data,
        x=np.concatenate([data.x[kept], np.where(known[:, None], learnt, 0)], axis=1).astype(np.float32),
        y=data.y[later[kept]],
        previous=None if data.previous is None else data.previous[kept],
        season=None if data.season is None else data.season[later[kept]],
        time=None if data.time is None else data.time[kept],
        client_ids=None if data.client_ids is None else data.client_ids[kept],
        feature_names=(),  # a sample holds two rows
        ahead=ahead,
    )
    return Stream(made, order[: np.flatnonzero((order >= 0).any(axis=1))[-1] + 1])


def suggest(dataset: Dataset, baseline: str = "auto", season: int | None = None, ahead: int = 1) -> Pipeline:
    """A pipeline for `dataset`: flags and gaps as they occur, the calendar if it has dates, a day as season.

    Arguments:
        dataset: what is to be learnt; images and other samples with several axes have no pipeline.
        baseline: "auto", "last", "mean", "season" or "none".
        season: rows of one client per season; None: a day, where the dates say how many rows that is.
        ahead: how many rows after the last known target the predicted one is.
    """
    x = _flat(dataset)
    names = dataset.feature_names or tuple(f"x{place}" for place in range(x.shape[1]))
    missing = np.atleast_1d(np.isnan(x).any(axis=0))
    whole = np.nan_to_num(x)
    flags = ((whole == 0) | (whole == 1)).all(axis=0)
    flagged = tuple(name for name, flag in zip(names, flags, strict=True) if flag)
    gapped = tuple(name for name, gap in zip(names, missing, strict=True) if gap)
    dates = _has_dates(dataset)
    rows = (_rows_per_day(dataset) if dates else 0) if season is None else season
    made = pipeline_for(
        names, dataset.classes, baseline, rows, flags=flagged, gaps=gapped, calendar=dates, ahead=ahead
    )
    numbers = x.shape[1] - len(flagged)
    if (
        made.readings.differences
        or dataset.classes
        or numbers > _MOST_CHANGES
        or not _last(dataset, x[:, ~flags])
    ):
        return made
    return replace(made, readings=replace(made.readings, differences=True))


def pipeline_for(
    names: tuple[str, ...],
    classes: int | None = None,
    baseline: str = "auto",
    season: int = 0,
    *,
    flags: tuple[str, ...] = (),
    gaps: tuple[str, ...] = (),
    calendar: bool = False,
    lags: int | None = None,
    ahead: int = 1,
    scaling: str = "standard",
) -> Pipeline:
    """A pipeline for readings of these names: changes beside levels unless there are many, some past targets.

    Arguments:
        names: of the readings.
        classes: number of labels; None for a number.
        baseline: "auto", "last", "mean", "season" or "none".
        season: rows of one client per season; 0 for none.
        flags: readings that are 0 or 1.
        gaps: readings that may be missing.
        calendar: whether samples have a date.
        lags: past targets among the features; None: 4 numbers, 2 labels where there are few.
        ahead: how many rows after the last known target the predicted one is.
        scaling: "standard" or "robust".

    >>> pipeline_for(("heat",), classes=2).target.lags, pipeline_for(("heat",)).target.lags
    (2, 4)
    """
    measured = Readings(names, flags, gaps, len(names) <= _MANY_READINGS)
    if classes is None:
        number = NumberTarget(baseline, season, 4 if lags is None else lags, ahead)
        return Pipeline(measured, number, calendar, scaling)
    usual = 2 if classes <= _MANY_CLASSES else 0
    count = usual if lags is None else lags
    label = LabelTarget(classes, baseline, season if count else 0, count, ahead)
    return Pipeline(measured, label, calendar, scaling)


def _flat(dataset: Dataset) -> Numbers:
    if dataset.x.ndim != 2:
        raise DataError(
            f"`features` need samples that are rows of numbers, got shape {list(dataset.sample_shape)}"
        )
    return dataset.x


def _has_dates(dataset: Dataset) -> bool:
    """Whether `time` is seconds since 1970 rather than a count."""
    time = dataset.time
    return time is not None and bool(SINCE_1970[0] <= np.median(time) <= SINCE_1970[1])


def _last(dataset: Dataset, x: Numbers) -> bool:
    """Whether readings are alike from row to row of a client, in the mean over all of them: see `Readings.unordered`.

    Levels of such readings move together slowly, which is learnt a hundred times as slowly as what their changes say.
    """
    ids = np.zeros(len(x), np.int32) if dataset.client_ids is None else dataset.client_ids
    moved, spread = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for client in np.unique(ids)[:_CLIENTS_TRIED]:
        own = x[np.flatnonzero(ids == client)[:_ROWS_TRIED]]
        known = ~np.isnan(own)
        count = np.maximum(known.sum(axis=0), 1)
        off = np.where(known, own - np.nansum(own, axis=0) / count, 0.0)
        moved += np.nansum(np.diff(own, axis=0) ** 2, axis=0) / 2
        spread += (off * off).sum(axis=0)
    usable = spread > 0
    return bool(usable.any() and np.minimum(moved[usable] / spread[usable], 1).mean() < LASTING)


def _rows_per_day(dataset: Dataset) -> int:
    """How many rows of one client make a day; 0 if they do not come regularly, or too often."""
    assert dataset.time is not None
    ids = np.zeros(len(dataset), np.int32) if dataset.client_ids is None else dataset.client_ids
    by_client = np.lexsort([dataset.time, ids])
    same = np.diff(ids[by_client]) == 0
    gaps = np.diff(dataset.time[by_client])[same]
    usual = float(np.median(gaps)) if len(gaps) else 0.0
    if usual <= 0:
        return 0
    rows = _DAY / usual
    return round(rows) if 2 <= rows <= _LONGEST_SEASON and abs(rows - round(rows)) < 0.01 else 0
