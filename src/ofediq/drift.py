"""Has the stream changed? A test on running losses that keeps few numbers, for simulations and live servers.

ADWIN (A. Bifet, R. Gavalda: Learning from Time-Changing Data with Adaptive Windowing, 2007): a window of recent
losses in buckets of 1, 2, 4, ... values. Wherever it can be cut so that the two means differ by more than chance
allows, the older part is dropped. That the newer part is *worse* is an alarm; that it is better is learning. ADWIN
assumes bounded and independent values. Losses are neither: they are cut three deviations above the window's mean,
and chance is allowed (1 + rho) / (1 - rho) times the variance, rho the correlation of neighbours. It is read from
differences d of neighbours, which a change of level leaves alone: 1 - rho = -2 E[d d'] / E[d^2] in an
autoregression of order 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ofediq.errors import require, require_positive

_PER_SIZE = 5  # buckets of one size before two of them are joined
_EVERY = 8  # values between two tests
_LEAST = 10  # values on either side of a cut
_TAIL = 3.0  # deviations above the mean at which a loss is cut: one wild loss is no change
_MEMORY = 300.0  # values over which the likeness of neighbours is measured
_RISE = (
    1.25  # an alarm says that losses have risen by a quarter at least: what is only significant is no news
)


@dataclass
class _Bucket:
    number: float
    total: float
    squares: float  # sum of squared distances from its own mean

    @property
    def level(self) -> tuple[float, float]:
        """Mean and deviation."""
        return self.total / self.number, math.sqrt(self.squares / self.number)

    def __add__(self, other: _Bucket) -> _Bucket:
        number = self.number + other.number
        off = self.total / self.number - other.total / other.number
        squares = self.squares + other.squares + off * off * self.number * other.number / number
        return _Bucket(number, self.total + other.total, squares)


@dataclass
class DriftTest:
    """Takes one loss after another and says when they have risen.

    >>> test = DriftTest()
    >>> alarms = [step for step in range(400) if test.add(1.0 + step % 3 + 4.0 * (step >= 200))]
    >>> len(alarms), 200 < alarms[0] < 230
    (1, True)

    Attributes:
        doubt: how often a stream that does not change may raise an alarm, about.
    """

    doubt: float = 1e-4
    _sizes: list[list[_Bucket]] = field(default_factory=list, repr=False)  # newest first, by size
    _whole: _Bucket | None = field(default=None, repr=False)  # all of the window
    _seen: int = field(default=0, repr=False)
    _last: float = field(default=math.nan, repr=False)
    _step: float = field(default=0.0, repr=False)  # d
    _spread: float = field(default=0.0, repr=False)  # fading mean of d^2
    _turn: float = field(default=0.0, repr=False)  # fading mean of d d'

    def __post_init__(self) -> None:
        require(require_positive("doubt", self.doubt) < 1, "doubt", "must be in (0, 1)", self.doubt)

    def add(self, loss: float) -> bool:
        """Whether losses have risen, now that this one is known; one that is not finite is not taken in."""
        if not math.isfinite(loss):
            return False
        self._seen += 1
        if self._seen > _LEAST and self._whole is not None:
            mean, deviation = self._whole.level
            loss = min(loss, mean + _TAIL * deviation) if deviation > 0 else loss
            rate, step = max(1 / (self._seen - _LEAST), 1 / _MEMORY), loss - self._last
            self._spread += rate * (step * step - self._spread)
            self._turn += rate * (step * self._step - self._turn)
            self._step = step
        self._last = loss
        newest = _Bucket(1.0, loss, 0.0)
        self._whole = newest if self._whole is None else self._whole + newest
        self._insert(newest)
        return self._seen % _EVERY == 0 and self._cut()

    def _insert(self, bucket: _Bucket) -> None:
        for size in range(len(self._sizes) + 1):
            if size == len(self._sizes):
                self._sizes.append([])
            row = self._sizes[size]
            row.insert(0, bucket)
            if len(row) <= _PER_SIZE:
                return
            bucket = row.pop() + row.pop()

    def _cut(self) -> bool:
        """Drop what is older than a change; whether losses rose there."""
        while True:
            buckets = [bucket for row in self._sizes for bucket in row]  # newest first
            place, rose = self._change(buckets)
            if place is None:
                return False
            if rose:  # what was cut at the old level says too little about the new one
                self._sizes, self._seen, self._whole = [], 0, None
                return True
            self._sizes, self._whole = [], sum(buckets[1:place], buckets[0])
            for bucket in reversed(buckets[:place]):
                self._put_back(bucket)

    def _put_back(self, bucket: _Bucket) -> None:
        size = round(math.log2(bucket.number))
        while len(self._sizes) <= size:
            self._sizes.append([])
        self._sizes[size].insert(0, bucket)

    def _change(self, buckets: list[_Bucket]) -> tuple[int | None, bool]:
        """The oldest cut with two means that differ too much, as the number of newer buckets; and whether it rose."""
        if len(buckets) < 2:
            return None, False
        newer, older = [buckets[0]], [buckets[-1]]
        for bucket in buckets[1:]:
            newer.append(newer[-1] + bucket)
        for bucket in buckets[-2::-1]:
            older.append(older[-1] + bucket)
        whole = newer[-1]
        alike = min(max(1 + 2 * self._turn / self._spread, 0.0), 0.95) if self._spread > 0 else 0.0
        deviation = math.sqrt(whole.squares / whole.number * (1 + alike) / (1 - alike))
        if deviation == 0.0:
            return None, False
        room = math.log(2 * math.log(max(whole.number, 3.0)) / self.doubt)
        for place in range(1, len(buckets)):
            new, old = newer[place - 1], older[len(buckets) - place - 1]
            if min(new.number, old.number) < _LEAST:
                continue
            apart = new.total / new.number - old.total / old.number
            part = 1 / new.number + 1 / old.number
            if abs(apart) > deviation * (math.sqrt(2 * part * room) + 2 / 3 * part * room):
                return place, new.total / new.number > _RISE * old.total / old.number
        return None, False


def alarms(losses: Iterable[float], doubt: float = 1e-4) -> list[int]:
    """The steps, from 1, after which losses have risen.

    >>> alarms([1.0, 2.0] * 100 + [5.0, 6.0] * 50)
    [216]
    """
    test = DriftTest(doubt)
    return [step for step, loss in enumerate(losses, 1) if test.add(float(loss))]
