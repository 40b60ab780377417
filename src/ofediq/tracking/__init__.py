"""Experiment trackers: one small interface, TensorBoard and MLflow behind it.

base         the interface, and the tracker that does nothing
safe         a tracker that never stops a run: it works beside it, and complains once
tensorboard  event files, written by TensorBoard itself; no TensorFlow, no torch
mlflow       a local database or a tracking server
catalog      `tracker`: by name; `TrackerChoice`: which, and where
"""

from ofediq.tracking.base import Tracker
from ofediq.tracking.catalog import KINDS, TrackerChoice, tracker
from ofediq.tracking.safe import SafeTracker

__all__ = ["KINDS", "SafeTracker", "Tracker", "TrackerChoice", "tracker"]
