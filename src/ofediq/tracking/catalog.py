"""Trackers by name."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ofediq.errors import require_choice
from ofediq.settings import Settings, Text, setting
from ofediq.tracking.base import Nothing, Tracker
from ofediq.tracking.safe import SafeTracker

Kind = Literal["none", "tensorboard", "mlflow"]
KINDS: tuple[str, ...] = get_args(Kind)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrackerChoice(Settings):
    """Which tracker, and where: `[tracker]` of federation.toml, and options of `ofediq run` and `serve`."""

    kind: Kind = setting(
        "none",
        "Also give the curves to an experiment tracker: tensorboard or mlflow.",
        option="tracker",
        panel="Trackers",
    )
    folder: Text | None = setting(
        None,
        "Where it keeps them; for mlflow also the address of a server.",
        shown="runs/tensorboard, runs/mlflow",
        option="tracker_folder",
    )


def tracker(
    kind: str,
    place: str | Path | None = None,
    *,
    experiment: str = "ofediq",
    warn: Callable[[str], None] = _log.warning,
) -> Tracker:
    """A tracker that never stops a run: it works in a thread of its own, and its first failure is told once.

    Args:
        kind: `tensorboard`, `mlflow` or `none`.
        place: a folder; for MLflow also the address of a server or database. By default runs/tensorboard and
            runs/mlflow, or what MLFLOW_TRACKING_URI says.
        experiment: what MLflow puts the runs under.
        warn: gets the sentence about a failure; a log entry by default.

    >>> nothing = tracker("none")
    >>> nothing.start("run", {"seed": 1})
    >>> tracker("wandb")
    Traceback (most recent call last):
    ofediq.errors.InputError: `tracker` must be one of none, tensorboard, mlflow, got 'wandb'
    """
    require_choice("tracker", kind, KINDS)
    if kind == "tensorboard":
        from ofediq.tracking.tensorboard import TensorBoard

        return SafeTracker(TensorBoard(place or Path("runs", "tensorboard")), "TensorBoard", warn)
    if kind == "mlflow":
        from ofediq.tracking.mlflow import Mlflow

        chosen = place or os.environ.get("MLFLOW_TRACKING_URI") or Path("runs", "mlflow")
        return SafeTracker(Mlflow(chosen, experiment), "MLflow", warn)
    return Nothing()
