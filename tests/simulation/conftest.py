from __future__ import annotations

import numpy as np
import pytest

from ofediq import streams
from ofediq.streams import Stream


@pytest.fixture(scope="session")
def digits() -> Stream:
    """Twelve clients, seventeen steps: small enough for the plain loop, no round numbers."""
    return streams.partition(streams.load("digits"), clients=12, steps=17, seed=3)


@pytest.fixture(scope="session")
def patchy(digits: Stream) -> Stream:
    """The same with a third of the samples missing, and one client that never comes."""
    order = digits.order.copy()
    order[np.random.default_rng(1).random(order.shape) < 1 / 3] = -1
    order[:, 5] = -1
    return Stream(digits.dataset, order)


@pytest.fixture(scope="session")
def regression() -> Stream:
    return streams.synthetic(task="regression", clients=8, steps=12, features=5, noise=0.1, seed=2)
