"""How the messages of a round become one: added up, or by something that looks at each of them."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np

from ofediq.arrays import Array, namespace
from ofediq.calls import parse_call
from ofediq.errors import require, require_choice
from ofediq.methods.pieces import describe, piece, restore
from ofediq.methods.robust.guard import CLIP
from ofediq.settings import Count, Positive, Ranged


class Combine(Ranged, abc.ABC):
    """From the messages of a round to the vector that the server rule gets.

    Attributes:
        adds: whether the result is the plain sum, so that nobody has to keep the messages apart.
        remembers: whether the server weighs messages by what it knows of their senders (`scales.Scales`) first.
    """

    adds: bool = False
    remembers: bool = False

    @abc.abstractmethod
    def total(self, messages: Array, sent: Array) -> Array:
        """One vector [dim] in the place of the sum, from `messages` [n, dim] of which those in `sent` [n] count.

        It has the size of a sum: a robust mean times the number of messages.
        """


@piece
@dataclass(frozen=True)
class Sum(Combine):
    """The plain sum."""

    adds = True

    def total(self, messages: Array, sent: Array) -> Array:
        """Added up."""
        return sent.astype(messages.dtype) @ messages


@piece
@dataclass(frozen=True)
class CoordinateMedian(Combine):
    """n times the median of each coordinate (D. Yin et al., 2018).

    >>> CoordinateMedian().total(np.array([[1.0], [2.0], [900.0]], np.float32), np.ones(3, bool))
    array([6.], dtype=float32)
    """

    def total(self, messages: Array, sent: Array) -> Array:
        """The middle one, or the mean of the two in the middle."""
        ordered, count = _ordered(messages, sent)
        low, high = (count - 1) // 2, count // 2
        rank = namespace(messages).arange(messages.shape[0])[:, None]
        middle = _among(ordered, ((rank == low) | (rank == high)) & (rank < count))
        return middle * (count / np.float32(2) * (1 + (low == high))).astype(np.float32)


@piece
@dataclass(frozen=True)
class TrimmedMean(Combine):
    """n times the mean of each coordinate without its largest and smallest values (D. Yin et al., 2018).

    Attributes:
        share: of the messages that are left out at each end, below 1/2.

    >>> TrimmedMean(0.25).total(np.array([[-900.0], [1.0], [2.0], [3.0]], np.float32), np.ones(4, bool))
    array([6.], dtype=float32)
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        require(0 <= self.share < 0.5, "share", "must lie in [0, 1/2)", self.share)

    def total(self, messages: Array, sent: Array) -> Array:
        """The mean of those in the middle."""
        ordered, count = _ordered(messages, sent)
        left = (np.float32(self.share) * count.astype(np.float32) + np.float32(1e-4)).astype(count.dtype)
        rank = namespace(messages).arange(messages.shape[0])[:, None]
        kept = count - 2 * left
        some = _among(ordered, (rank >= left) & (rank < count - left))
        return some * (count / namespace(messages).maximum(kept, 1)).astype(np.float32)


@piece
@dataclass(frozen=True)
class Krum(Combine):
    """n times the mean of the `keep` messages that are closest to their neighbours (P. Blanchard et al., 2017).

    score_i = the sum of the squared distances to the n - f - 2 closest others, f = floor(hostile n).

    Attributes:
        hostile: share of hostile messages that it is made for, below 1/2.
        keep: how many count: 1 is Krum, more is Multi-Krum.
    """

    hostile: float = 0.2
    keep: Count = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.hostile < 0.5, "hostile", "must lie in [0, 1/2)", self.hostile)

    def total(self, messages: Array, sent: Array) -> Array:
        """The mean of the best, in the place of all."""
        xp, size = namespace(messages), messages.shape[0]
        unit = xp.maximum(abs(messages).max(), np.float32(1e-30))  # squares must not overflow
        scaled = xp.where(sent[:, None], messages, np.float32(0)) / unit
        squares = (scaled * scaled).sum(1)
        apart = xp.maximum(squares[:, None] + squares[None] - 2 * scaled @ scaled.T, np.float32(0))
        alone = ~(sent[:, None] & sent[None]) | xp.eye(size, dtype=bool)
        nearest = xp.sort(xp.where(alone, np.float32(np.inf), apart), axis=1)
        count = sent.sum()
        others = xp.maximum(count - (np.float32(self.hostile) * count).astype(count.dtype) - 2, 1)
        used = xp.arange(size)[None] < xp.minimum(others, count - 1)
        score = xp.where(sent, xp.where(used, nearest, np.float32(0)).sum(1), np.float32(np.inf))
        best = xp.argsort(xp.argsort(score, stable=True), stable=True) < xp.minimum(self.keep, count)
        chosen = best.astype(np.float32) @ xp.where(sent[:, None], messages, np.float32(0))
        return chosen * (count / xp.maximum(best.sum(), 1)).astype(np.float32)


