"""Divergence: noticed in what clients report, answered by the last good model and a smaller step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from ofediq.federation.protocol.reports import Report
from ofediq.methods import Method
from ofediq.methods.round import RoundState, first_state

WINDOW = 30
"""Predictions that a judgement is made of, at least."""

FAR = 10.0
"""Times the error of the last value, and of the untrained model: nothing that learns is so far off."""

_HOPELESS = 1e15  # no need to wait for more
_ALIKE = 3.0  # times: errors within it are alike, and moves beyond it are not
_FEW = 2  # reports of a client, of which none may be left out
_IN_A_ROW = 3  # bad windows that tell that it is not the step size
_AT_MOST = 20  # whatever they look like: steps are a millionth of a millionth then
_STEPS = ("step_size", "first")  # what step sizes are called in client and server rules


class Watch:
    """Compares running errors with naive ones, and keeps the model of the last good window but one.

    Args:
        state: before the first round.
        step: of that state.
        anchored: whether an untrained model is a naive forecast, and so no worse.

    A model may be bad long before its errors are reported, so the newest good one is not trusted. One that is bad is
    so for most who report, in more than one report of each: a few clients whose errors are far off, or one sample of
    each that is, are no reason to go back.

    Bad windows in a row whose errors are alike, though the model moved a third as far in each as in the one before,
    come from data that have left the good model, not from its steps, and so do twenty of any kind: the errors of a
    model that hardly moved are then what later ones are compared with.
    """

    def __init__(self, state: RoundState, step: int, *, anchored: bool) -> None:
        self._good = [(state, step)]
        self._untrained = 0.0 if anchored else None
        self._far_off = 0.0  # error that smaller steps did not mend
        self._recent = Report()
        self._each: defaultdict[int, list[Report]] = defaultdict(list)  # its reports, by number
        self._bad: list[tuple[float, float]] = []  # error and move of each bad window since the last good one
        self.error = self.naive = 0.0  # means of the last window
        self.well = True  # whether that was as the last value and the untrained model allow

    def judge(
        self, reports: Sequence[tuple[int, Report]], state: RoundState, step: int
    ) -> Literal["good", "bad", "open", "still"]:
        """What the reports of a round that ended with `state` say, each with a client's number; open until enough.

        "still": bad, and smaller steps did not help.
        """
        if self._untrained is None and reports:
            self._untrained = float(np.median([_mean([one]) for _, one in reports]))
        for number, one in reports:
            self._each[number].append(one)
            recent = self._recent
            self._recent = Report(
                recent.samples + one.samples, recent.error + one.error, recent.naive + one.naive
            )
        samples = self._recent.samples
        hopeless = self._recent.error > _HOPELESS * max(1.0, samples) > self._recent.naive
        if samples < WINDOW and not hopeless:
            return "open"
        self.error, self.naive = self._recent.error / samples, self._recent.naive / samples
        middle = float(np.median([_steady(each) for each in self._each.values()]))
        self._recent = Report()
        self._each.clear()
        usual = max(self.naive, self._untrained or 0.0)
        self.well = self.error <= FAR * usual or middle <= _ALIKE * usual
        usual = max(usual, self._far_off)
        if self.error > FAR * usual and middle > _ALIKE * usual:
            return "still" if self._stands_still(state) else "bad"
        self._good, self._bad = [*self._good[-1:], (state, step)], []
        return "good"

    def _stands_still(self, state: RoundState) -> bool:
        good = np.asarray(self._good[0][0].params, np.float64)
        self._bad.append((self.error, float(np.linalg.norm(np.asarray(state.params, np.float64) - good))))
        if len(self._bad) < _AT_MOST and not _alike(self._bad[-_IN_A_ROW:]):
            return False
        self._far_off, self._bad = max(error for error, _ in self._bad[-_IN_A_ROW:]), []
        return True

    def back(self) -> tuple[RoundState, int]:
        """The model to go back to, and its step."""
        self._good = self._good[:1]
        return self._good[0]


def _alike(bad: list[tuple[float, float]]) -> bool:
    """Whether errors were alike though the model moved ever less."""
    if len(bad) < _IN_A_ROW or max(bad)[0] > _HOPELESS:  # reports end at 1e18: there all are alike
        return False
    return all(
        next_moved * _ALIKE <= moved and error / _ALIKE <= next_error <= error * _ALIKE
        for (error, moved), (next_error, next_moved) in pairwise(bad)
    )


def _steady(reports: list[Report]) -> float:
    """A client's mean error without its worst report, if it has three or more."""
    ordered = sorted(reports, key=lambda one: _mean([one]))
    return _mean(ordered[:-1] if len(ordered) > _FEW else ordered)


def _mean(reports: Sequence[Report]) -> float:
    return sum(one.error for one in reports) / sum(one.samples for one in reports)


def restarted(method: Method, good: RoundState, now: RoundState, clients: int) -> RoundState:
    """The model of `good` at the start of `method`; what a steered method has spent by `now` stays spent."""
    fresh = first_state(method, np.asarray(good.params), clients)
    if not hasattr(now.server, "signal"):
        return fresh
    server = now.server._replace(inner=fresh.server.inner)
    vectors, scalars = method.server.say(fresh.params, server)
    return fresh._replace(server=server, down=fresh.down._replace(vectors=vectors, scalars=scalars))


def smaller(method: Method, factor: float = 0.25) -> Method:
    """`method` with smaller steps, at clients and at the server; with larger ones if `factor` is.

    >>> from ofediq.methods import fedogd
    >>> smaller(fedogd(0.1)).server.step_size
    0.025
    """
    return replace(method, client=_scaled(method.client, factor), server=_scaled(method.server, factor))


def _scaled(piece: Any, factor: float) -> Any:
    changed: dict[str, Any] = {}
    for one in fields(piece):
        value = getattr(piece, one.name)
        if one.name in _STEPS and isinstance(value, float):
            changed[one.name] = factor * value
        elif is_dataclass(value) and not isinstance(value, type):
            changed[one.name] = _scaled(value, factor)
    return replace(piece, **changed) if changed else piece
