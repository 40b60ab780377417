"""A tracker that never stops a run, whatever happens to the one it speaks to."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping

from ofediq.tracking.base import Parameter, Tracker

PATIENCE = 60.0
"""Seconds to wait for the last points of a run."""

BACKLOG = 10_000
"""Calls that may wait; a tracker that falls further behind is given up."""

_log = logging.getLogger(__name__)


class SafeTracker:
    """Passes everything on to `inner` in a thread, so that a slow disk or server does not hold up the run.

    The first failure ends the tracking. It is told once, through `warn`, from within a later call and in the thread
    of the caller, and from then on nothing happens any more.

    Args:
        inner: the real tracker.
        label: what to call it.
        warn: gets the sentence; a log entry by default.
        patience: seconds that `finish` waits.

    >>> class Broken(SafeTracker):
    ...     def log(self, step, values):
    ...         raise OSError("disk full")
    >>> from ofediq.tracking.base import Nothing
    >>> tracker = SafeTracker(Broken(Nothing()), "broken", warn=print)
    >>> tracker.start("run", {})
    >>> tracker.log(1, {"loss": 0.5})
    >>> tracker.finish({})
    broken tracker: disk full; the run goes on without it
    """

    def __init__(
        self,
        inner: Tracker,
        label: str = "tracker",
        warn: Callable[[str], None] = _log.warning,
        patience: float = PATIENCE,
    ) -> None:
        self.inner, self.label, self.warn, self.patience = inner, label, warn, patience
        self._calls: queue.Queue[Callable[[], None] | None] = queue.Queue(BACKLOG)
        self._worker: threading.Thread | None = None
        self._problem: str | None = None
        self._told = False

    def start(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        """A run begins."""
        if self._problem is None and self._worker is None:
            self._worker = threading.Thread(target=self._work, name="ofediq-tracker", daemon=True)
            self._worker.start()
        chosen = dict(parameters)
        self._put(lambda: self.inner.start(name, chosen))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Points of curves at `step`."""
        chosen = dict(values)
        self._put(lambda: self.inner.log(step, chosen))

    def finish(self, figures: Mapping[str, float]) -> None:
        """The run is over. Waits until everything is written, but not for ever."""
        chosen = dict(figures)
        self._put(lambda: self.inner.finish(chosen))
        self._put(None)
        if self._worker is not None and self._problem is None:
            self._worker.join(self.patience)
            if self._worker.is_alive():
                self._problem = f"no answer within {self.patience:g} seconds"
        self._worker = None
        self._tell()

    def _put(self, call: Callable[[], None] | None) -> None:
        if self._problem is None and self._worker is not None:
            try:
                self._calls.put_nowait(call)
            except queue.Full:
                self._problem = f"more than {BACKLOG:,} calls behind"
        self._tell()

    def _tell(self) -> None:
        if self._problem is not None and not self._told:
            self._told = True
            self.warn(f"{self.label} tracker: {self._problem}; the run goes on without it")

    def _work(self) -> None:
        """Make the calls in their order, up to the end of the run or the first failure."""
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception as error:  # whatever a tracker can raise must not stop the run
                self._problem = " ".join(str(error).split()) or type(error).__name__
                return
