"""Naive references: what a method must beat to be worth its bits.

They predict before they see the answer, like every method, and are scored like one: the running mean over all
predictions so far. A loop over the steps keeps the memory at a few numbers per client.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ofediq.arrays import Flags, Floats, Numbers
from ofediq.errors import require_kind
from ofediq.streams.dataset import UNKNOWN_LABEL
from ofediq.streams.stream import Stream

APART = ("constant", "majority", "mean")
"""References that know more than a client can at no bits, the future or others' targets: shown, but no measure."""


def naive_references(stream: Stream) -> dict[str, Floats]:
    """Accuracy(t) of a classification or MSE(t) of a regression, t = 1..T, for answers without a model.

    - "majority": the most frequent label of all earlier steps (all clients together); "mean": the mean target of
      all earlier steps.
    - "constant": the best constant in hindsight: the stream's most frequent label, or its mean target.
    - "own majority", "own mean": the same of this client's own targets so far.
    - "last": the target that came before this sample in the source's time order (`Dataset.previous`), if known;
      else this client's own last target.
    - "season", where the stream has one (`Dataset.season`): the target one season before; else as "last".

    Where nothing is known the answer is 0. Where samples are predicted N rows ahead (`Dataset.ahead`) only what was
    known then counts: the targets of N rows before and earlier.

    A step counts the clients that are present. Before the first sample the curves are NaN.

    >>> from ofediq.streams import Dataset, Stream
    >>> data = Dataset("toy", x=np.eye(4), y=[1.0, 1.0, 1.0, 3.0], task="regression")
    >>> curves = naive_references(Stream(data, [[0], [1], [2], [3]]))
    >>> curves["mean"].tolist(), curves["last"].tolist()
    ([1.0, 0.5, 0.333..., 1.25], [1.0, 0.5, 0.333..., 1.25])
    """
    require_kind(Stream, "stream", stream)
    tallies = np.stack([_tally(stream, stream.y[_rows(stream, t)]).sum(axis=0) for t in range(stream.steps)])
    earlier, told = np.cumsum(tallies, axis=0) - tallies, stream.dataset.own_past
    constant = _answer(stream, tallies.sum(axis=0))
    common = "majority" if stream.task == "classification" else "mean"
    names = [common, "constant", f"own {common}", "last"] + ["season"] * (stream.dataset.season is not None)
    points = np.zeros((len(names), stream.steps))
    own, last = np.zeros((stream.clients, tallies.shape[1])), np.zeros(stream.clients, stream.y.dtype)
    for t in range(stream.steps):
        rows, here = _rows(stream, t), np.flatnonzero(stream.present[t])
        if told:  # known is what came before the samples up to now
            targets, known = _known(stream, rows)
            own[here[known]] += _tally(stream, targets[known])
        pooled = own.sum(axis=0) if told else earlier[t]
        newest = _past_or(stream, stream.dataset.previous, rows, last[here])
        season = _past_or(stream, stream.dataset.season, rows, newest)
        answers = (_answer(stream, pooled), constant, _answer(stream, own[here]), newest, season)[
            : len(names)
        ]
        points[:, t] = [_points(stream, answer, stream.y[rows]) for answer in answers]
        if not told:
            own[here] += _tally(stream, stream.y[rows])
            last[here] = stream.y[rows]
    counts = np.cumsum(stream.present.sum(axis=1))
    totals = np.cumsum(points, axis=1)
    curves = np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)
    return dict(zip(names, curves, strict=True))


def last_known(stream: Stream, t: int, own: Floats) -> tuple[Floats, Flags]:
    """Each client's last value before its sample of step t, [K], and whether there is one.

    Arguments:
        stream: whose samples.
        t: the step, from 0.
        own: each client's last target so far, NaN before its first; used where the source has no earlier one.
    """
    present, last = stream.present[t], np.full(stream.clients, np.nan)
    here = np.flatnonzero(present)
    otherwise = np.full(len(here), np.nan) if stream.dataset.own_past else own[here]
    last[here] = _past_or(stream, stream.dataset.previous, _rows(stream, t), otherwise)
    return last, present & ~np.isnan(last)


def _rows(stream: Stream, t: int) -> NDArray[np.int32]:
    """The samples seen at step t, clients in order."""
    rows: NDArray[np.int32] = stream.order[t][stream.present[t]]
    return rows


def _tally(stream: Stream, targets: Numbers) -> Floats:
    """What each target adds to a memory, [targets, size]: counts per label, or (number, sum)."""
    if stream.classes is not None:
        return np.asarray(targets[:, None] == np.arange(stream.classes), np.float64)
    return np.stack([np.ones(len(targets)), np.asarray(targets, np.float64)], axis=1)


def _answer(stream: Stream, tally: Floats) -> Floats:
    """The most frequent label or the mean target of tallies [..., size]; 0 where one is empty."""
    if stream.classes is not None:
        return np.asarray(np.argmax(tally, axis=-1), np.float64)
    return np.asarray(tally[..., 1] / np.maximum(tally[..., 0], 1))


def _known(stream: Stream, rows: NDArray[np.int32]) -> tuple[Numbers, Flags]:
    """The source's own previous targets, and which of them there are."""
    assert stream.dataset.previous is not None
    previous = stream.dataset.previous[rows]
    return previous, _is_known(stream, previous)


def _past_or(stream: Stream, past: Numbers | None, rows: NDArray[np.int32], otherwise: Numbers) -> Numbers:
    """The targets of the `past`, where it has them."""
    if past is None:
        return otherwise
    return np.where(_is_known(stream, past[rows]), past[rows], otherwise)


def _is_known(stream: Stream, targets: Numbers) -> Flags:
    return np.asarray(targets != UNKNOWN_LABEL if stream.task == "classification" else ~np.isnan(targets))


def _points(stream: Stream, answers: Numbers | float, targets: Numbers) -> float:
    """Hits, or squared errors, of one step."""
    if stream.task == "classification":
        return float(np.count_nonzero(answers == targets))
    return float(np.sum((np.asarray(answers, np.float64) - targets) ** 2))
