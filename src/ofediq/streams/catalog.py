"""The datasets that come by name."""

from __future__ import annotations

import numpy as np

from ofediq.errors import extra, require_choice
from ofediq.streams.dataset import Dataset


def load(name: str) -> Dataset:
    """The dataset called `name`.

    >>> data = load("digits")
    >>> data.x.shape, data.classes
    ((1797, 8, 8), 10)
    """
    require_choice("name", name, ("digits",))
    bunch = extra("sklearn.datasets", "sim").load_digits()
    return Dataset(
        "digits",
        x=np.asarray(bunch.images) / 16,
        y=bunch.target,
        task="classification",
        scaling="pixels / 16",
    )
