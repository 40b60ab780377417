"""`Comparison`: several methods on the same streams, one result per seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ofediq.arrays import Floats
from ofediq.errors import InputError
from ofediq.report.figures.curves import longest
from ofediq.simulation import Regret, Result
from ofediq.streams import APART


@dataclass(frozen=True, eq=False)
class Comparison:
    """What several methods did on the same streams.

    Attributes:
        runs: the results of each method by its key, one per seed.
        naive: for each naive reference one curve per seed.
        regrets: the regrets of each method by its key and seed, where they were computed.
        steps: how many steps a finished run has.
    """

    runs: Mapping[str, Sequence[Result]]
    naive: Mapping[str, Sequence[Floats]] = field(default_factory=dict)
    regrets: Mapping[str, Mapping[int, Regret]] = field(default_factory=dict)
    steps: int = 0

    def __post_init__(self) -> None:
        if not any(self.runs.values()):
            raise InputError("`runs` must hold at least one result, got none")
        longest_run = max(result.steps for results in self.runs.values() for result in results)
        object.__setattr__(self, "steps", max(self.steps, longest_run))

    @property
    def first(self) -> Result:
        """Some result: what all have in common can be read from it."""
        return next(result for results in self.runs.values() for result in results)

    @property
    def metric(self) -> str:
        """What the task is measured by: accuracy or mse."""
        return self.first.metric

    @property
    def counted(self) -> dict[str, list[Result]]:
        """For each method with a result, those that means are taken over: the longest, finished ones if any."""
        return {key: longest(results) for key, results in self.runs.items() if results}

    @property
    def naive_curves(self) -> dict[str, Floats]:
        """Each naive reference, mean over seeds."""
        return {name: np.mean(np.stack(curves), axis=0) for name, curves in self.naive.items()}

    def interrupted(self, key: str) -> bool:
        """Whether a run of this method ended before its last step."""
        return any(result.steps < self.steps for result in self.runs[key])

    def best_naive(self, steps: int) -> tuple[str, float] | None:
        """The naive forecast with the smallest error after `steps`, and that error; None where there is none.

        The best constant looks ahead, and what all clients' targets say costs bits: neither is one.
        """
        errors = {}
        for name, curve in self.naive_curves.items():
            known = float(curve[min(steps, len(curve)) - 1])
            if name not in APART and np.isfinite(known):
                errors[name] = 1 - known if self.metric == "accuracy" else known
        return min(errors.items(), key=lambda pair: pair[1], default=None)

    def outdone(self) -> dict[str, tuple[str, float]]:
        """For each method that another one outdid on as many bits: which one did so best, and how its errors compare.

        That is federated methods with more than 1.1 times the error of another one that sent at most 1.1 times their
        bits: they pay for the noise of their messages, or for being silent.
        """
        spent: dict[str, tuple[float, float]] = {}
        for key, results in self.counted.items():
            error = float(np.mean([result.running_error[-1] for result in results]))
            if results[0].method.topology == "federated" and np.isfinite(error):
                spent[key] = error, float(np.mean([result.bits_wire.sum() for result in results]))
        found = {}
        for key, (error, bits) in spent.items():
            best = min(
                (other for other in spent if spent[other][1] <= 1.1 * bits), key=lambda one: spent[one][0]
            )
            if error > 1.1 * spent[best][0] > 0:
                found[key] = best, error / spent[best][0]
        return found
