"""Small made-up inputs for the tests of this folder."""

from __future__ import annotations

import hashlib

import numpy as np

from ofediq.streams import Dataset
from ofediq.streams.locate import Upstream


def make_source(content: bytes, *urls: str, name: str = "readings.csv") -> Upstream:
    return Upstream(name, hashlib.sha256(content).hexdigest(), len(content), urls)


def make_dataset(samples: int = 60, classes: int | None = 3) -> Dataset:
    """Sample i has x = [i]; labels i mod classes, or targets i."""
    index = np.arange(samples)
    if classes is None:
        return Dataset("made", index[:, None], index, "regression")
    return Dataset("made", index[:, None], index % classes, "classification", classes)
