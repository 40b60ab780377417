"""A run that diverges says so while it runs, not at its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ofediq.arrays import Floats
from ofediq.streams import Stream, naive_references

_FAR = 10.0  # times what an answer without a model costs; less may be a slow start


class Alarm:
    """Told the losses and errors of a method block by block, it calls `say` once if they get out of hand.

    That is a loss that is no number, or a block of steps with more than ten times the error of the worst naive answer
    up to there; for labels, whose error has an end, ten times the loss of a guess among them.
    """

    def __init__(
        self, stream: Stream, say: Callable[[int], None], naive: Mapping[str, Floats] | None = None
    ) -> None:
        """Of a method on `stream`.

        Arguments:
            stream: what it learns from.
            say: called with the number of steps done.
            naive: the stream's naive references, where they are known already.
        """
        self._present, self._say, self._done, self._said = stream.present.sum(axis=1), say, 0, False
        self._guess = None if stream.classes is None else math.log(max(stream.classes, 2))
        curves = [] if self._guess else (naive or naive_references(stream)).values()
        # Before the second sample of a client there may be no reference at all: then nothing is far.
        self._worst = np.fmax.reduce([*curves], axis=0) if curves else None

    def __call__(self, losses: Floats, errors: Floats) -> None:
        """The next steps, sums over the clients."""
        before, self._done = self._done, self._done + len(losses)
        answers = max(1, int(self._present[before : self._done].sum()))
        found, allowed = float(errors.sum()) / answers, math.inf
        if self._worst is not None:
            allowed = float(self._worst[self._done - 1])
        elif self._guess:
            found, allowed = float(losses.sum()) / answers, self._guess
        wild = not math.isfinite(float(losses.sum())) or 0 < _FAR * allowed < found
        if wild and not self._said:
            self._said = True
            self._say(self._done)


def diverging(name: str, seed: int, step: int) -> str:
    """What is said then."""
    return (
        f"{name} with seed {seed} diverges: at step {step:,} it is far worse than an answer without a model"
    )
