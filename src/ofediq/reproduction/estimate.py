"""How long the missing runs will take: from the speed of finished ones, or from speeds on record."""

from __future__ import annotations

from statistics import fmean

from ofediq.experiment import Config
from ofediq.report import Comparison

# Seconds per step with 1000 clients, on two cores with the compiled kernels; the MLPs are all about equal.
_ON_RECORD = {"mnist": 0.035}
_MLP = 0.0015
_START = 1.5  # seconds before the first step: data, compilation


def estimate_seconds(config: Config, runs: int, done: Comparison | None) -> float:
    """Seconds that `runs` more runs of `config` will take, to within a factor of two or so.

    Finished runs of the same data tell the speed of this machine; where there are none, speeds on record stand in.
    Methods cost about the same per step: those that compute fewer gradients quantise them.
    """
    clients, steps = config.clients or 0, config.steps or 0
    one = _START + steps * clients / 1000 * _ON_RECORD.get(str(config.dataset), _MLP)
    if done is not None:
        one = fmean(result.seconds for results in done.runs.values() for result in results)
    return runs * one


def in_words(seconds: float) -> str:
    """A duration for people.

    >>> in_words(42.0), in_words(600.0), in_words(7200.0)
    ('42 seconds', '10 minutes', '2.0 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
