"""A recorded stream as the source of a client, by time step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ofediq.arrays import Flags, Floats, Numbers
from ofediq.errors import DataError
from ofediq.federation.network.sources import SourceSample
from ofediq.storage import read_arrays


class Replay:
    """A recorded stream: the sample of a step is always the same, however often a client is restarted.

    Args:
        path: .npz with `x` [steps, ...], `y` [steps] and `present` [steps]; `time` [steps] where samples have one.
    """

    def __init__(self, path: str | Path) -> None:
        try:
            found = read_arrays(Path(path))
            if not isinstance(found, dict):
                raise ValueError("it holds a single array without a name")
            self.x, self.y, self.present = (found[name] for name in ("x", "y", "present"))
            self.time = found.get("time")
            if len({len(array) for array in found.values()}) > 1:
                raise ValueError("its arrays must have one row per step")
        except (OSError, ValueError, TypeError, KeyError) as error:
            why = getattr(error, "strerror", None) or error
            why = f"it has no {error}" if isinstance(error, KeyError) else why
            raise DataError(f"cannot read the recorded stream {path}: {why}") from None
        self.exhausted = False
        self.position = 0  # the step says which sample is next, not the client

    def at(self, step: int) -> SourceSample | None:
        """The sample of `step`, if the recording has one."""
        if step > len(self.y):
            self.exhausted = True
            return None
        if not self.present[step - 1]:
            return None
        time = None if self.time is None else float(self.time[step - 1])
        return SourceSample(self.x[step - 1], self.y[step - 1], time, step)


def write_replay(path: Path, x: Numbers, y: Numbers, present: Flags, time: Floats | None = None) -> None:
    """Record one client's stream for `Replay`."""
    more: dict[str, Any] = {} if time is None else {"time": time}
    np.savez(path, x=x, y=y, present=present, **more)
