"""`Misses`: how far a client's predictions were off, and how wide an interval for nine of ten has to be."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Floats

_NINE_OF_TEN = 1.645  # deviations of a normal distribution
_OUTSIDE = 0.1  # share of targets that may lie outside
_SPAN = 100.0  # errors that the usual error is the mean of, about
_RATE = 0.05  # of the width: a target outside widens it by 4.6 %, one inside narrows it by 0.5 %

Number = Floats  # [1]


class Misses(NamedTuple):
    """What a client remembers of its errors.

    The width is a number of usual errors; it grows when a target was outside and shrinks when one was inside, in
    balance at nine of ten, whatever the errors are distributed like.

    Attributes:
        errors: how many.
        mean: squared error, running.
        width: of half an interval, in roots of the mean.
    """

    errors: Number
    mean: Number
    width: Number

    @classmethod
    def none(cls) -> Misses:
        """Before the first error."""
        return cls(np.zeros(1), np.zeros(1), np.full(1, _NINE_OF_TEN))

    def reach(self) -> float | None:
        """How far from a prediction nine of ten targets are expected at most; None before the first error.

        >>> Misses.none().reach(), round(Misses.none().after(9.0).reach(), 3)
        (None, 4.935)
        """
        if not self.errors[0]:
            return None
        return float(self.width[0]) * math.sqrt(float(self.mean[0]))

    def after(self, error: float) -> Misses:
        """With one more squared error."""
        errors, width, reach = self.errors + 1, self.width, self.reach()
        mean = self.mean + (error - self.mean) / np.minimum(errors, _SPAN)
        if reach is not None:
            outside = math.sqrt(error) > reach if math.isfinite(error) else True
            width = width * math.exp(_RATE * (outside - _OUTSIDE))
        return Misses(errors, mean, width)
