"""Whom the model follows: what most members want, or what a few do.

What a member wants is the sum of its last updates. Where data differ these sums point in many directions, and none
says which members are honest. But the sum of all of them serves nearly everyone: its cosine with what each wants is
positive, and about the same for all. Members who work together are served best, and at the others' expense. So their
weights are halved until the member in the middle is served, too.

Who works together wants the same. Where most members are alike that tells nothing; where they differ, a member whose
wish many others share counts less, so that all of them together weigh about as much as one who is alone.

Two sums are looked at. If what all want together would harm the middle one (cosine below HARMED), those who are
served best in it count less. And in what the model really did, with this round, nobody may be served MOST times as
well as the middle one: an honest group that has not been heard yet is not cut by that, and gets quieter when it is
heard. Who wants the opposite of what the model does counts less, or not at all. Where most want it the model went too
far, and this sum says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.arrays import Flags, Floats
from ofediq.methods.robust.directions import chance

HARMED, SERVED = -0.15, 0.1
"""Cosine of the middle member below which all of them are harmed together; and from which it is well again."""

MOST = 3.5
"""How well anyone may be served, in what the middle member of those who do not oppose it has."""

DOUBTED, OPPOSED = -0.2, -0.4
"""Cosine with what the model does from which on an update counts less, and not at all."""

ALONE, APART = -0.75, -0.3
"""Cosine with what all want together from which on an update counts less: where that hardly serves the middle member,
and where it serves it well."""

ALIKE = 2.0
"""As many as the middle member, times this, may share a member's wish before each of them counts less."""

_PANEL = 512  # members that others are compared with, at most
_PIECE = 1 << 18  # multiplications; for more at once OpenBLAS wakes threads, which takes longer than the work
_ROWS = 64  # of them in a piece: whatever is narrow is copied more often than multiplied
_WELL, _LINE = 0.2, 0.15  # cosine of a middle member that is served well; from less to not at all
_HARM = 0.05  # by which a cosine is below HARMED when all of it is believed
_NEARLY, _BEST = 0.4, 0.6  # of the best cosine: who is served best
_HALVINGS, _LEAST = 12, 0.1  # how often; weights below it are none


def balanced(
    wishes: Floats, moved: Floats, rows: Floats, senders: npt.NDArray[np.intp], known: Flags, dim: int
) -> Floats:
    """The weights in [0, 1] of a round's updates.

    Arguments:
        wishes: what each member wants, [members, width].
        moved: what the model did in the last rounds, [width].
        rows: the updates of this round, [n, width].
        senders: places among the members of those who sent them, [n].
        known: of which of these enough is known to say whom they serve or oppose, [n].
        dim: how many numbers say something; where they are few, cosines are large by chance.

    >>> wishes = np.array([[1.0, 1, 0], [1, 0, 1], [1, -1, 0], [1, 0, -1], [1, 0, 0], [-9, 0, 0], [-9, 0, 0]])
    >>> balanced(wishes, np.zeros(3), wishes, np.arange(7), np.ones(7, bool), 64).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    """
    weights, line = _apart(wishes), chance(dim)
    together = _cosines(wishes, _added(wishes, weights))
    middle = _middle(together)
    harm = _rising(HARMED - middle, 0.0, _HARM)
    if harm > 0:
        heard = _halved(
            wishes, weights, lambda given: _added(wishes, given), lambda one: _middle(one) - SERVED
        )
        weights = weights + harm * (heard - weights)

    def after(given: Floats) -> Floats:
        return moved + _added(rows, given[senders])

    def left(one: Floats) -> float:
        middle = _agreeing_middle(one)
        return max(MOST * middle, middle + line / 2) - float(one.max())

    weights = _halved(wishes, weights, after, left)
    served = _cosines(wishes, after(weights))
    turned = 2 * (served < DOUBTED).sum() > served.size
    low = min(OPPOSED, -line)
    agreeing = np.ones(len(rows)) if turned else _rising(served[senders], low, low + DOUBTED - OPPOSED)
    if _agreeing_middle(together) > 0:  # what all want together serves most of them
        alone = min(ALONE + (APART - ALONE) * _rising(middle, 0.0, _WELL), -line)
        agreeing = agreeing * _rising(together[senders], alone - _LINE, alone)
    # Of first updates nothing is known but noise: in few dimensions some of it agrees with the sum by chance.
    found: Floats = np.where(known, _rising(weights[senders], _LEAST, 1.0) * agreeing, 1.0)
    return found


def _apart(wishes: Floats) -> Floats:
    """Weights of members by how many want the same.

    With c the cosine of two wishes, the one counts for the other c^4 times, and less if it is shorter: who copies
    somebody in a low voice does not silence it.
    """
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", wishes, wishes)), 1e-30)[:, None]
    units, lengths = (wishes / lengths).astype(np.float32), lengths.astype(np.float32)
    every = -(-len(wishes) // _PANEL)
    panel, long = units[::every].T, lengths[::every].T
    width, alike = max(1, _PIECE // (_ROWS * len(panel))), np.empty(len(wishes))
    panels = [panel[:, at : at + width] for at in range(0, panel.shape[1], width)]
    for at in range(0, len(wishes), _ROWS):
        part = slice(at, at + _ROWS)
        cosines = np.concatenate([units[part] @ some for some in panels], axis=1)
        np.maximum(cosines, np.float32(0), out=cosines)
        fourth = np.square(np.square(cosines, out=cosines), out=cosines)
        alike[part] = np.einsum("ij,ij->i", fourth, np.minimum(long / lengths[part], np.float32(1)))
    own = np.arange(len(wishes)) % every == 0  # who is compared with itself, too
    sharing = 1 + every * np.maximum(alike - own, 0.0)
    found: Floats = np.minimum(1.0, ALIKE * _middle(sharing) / sharing)
    return found


def _halved(
    wishes: Floats,
    weights: Floats,
    total: Callable[[Floats], Floats],
    margin: Callable[[Floats], float],
) -> Floats:
    """Weights, with those of the best served halved until cosines of all with the `total` have no margin below 0.

    One alone does no harm that its length does not bound, and half of the members are no minority. The last step is
    taken in part, so that small differences of the updates make small ones of the weights.
    """
    before, missing = weights, 0.0
    for _ in range(_HALVINGS):
        served = _cosines(wishes, total(weights))
        left = margin(served)
        if left >= 0:
            return before + missing / max(missing + left, 1e-30) * (weights - before)
        most = max(float(served.max()), 0.0)
        best = _rising(served, _NEARLY * most, _BEST * most)
        if best.sum() < 2 or 2 * best.sum() >= len(served):
            break
        before, missing, weights = weights, -left, weights * (1 - best / 2)
    return weights


def _rising(values: Any, low: float, high: float) -> Any:
    """0 up to `low`, 1 from `high` on, and a line between them."""
    return np.clip((values - low) / max(high - low, 1e-30), 0.0, 1.0)


def _cosines(rows: Floats, vector: Floats) -> Floats:
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows) * float((vector * vector).sum()))
    found: Floats = np.einsum("ij,j->i", rows, vector) / np.maximum(lengths, 1e-30)
    return found


def _added(rows: Floats, weights: Floats) -> Floats:
    total: Floats = np.einsum("i,ij->j", weights, rows)
    return total


def _agreeing_middle(values: Floats) -> float:
    """The middle one of those who do not oppose what is done, if they are most of all."""
    agreeing = values[values > DOUBTED]
    return _middle(agreeing if 2 * agreeing.size > values.size else values)


def _middle(values: Floats) -> float:
    return float(np.sort(values)[(values.size - 1) // 2])
