"""What the machine can do at best, measured: a large matrix product, and a pass over a long array.

A step's limits are its arithmetic at the speed of the product, and its data at the speed of the pass. Arithmetic: a
forward pass for every client, a dense backward pass for every sender, and for senders with local steps a forward pass
at their own model. Data: every sample read once, every sender's update written once and read once, by who adds
them up. Code that keeps updates in the cache can be faster than that pass, and code that follows the winners of
max-pooling alone faster than that product: the limits are those of the obvious way, done perfectly.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from benchmarks import fastest, table
from ofediq.errors import InputError
from ofediq.models import Model, Network

SIDE = 2048  # of the matrices whose product tells the machine's speed
STREAM = 2**26  # numbers in the array that is passed over: 256 MiB, more than any cache holds


@dataclass(frozen=True)
class Load:
    """What one time step asks of the machine.

    Attributes:
        clients: K; each predicts.
        rate: the share of them that sends, at the end of a window.
        period: steps in a window.
    """

    clients: int
    rate: float = 1.0
    period: int = 1


@dataclass(frozen=True)
class Work:
    """Floating-point operations for one sample; a multiply-add counts twice."""

    forward: float
    backward: float

    def per_step(self, load: Load) -> float:
        """Operations of one time step of all clients.

        >>> Work(forward=1, backward=2).per_step(Load(clients=10, rate=0.5, period=2))
        22.5
        """
        again = 1 - 1 / load.period  # the first step of a window is taken at the common model
        return load.clients * (self.forward + load.rate * (again * self.forward + self.backward))


def work(model: Model) -> Work:
    """Of a stack of layers. The backward pass has two products for one, except in the first layer.

    >>> from ofediq import models
    >>> work(models.softmax(features=784, classes=10))
    Work(forward=15680.0, backward=15680.0)
    """
    if not isinstance(model, Network):
        raise InputError(f"`model` must be a stack of layers, got {model.name!r}")
    products = []
    for stage in model.stages:
        positions = math.prod(stage.positions) if stage.kind == "conv" else 1
        products.append(2.0 * positions * math.prod(stage.matrix))
    return _layers(products)


def bytes_per_step(load: Load, features: int, dim: int) -> float:
    """Samples read, updates of the senders written and read, all as float32."""
    return 4.0 * load.clients * (features + 2 * load.rate / load.period * dim)


def matrix_speed(seconds: float = 0.5) -> float:
    """Operations per second of a matrix product."""
    matrix = np.random.default_rng(0).random((SIDE, SIDE), np.float32)
    return 2.0 * SIDE**3 / fastest(lambda: matrix @ matrix, seconds)


def memory_speed(seconds: float = 0.5) -> float:
    """Bytes per second of copying an array with all cores: what is read and what is written both count."""
    source = np.ones(STREAM, np.float32)
    target = np.zeros_like(source)
    cores = os.cpu_count() or 1
    sources, targets = np.array_split(source, cores), np.array_split(target, cores)
    with ThreadPoolExecutor(cores) as pool:
        spent = fastest(lambda: list(pool.map(np.copyto, targets, sources)), seconds)
    return 2.0 * source.nbytes / spent


def speeds() -> tuple[float, ...]:
    """Both, measured now: operations and bytes per second."""
    return matrix_speed(), memory_speed()


def main() -> None:
    """Print both speeds."""
    print(
        table(
            [
                ["matrix product", f"{matrix_speed() / 1e9:.0f} GFLOP/s"],
                ["copying an array", f"{memory_speed() / 1e9:.1f} GB/s"],
            ]
        )
    )


def _layers(products: list[float]) -> Work:
    forward = sum(products)
    return Work(forward, 2 * forward - products[0])
