"""How long the missing runs will take: from the speed of finished ones, or from speeds on record."""

from __future__ import annotations

from collections.abc import Sequence

from ofediq.reproduction.store import Store
from ofediq.reproduction.units import Data, Unit

# Seconds per step with 1000 clients, on two cores with the compiled kernels; the MLPs are all about equal.
_ON_RECORD = {"mnist": 0.035}
_MLP = 0.0015
_START = 1.5  # seconds before the first step: data, compilation


def estimate_seconds(units: Sequence[Unit], store: Store, *, force: bool = False) -> float:
    """Seconds that the units not in `store` (with `force` all) will take, to within a factor of two or so.

    Finished units of the same data tell the speed of this machine; where there are none, speeds on record stand in.
    Methods cost about the same per step: those that compute fewer gradients quantise them.
    """
    speeds: dict[tuple[str, int], list[float]] = {}
    missing = []
    for unit in units:
        record = store.load(unit)
        if record is not None:
            speeds.setdefault(_kind(unit.data), []).append(record.seconds / record.steps)
        if record is None or force:
            missing.append(unit)
    return sum(_seconds(unit.data, speeds.get(_kind(unit.data), ())) for unit in missing)


def in_words(seconds: float) -> str:
    """A duration for people.

    >>> in_words(42.0), in_words(600.0), in_words(7200.0)
    ('42 seconds', '10 minutes', '2.0 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _seconds(data: Data, measured: Sequence[float]) -> float:
    if measured:
        return data.steps * sum(measured) / len(measured)
    return _START + data.steps * data.clients / 1000 * _ON_RECORD.get(data.dataset, _MLP)


def _kind(data: Data) -> tuple[str, int]:
    return data.dataset, data.clients
