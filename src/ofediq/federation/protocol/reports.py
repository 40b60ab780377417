"""What a client says about its predictions, in four bytes.

Sums are rounded down to what a message holds, and the rest waits for the next report: over a run nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

REPORT_BYTES = 4
"""A byte for the number of predictions, twelve bits for each of two sums."""

_EXACT, _PER_OCTAVE, _LOWEST = (
    256,
    30,
    -64,
)  # codes of whole numbers; of others; the power of two of the first
_CODES = 4096
_LARGEST = 1e18
_FEW, _STEPS = 128, 16  # counts below it are exact, those above have 16 codes per octave


class Report(NamedTuple):
    """How a client's predictions fared since its last report.

    Attributes:
        samples: how many there were.
        error: sum of their errors: 0 or 1 in classification, squared in regression.
        naive: the same of this client's last value. A first prediction counts for both alike; one of a number that
            starts from the client's past does not count before there is one.

    >>> one = Report().plus(0.0, 1.0).plus(1.0, 1.0)
    >>> Report.decode(one.encode()) == one
    True
    """

    samples: int = 0
    error: float = 0.0
    naive: float = 0.0

    def plus(self, error: float, naive: float) -> Report:
        """With one more prediction; an error beyond 1e18, or none at all, counts as that."""
        return Report(self.samples + 1, self.error + _bounded(error), self.naive + _bounded(naive))

    def split(self, *, counted: bool) -> tuple[Report, Report]:
        """What fits into one message, and the rest, which waits for the next one.

        Arguments:
            counted: whether errors are counts, of which there are no more than predictions.

        >>> Report(1, 0.1234, 0.0).split(counted=False)
        (Report(samples=1, error=0.122..., naive=0.0), Report(samples=0, error=0.001..., naive=0.0))
        """
        samples = _count_of(_count_code(self.samples))
        share = samples / self.samples if self.samples else 0.0
        most = samples if counted else math.inf
        error, naive = (
            _sum_of(_sum_code(min(max(0.0, value * share), most))) for value in (self.error, self.naive)
        )
        return Report(samples, error, naive), Report(
            self.samples - samples, self.error - error, self.naive - naive
        )

    def encode(self) -> bytes:
        """Four bytes; the sums rounded down, see `split`."""
        number = _count_code(self.samples)
        return (number << 24 | _sum_code(self.error) << 12 | _sum_code(self.naive)).to_bytes(4, "little")

    @classmethod
    def decode(cls, data: bytes) -> Report:
        """The inverse of `encode`; all four-byte texts are reports."""
        code = int.from_bytes(data[:REPORT_BYTES], "little")
        return cls(_count_of(code >> 24), _sum_of(code >> 12 & 0xFFF), _sum_of(code & 0xFFF))


class PendingReport:
    """Adds up what a client will report, and says when it is time.

    Attributes:
        report: what has not been sent.
    """

    def __init__(self) -> None:
        self.report = Report()
        self._windows = 0  # closed since the last report

    def count(self, error: float, naive: float) -> None:
        """One more prediction, and what the naive one would have been wrong by."""
        self.report = self.report.plus(error, naive)

    def closed(self) -> None:
        """A window is over."""
        self._windows += 1

    def forget(self) -> None:
        """Nothing of what is pending will be reported."""
        self.report = Report()

    def due(self, every: int, *, counted: bool, last: bool) -> Report:
        """What the next message says: nothing but after `every` windows, or if it is the `last` one; 0 is never."""
        if not every or not (last or self._windows >= every):
            return Report()
        self._windows = 0
        report, self.report = self.report.split(counted=counted)
        return report


def _bounded(error: float) -> float:
    return error if error < _LARGEST else _LARGEST  # NaN is not smaller


def _count_code(count: int) -> int:
    """The largest code whose count is no larger."""
    if count < _FEW:
        return count
    return _highest(_FEW + int(_STEPS * math.log2(count / _FEW)), 255, lambda code: _count_of(code) <= count)


def _count_of(code: int) -> int:
    return code if code < _FEW else math.floor(_FEW * 2 ** ((code - _FEW) / _STEPS))


def _sum_code(value: float) -> int:
    """Whole numbers below 256 are exact, everything else is rounded down to a step of 2.3 %."""
    if value < _EXACT and value == int(value):
        return int(value)
    code = _EXACT + math.floor(_PER_OCTAVE * (math.log2(value) - _LOWEST))
    return 0 if code < _EXACT else _highest(code, _CODES - 1, lambda code: _sum_of(code) <= value)


def _highest(near: int, last: int, fits: Callable[[int], bool]) -> int:
    """The highest code up to `last` that fits; rounding may have put `near` one beside it."""
    return next(code for code in range(min(near + 1, last), -1, -1) if fits(code))


def _sum_of(code: int) -> float:
    return float(code) if code < _EXACT else 2.0 ** (_LOWEST + (code - _EXACT) / _PER_OCTAVE)
