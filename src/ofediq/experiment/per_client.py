"""How each client fared in a run: the same steps again, in NumPy, client by client."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ofediq.arrays import Vector
from ofediq.methods import Method
from ofediq.models import Model
from ofediq.streams import Stream
from ofediq.streams.naive import last_known
from ofediq.swarm import Swarm


class ClientRecord(NamedTuple):
    """One client's run.

    Attributes:
        name: the file's, or its number.
        samples: predictions that the last value could be compared with.
        error: their mean error: 0 or 1 in classification, squared in regression.
        naive: the same of the last value known.
        bits: of its updates, as encoded.
    """

    name: str
    samples: int
    error: float
    naive: float
    bits: float

    @property
    def skill(self) -> float | None:
        """1 - error / error of the last value; None where that made none."""
        return 1 - self.error / self.naive if self.naive > 0 else None


def per_client(
    method: Method,
    model: Model,
    stream: Stream,
    seed: int = 0,
    initial: Vector | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> list[ClientRecord]:
    """Run a federated `method` again and keep what `simulate` sums over the clients; the best skill first.

    `progress` is called with the number of steps done, after each.

    >>> from ofediq import methods, models, streams
    >>> stream = streams.synthetic(task="regression", clients=3, steps=50, features=2)
    >>> rows = per_client(methods.fedogd(0.05), models.linear(features=2), stream)
    >>> len(rows), rows[0].samples, rows[0].skill > rows[-1].skill
    (3, 49, True)
    """
    swarm = Swarm(method, model, stream.clients, seed=seed, initial=initial)
    samples, error, naive = (np.zeros(stream.clients) for _ in range(3))
    own = np.full(stream.clients, np.nan)
    for step in range(stream.steps):
        x, y, present = stream.step(step)
        found = swarm.take(x, y, present)
        assert found is not None
        last, known = last_known(stream, step, own)
        answers = np.asarray(y, np.float64)
        missed = (last - answers) ** 2 if stream.task == "regression" else last != answers
        samples += known
        error += np.where(known, found, 0.0)
        naive += np.where(known, missed, 0.0)
        own = np.where(present, answers, own)
        if progress is not None:
            progress(step + 1)
    names = stream.dataset.client_names
    named = names if len(names) == stream.clients else tuple(map(str, range(stream.clients)))
    counted = np.maximum(samples, 1)
    rows = [
        ClientRecord(*row)
        for row in zip(
            named,
            samples.astype(int).tolist(),
            (error / counted).tolist(),
            (naive / counted).tolist(),
            swarm.bits_each.tolist(),
            strict=True,
        )
    ]
    return sorted(rows, key=lambda row: -(row.skill if row.skill is not None else -np.inf))
