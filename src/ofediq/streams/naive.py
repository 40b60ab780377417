"""Naive references: what a method must beat to be worth its bits.

They predict before they see the answer, like every method, and are scored like one: the running mean over all
predictions so far. A loop over the steps keeps the memory at a few numbers per client.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ofediq.streams.dataset import UNKNOWN_LABEL
from ofediq.streams.stream import Stream

Curve = NDArray[np.float64]


def naive_references(stream: Stream) -> dict[str, Curve]:
    """Accuracy(t) of a classification or MSE(t) of a regression, t = 1..T, for answers without a model.

    - "majority": the most frequent label of all earlier steps (all clients together); "mean": the mean target of
      all earlier steps. At the first step nothing is known and the answer is 0.
    - "constant": the best constant in hindsight: the stream's most frequent label, or its mean target.
    - "last": the target that came before this sample in the source's time order (`Dataset.previous`), if known;
      else this client's own last target; else the majority or mean so far.
    - "season", where the stream has one (`Dataset.season`): the target one season before; else as "last".

    Where samples are predicted N rows ahead (`Dataset.ahead`) only what was known then counts: the targets of N rows
    before and earlier.

    A step counts the clients that are present. Before the first sample the curves are NaN.

    >>> from ofediq.streams import Dataset, Stream
    >>> data = Dataset("toy", x=np.eye(4), y=[1.0, 1.0, 1.0, 3.0], task="regression")
    >>> curves = naive_references(Stream(data, [[0], [1], [2], [3]]))
    >>> curves["mean"].tolist(), curves["last"].tolist()
    ([1.0, 0.5, 0.333..., 1.25], [1.0, 0.5, 0.333..., 1.25])
    """
    tallies = np.stack([_tally(stream, stream.y[_rows(stream, t)]) for t in range(stream.steps)])
    earlier, late = np.cumsum(tallies, axis=0) - tallies, stream.dataset.ahead > 1
    if late:  # known is what came before the samples up to now
        known = [_known(stream, _rows(stream, t)) for t in range(stream.steps)]
        earlier = np.cumsum([_tally(stream, targets) for targets in known], axis=0)
    constant = _answer(stream, tallies.sum(axis=0))
    names = ["majority" if stream.task == "classification" else "mean", "constant", "last"]
    names += ["season"] * (stream.dataset.season is not None)
    points = np.zeros((len(names), stream.steps))
    own = np.zeros(stream.clients, stream.y.dtype)
    met = np.zeros(stream.clients, np.bool_)
    for t in range(stream.steps):
        rows, here = _rows(stream, t), np.flatnonzero(stream.present[t])
        common = _answer(stream, earlier[t])
        last = _past_or(stream, stream.dataset.previous, rows, np.where(met[here], own[here], common))
        answers = (common, constant, last, _past_or(stream, stream.dataset.season, rows, last))[: len(names)]
        points[:, t] = [_points(stream, answer, stream.y[rows]) for answer in answers]
        if not late:
            own[here], met[here] = stream.y[rows], True
    counts = np.cumsum(stream.present.sum(axis=1))
    totals = np.cumsum(points, axis=1)
    curves = np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)
    return dict(zip(names, curves, strict=True))


def last_known(stream: Stream, t: int, own: Curve) -> tuple[Curve, NDArray[np.bool_]]:
    """Each client's last value before its sample of step t, [K], and whether there is one.

    Arguments:
        stream: whose samples.
        t: the step, from 0.
        own: each client's last target so far, NaN before its first; used where the source has no earlier one.
    """
    present, last = stream.present[t], np.full(stream.clients, np.nan)
    here = np.flatnonzero(present)
    otherwise = np.full(len(here), np.nan) if stream.dataset.ahead > 1 else own[here]
    last[here] = _past_or(stream, stream.dataset.previous, _rows(stream, t), otherwise)
    return last, present & ~np.isnan(last)


def _rows(stream: Stream, t: int) -> NDArray[np.int32]:
    """The samples seen at step t, clients in order."""
    rows: NDArray[np.int32] = stream.order[t][stream.present[t]]
    return rows


def _tally(stream: Stream, targets: NDArray[Any]) -> Curve:
    """What one step adds to the memory of the common answer: counts per label, or (number, sum) of the targets."""
    if stream.classes is not None:
        return np.bincount(targets, minlength=stream.classes).astype(np.float64)
    return np.array([targets.size, targets.sum(dtype=np.float64)])


def _answer(stream: Stream, tally: Curve) -> float:
    """The most frequent label or the mean target of a tally; 0 if it is empty."""
    if stream.classes is not None:
        return float(np.argmax(tally))
    return float(tally[1] / tally[0]) if tally[0] else 0.0


def _known(stream: Stream, rows: NDArray[np.int32]) -> NDArray[Any]:
    """The source's own previous targets, those that there are."""
    assert stream.dataset.previous is not None
    previous = stream.dataset.previous[rows]
    return np.asarray(previous[_is_known(stream, previous)])


def _past_or(
    stream: Stream, past: NDArray[Any] | None, rows: NDArray[np.int32], otherwise: NDArray[Any]
) -> NDArray[Any]:
    """The targets of the `past`, where it has them."""
    if past is None:
        return otherwise
    return np.where(_is_known(stream, past[rows]), past[rows], otherwise)


def _is_known(stream: Stream, targets: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(targets != UNKNOWN_LABEL if stream.task == "classification" else ~np.isnan(targets))


def _points(stream: Stream, answers: NDArray[Any] | float, targets: NDArray[Any]) -> float:
    """Hits, or squared errors, of one step."""
    if stream.task == "classification":
        return float(np.count_nonzero(answers == targets))
    return float(np.sum((np.asarray(answers, np.float64) - targets) ** 2))
