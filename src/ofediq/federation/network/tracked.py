"""A tracker that follows the rounds of a live federation."""

from __future__ import annotations

from typing import Any

from ofediq.federation.protocol.monitor import Monitor
from ofediq.tracking import Tracker


class RoundTracker:
    """Tells a tracker about every round.

    >>> from ofediq.tracking import tracker
    >>> follower = RoundTracker(Monitor("greenhouse", "regression", {"rate": 0.1}), tracker("none"))
    >>> follower.end()
    """

    def __init__(self, monitor: Monitor, tracker: Tracker) -> None:
        self.monitor, self.tracker = monitor, tracker
        shown = {name: value for name, value in monitor.parameters.items() if value is not None}
        tracker.start(f"{monitor.federation}/live", shown)

    def round(self) -> None:
        """A round closed."""
        last = self.monitor.last
        if last is None:
            return
        sums = self.monitor.totals()
        values: dict[str, Any] = {
            "senders": last.senders,
            "round_seconds": last.seconds,
            "clients_present": last.present,
            "uplink_bits": sums["bits_wire"],
            "ccr": sums["ccr"],
        }
        if last.samples:
            values |= {"skill": sums["skill"], **self._quality(last.error / last.samples)}
        self.tracker.log(
            last.step, {name: float(value) for name, value in values.items() if value is not None}
        )

    def end(self) -> None:
        """The federation is over, or the server stops."""
        sums = self.monitor.totals()
        figures = {name: sums[name] for name in ("rounds", "updates", "missed", "bits_wire", "ccr", "skill")}
        if sums["error"] is not None:
            figures |= self._quality(sums["error"])
        self.tracker.finish({name: float(value) for name, value in figures.items() if value is not None})

    def _quality(self, error: float) -> dict[str, float]:
        return {"accuracy": 1 - error} if self.monitor.task == "classification" else {"mse": error}