@piece
@dataclass(frozen=True)
class CentredClipping(Combine):
    """n v with v <- v + mean of (x_i - v) min(1, radius m / |x_i - v|), m the median distance from v.

    From v = 0, a few times (S. P. Karimireddy, L. He, M. Jaggi, 2021).

    Attributes:
        radius: in median distances.
        rounds: how often.
    """

    radius: Positive = 1.0
    rounds: Count = 3

    def total(self, messages: Array, sent: Array) -> Array:
        """The centre, in the place of each."""
        xp, count = namespace(messages), sent.sum()
        middle = xp.zeros_like(messages[0])
        for _ in range(self.rounds):
            apart = xp.where(sent[:, None], messages - middle, np.float32(0))
            apart = xp.clip(apart, np.float32(-_HUGE), np.float32(_HUGE))  # lengths must not overflow
            top = xp.maximum(abs(apart).max(1, keepdims=True), np.float32(1e-30))
            far = (top * xp.sqrt(((apart / top) ** 2).sum(1, keepdims=True)))[:, 0]
            ordered = xp.sort(xp.where(sent, far, np.float32(np.inf)))
            median = ordered[xp.maximum(count - 1, 0) // 2]
            limit = np.float32(self.radius) * xp.where(count > 0, median, np.float32(0))
            factor = xp.minimum(np.float32(1), limit / xp.maximum(far, np.float32(1e-30)))
            middle = middle + (factor[:, None] * apart).sum(0) / xp.maximum(count, 1).astype(np.float32)
        return middle * count.astype(np.float32)


@piece
@dataclass(frozen=True)
class Guarded(Combine):
    """The sum of what the guard of a live server leaves of each message; see `scales`.

    Attributes:
        clip: a message of so many usual lengths does not count, above 1.
    """

    clip: float = CLIP
    remembers = True

    def __post_init__(self) -> None:
        require(self.clip > 1, "clip", "must be above 1", self.clip)

    def total(self, messages: Array, sent: Array) -> Array:
        """What is left has been weighed: it is added up."""
        return sent.astype(messages.dtype) @ messages


_HUGE = 1e30

COMBINES: dict[str, type[Combine]] = {
    "sum": Sum,
    "coordinate_median": CoordinateMedian,
    "trimmed_mean": TrimmedMean,
    "krum": Krum,
    "centred_clipping": CentredClipping,
    "guard": Guarded,
}
"""The ways to combine, by name."""


def add_up() -> Sum:
    """Messages are added up."""
    return Sum()


def combine_rule(text: str) -> Combine:
    """The way to combine that `text` names.

    >>> combine_rule("krum(hostile=0.3)")
    Krum(hostile=0.3, keep=1)
    """
    name, given = parse_call(text, what="combine")
    require_choice("combine", name, tuple(COMBINES))
    rule: Combine = restore({**describe(COMBINES[name]()), **given}, Combine)
    return rule


def _ordered(messages: Array, sent: Array) -> tuple[Array, Array]:
    """Each coordinate's values in order, those that were not sent last; and how many were sent."""
    xp = namespace(messages)
    return xp.sort(xp.where(sent[:, None], messages, np.float32(np.inf)), axis=0), sent.sum()


def _among(ordered: Array, kept: Array) -> Array:
    return namespace(ordered).where(kept, ordered, np.float32(0)).sum(0)
