"""Who is told how far the work is."""

from __future__ import annotations

from typing import Any, Protocol


class Listener(Protocol):
    """Who wants to know how far the work is."""

    def note(self, sentence: str) -> None:
        """Something a user should know."""

    def started(self, task: str, total: int) -> None:
        """A task of `total` steps begins."""

    def advanced(self, done: int) -> None:
        """So many steps of it are done."""

    def finished(self, outcome: str) -> None:
        """It is done, with this outcome in words."""

    def stopping(self) -> None:
        """An interruption was asked for; the block at hand is finished first."""


class Silent:
    """Somebody who does not listen."""

    def note(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    started = advanced = finished = stopping = note
