"""Random generators of the streams room: one per (seed, purpose), so two choices never share draws.

Streams are laid out once, before a run, on the host. They need whole permutations, which a NumPy generator
makes well; the draws of a run itself (who sends, how a coordinate is rounded) come from `ofediq.randomness`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ofediq.errors import require_integer


class Draw(IntEnum):
    """What a generator is for."""

    DEAL = 1
    LABELS = 2
    AVAILABILITY = 3
    SYNTHETIC = 4
    SUBSET = 5


def generator(seed: int, purpose: Draw) -> np.random.Generator:
    """The generator for (`seed`, `purpose`).

    >>> a, b = generator(0, Draw.DEAL), generator(0, Draw.LABELS)
    >>> bool(a.random() == b.random())
    False
    """
    seed = require_integer("seed", seed, 0)
    return np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=(int(purpose),)))
