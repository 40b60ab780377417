"""What a method is checked on: updates of many shapes, and a small stream with clients that come and go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ofediq.arrays import Vector
from ofediq.errors import InputError
from ofediq.methods import Method
from ofediq.methods.budgets.loudness import pack
from ofediq.methods.budgets.steered import Steered, Still
from ofediq.models import Model, softmax
from ofediq.randomness import Address
from ofediq.simulation import Result, simulate
from ofediq.streams import Stream, load, partition

STEP, SEED = 12, 5  # where pieces are called: any step, any seed
CLIENTS, STEPS = 12, 70  # more steps than the engine puts into one block, so that a run can stop in between
LONGEST = 25  # a window of a run that is checked; nothing new happens in longer ones


@dataclass(frozen=True, eq=False)
class Case:
    """A method and what it is checked on."""

    method: Method
    stream: Stream
    model: Model
    seed: int

    @classmethod
    def prepare(cls, method: Method, stream: Stream | None, model: Model | None, seed: int) -> Case:
        """The case with the default stream and model where none are given; `InputError` if they do not fit."""
        if (stream is None) != (model is None):
            raise InputError("`stream` and `model` must be given together, or neither of them")
        if stream is None or model is None:
            stream, model = _patchy(min(method.period, LONGEST)), softmax(64, 10)
        case = cls(method, stream, model, seed)
        try:
            method.participation.rates(stream.clients)
            method.broadcast.check(model.dim)
            method.compress.apply(case.dense[:1], Address(SEED, STEP, np.arange(1)), case.signal)
        except InputError as error:
            raise InputError(
                f"`stream` and `model` must fit the method, which is checked with {stream.clients} clients and "
                f"{model.dim} parameters: {error}"
            ) from error
        except Exception:  # a bug of the piece: its contracts tell
            pass
        return case

    @property
    def dim(self) -> int:
        """D."""
        return self.model.dim

    @property
    def signal(self) -> Any:
        """The server's signal while pieces are checked, for updates whose coordinates are about 1."""
        return None if self.method.compress.signal is None else pack(1.0)

    @cached_property
    def dense(self) -> Vector:
        """[8, dim] updates with coordinates of all sizes around 1."""
        return _heavy(8, self.dim)

    @cached_property
    def long(self) -> Vector:
        """[3, 9001 or more] updates, long enough for what the bit counts promise."""
        return _heavy(3, max(self.dim, 9001))

    @cached_property
    def shapes(self) -> dict[str, Vector]:
        """Three updates that a compressor may be biased on."""
        spiky = np.zeros(self.dim, np.float32)
        few = np.array([1.0, 0.5, -0.1], np.float32)[: self.dim]
        spiky[: few.size] = few
        plain = np.random.default_rng(1).standard_normal(self.dim).astype(np.float32)
        return {"a normal update": plain, "a heavy-tailed update": self.dense[0], "a sparse update": spiky}

    @cached_property
    def running(self) -> Method:
        """The method as it runs on the stream: a period of at most `LONGEST`, a signal that stands still.

        The engine steers by ideal code lengths, the plain loop by real bytes: with a signal that follows them, the
        two would drift apart.
        """
        method = replace(self.method, period=min(self.method.period, LONGEST))
        proportional = method.participation.proportional
        if not isinstance(method.server, Steered) or proportional is None:
            return method
        x, y, _ = self.stream.step(int(np.argmax(self.stream.present.sum(1))))
        start = np.asarray(method.server.start(self.model.initial(self.seed)))
        norms = np.linalg.norm(np.asarray(self.model.client_gradients(start, x, y)), axis=1)
        first = float(2 * np.median(norms) / proportional[0])  # about half of the clients send
        return replace(method, server=replace(method.server, budget=Still(max(first, 1e-6))))

    @cached_property
    def run(self) -> Result:
        """The engine's uninterrupted run, which several contracts look at."""
        return simulate(self.running, self.stream, self.model, self.seed)


def _heavy(rows: int, dim: int) -> Vector:
    normal = np.random.default_rng(0).standard_normal((rows, dim))
    return np.asarray(normal * np.abs(normal), np.float32)


def _patchy(period: int) -> Stream:
    """Digits for a dozen clients; a third of the samples missing, one client never there, the first window empty."""
    steps = max(STEPS, 2 * period + 5)
    full = partition(load("digits"), clients=CLIENTS, steps=steps, seed=3)
    order = full.order.copy()
    order[np.random.default_rng(1).random(order.shape) < 1 / 3] = -1
    order[:, 5] = -1
    order[:period] = -1
    return Stream(full.dataset, order)
