"""`Stream`: which client sees which sample at which step.

A stream holds indices into its dataset, never copies of samples, so 100,000 clients cost 400 kB per step, and nothing
where the indices are made block by block (`Dealt`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ofediq.arrays import Flags, Numbers, Vector
from ofediq.errors import InputError, require_integer
from ofediq.streams.dataset import Dataset, Task
from ofediq.streams.dealt import Dealt

ABSENT = -1


@dataclass(frozen=True, eq=False)
class Stream:
    """Samples dealt to clients over time.

    Attributes:
        dataset: where the samples are.
        order: int32 [steps, clients]; `order[t, k]` is the sample that client k sees at step t, or -1 if it
            sees none (not joined yet, paused, exhausted). A `Dealt` where that would be too large.

    >>> data = Dataset("toy", x=[[0.0], [1.0], [2.0]], y=[0.0, 0.5, 1.0], task="regression")
    >>> stream = Stream(data, [[0, 1], [2, -1]])
    >>> x, y, present = stream.step(1)
    >>> y.tolist(), present.tolist()
    ([1.0, 0.0], [True, False])
    """

    dataset: Dataset
    order: Any

    def __post_init__(self) -> None:
        if isinstance(self.order, Dealt):  # right by its making
            return
        order = np.asarray(self.order)
        if order.ndim != 2 or 0 in order.shape or order.dtype.kind not in "iu":
            raise InputError(
                f"`order` must be integers of shape [steps, clients], got {order.dtype} {list(order.shape)}"
            )
        if order.min() < ABSENT or order.max() >= len(self.dataset):
            raise InputError(
                f"`order` must hold sample indices below {len(self.dataset)} or {ABSENT} for absent, "
                f"got {order.min()} to {order.max()}"
            )
        object.__setattr__(self, "order", np.ascontiguousarray(order, dtype=np.int32))

    @property
    def steps(self) -> int:
        """T, the number of time steps."""
        return int(self.order.shape[0])

    @property
    def clients(self) -> int:
        """K, the number of clients."""
        return int(self.order.shape[1])

    @property
    def x(self) -> Vector:
        """All samples, [samples, ...]; `order` indexes the first axis."""
        return self.dataset.x

    @property
    def y(self) -> Numbers:
        """All targets, [samples]."""
        return self.dataset.y

    @property
    def task(self) -> Task:
        """Classification or regression."""
        return self.dataset.task

    @property
    def classes(self) -> int | None:
        """Number of classes, None for regression."""
        return self.dataset.classes

    @cached_property
    def present(self) -> Flags:
        """[steps, clients]: whether the client has a sample at the step."""
        if isinstance(self.order, Dealt):
            return np.broadcast_to(np.True_, self.order.shape)
        mask: Flags = self.order != ABSENT
        return mask

    @cached_property
    def complete(self) -> bool:
        """Whether every client has a sample at every step."""
        return bool(self.present.all())

    def step(self, t: int) -> tuple[Vector, Numbers, Flags]:
        """Samples [clients, ...], targets [clients] and presence [clients] at step `t`, from 0.

        The rows of absent clients are zeros.
        """
        t = require_integer("t", t, 0, self.steps - 1)
        rows, present = self.order[t], self.present[t]
        x, y = self.x[rows], self.y[rows]
        x[~present], y[~present] = 0, 0
        return x, y, present

    def head(self, steps: int) -> Stream:
        """The first `steps` steps, without a copy."""
        steps = require_integer("steps", steps, 1, self.steps)
        order: Any = self.order
        return replace(self, order=order.head(steps) if isinstance(order, Dealt) else order[:steps])

    def fingerprint(self) -> str:
        """A hash of everything a run sees: samples, targets and who sees what when.

        Two streams with the same fingerprint give the same run; a checkpoint stores it.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        if isinstance(self.order, Dealt):
            digest.update(repr(self.order).encode())
        for array in (self.x, self.y) if isinstance(self.order, Dealt) else (self.x, self.y, self.order):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        digest.update(f"{self.task} {self.classes}".encode())
        return digest.hexdigest()
