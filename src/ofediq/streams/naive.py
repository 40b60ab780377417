"""Naive references: what a method must beat to be worth its bits.

They predict before they see the answer, like every method, and are scored like one: the running mean over all
predictions so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ofediq.streams.dataset import UNKNOWN_LABEL
from ofediq.streams.stream import Stream

Curve = NDArray[np.float64]


def naive_references(stream: Stream) -> dict[str, Curve]:
    """Accuracy(t) of a classification or MSE(t) of a regression, t = 1..T, for three answers without a model.

    - "majority": the most frequent label of all earlier steps (all clients together); "mean": the mean target of
      all earlier steps. At the first step nothing is known and the answer is 0.
    - "constant": the best constant in hindsight: the stream's most frequent label, or its mean target.
    - "last": the target that came before this sample in the source's time order (`Dataset.previous`), if known;
      else this client's own last target; else the majority or mean so far.

    A step counts the clients that are present. Before the first sample the curves are NaN.

    >>> from ofediq.streams import Dataset, Stream
    >>> data = Dataset("toy", x=np.eye(4), y=[1.0, 1.0, 1.0, 3.0], task="regression")
    >>> curves = naive_references(Stream(data, [[0], [1], [2], [3]]))
    >>> curves["mean"].tolist(), curves["last"].tolist()
    ([1.0, 0.5, 0.333..., 1.25], [1.0, 0.5, 0.333..., 1.25])
    """
    targets, present = stream.y[stream.order], stream.present
    so_far = _majority_so_far(stream) if stream.classes is not None else _mean_so_far(targets, present)
    answers = {
        "majority" if stream.task == "classification" else "mean": np.broadcast_to(
            so_far[:, None], targets.shape
        ),
        "constant": np.broadcast_to(_best_constant(stream), targets.shape),
        "last": _last_values(stream, targets, so_far),
    }
    return {name: _score(stream, answer, targets) for name, answer in answers.items()}


def _score(stream: Stream, answers: NDArray[Any], targets: NDArray[Any]) -> Curve:
    """The running mean of hits or squared errors over the clients that are present."""
    if stream.task == "classification":
        points = (answers == targets).astype(np.float64)
    else:
        points = (answers.astype(np.float64) - targets) ** 2
    counts = np.cumsum(stream.present.sum(axis=1))
    totals = np.cumsum(np.where(stream.present, points, 0.0).sum(axis=1))
    return _ratio(totals, counts, np.nan)


def _ratio(totals: Curve, counts: NDArray[np.int64], empty: float) -> Curve:
    """totals / counts, and `empty` where nothing was counted."""
    ratio: Curve = np.divide(totals, counts, out=np.full(len(totals), empty), where=counts > 0)
    return ratio


def _label_counts(stream: Stream) -> NDArray[np.int64]:
    """How often each label occurs at each step, [steps, classes]."""
    classes = stream.classes or 0
    cells = (np.arange(stream.steps)[:, None] * classes + stream.y[stream.order])[stream.present]
    return np.bincount(cells, minlength=stream.steps * classes).reshape(stream.steps, classes)


def _before(per_step: NDArray[Any]) -> NDArray[Any]:
    """The sum over all earlier steps, for each step."""
    return np.asarray(np.cumsum(per_step, axis=0) - per_step)


def _majority_so_far(stream: Stream) -> NDArray[np.int64]:
    return np.asarray(np.argmax(_before(_label_counts(stream)), axis=1))


def _mean_so_far(targets: NDArray[Any], present: NDArray[np.bool_]) -> Curve:
    counts = _before(present.sum(axis=1))
    totals = _before(np.where(present, targets, 0.0).sum(axis=1, dtype=np.float64))
    return _ratio(totals, counts, 0.0)


def _best_constant(stream: Stream) -> Any:
    if stream.task == "classification":
        return np.argmax(_label_counts(stream).sum(axis=0))
    seen = stream.y[stream.order[stream.present]]
    return seen.mean(dtype=np.float64) if seen.size else 0.0


def _last_values(stream: Stream, targets: NDArray[Any], so_far: NDArray[Any]) -> NDArray[Any]:
    answers = _own_last(stream, targets, so_far)
    if stream.dataset.previous is None:
        return answers
    previous = stream.dataset.previous[stream.order]
    known = previous != UNKNOWN_LABEL if stream.task == "classification" else ~np.isnan(previous)
    return np.where(known, previous, answers)


def _own_last(stream: Stream, targets: NDArray[Any], so_far: NDArray[Any]) -> NDArray[Any]:
    """Each client's target at its latest step before this one; the common answer where there is none."""
    time = np.arange(stream.steps)[:, None]
    latest = np.maximum.accumulate(np.where(stream.present, time, -1), axis=0)
    earlier = np.concatenate([np.full((1, stream.clients), -1), latest[:-1]])
    own = np.take_along_axis(targets, np.maximum(earlier, 0), axis=0)
    return np.where(earlier >= 0, own, so_far[:, None])
