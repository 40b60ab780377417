"""What a tracker is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

Parameter = str | int | float | bool
"""What a run was made with."""


class Tracker(Protocol):
    """Keeps the curves of runs, one run after the other."""

    def start(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        """A run begins. The name may have slashes, which group runs where the tracker can."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Points of curves at `step`."""

    def finish(self, figures: Mapping[str, float]) -> None:
        """The run is over, with these figures; they are kept below `final/`."""


class Nothing:
    """The tracker that does nothing.

    >>> Nothing().log(1, {"loss": 0.5})
    """

    def start(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        """Do nothing."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Do nothing."""

    def finish(self, figures: Mapping[str, float]) -> None:
        """Do nothing."""
