"""The simulator's time per step beside the machine's limit: compiled kernels and JAX, in one run.

The limit is the arithmetic alone, at the speed of a large matrix product in the same run: a forward pass for every
client, a dense backward pass for every sender, and for senders with local steps a forward pass at their own model.
What comes on top is everything else: pooling, quantiser and its draws, sums, server, Python.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from benchmarks import fastest, table
from ofediq import methods, models, streams
from ofediq.methods import Method
from ofediq.models import Model
from ofediq.models.cnn import Cnn
from ofediq.models.mlp import Mlp
from ofediq.simulation import simulate
from ofediq.simulation.native import native_runner, native_status
from ofediq.streams import Stream

CLIENTS = 1000
SIDE = 2048  # of the matrices whose product tells the machine's speed


@dataclass(frozen=True)
class Case:
    """A method and how many of its clients send."""

    name: str
    method: Method
    rate: float = 1.0


def cases(dim: int) -> list[Case]:
    """What is measured, with the same number of coordinates per block at every model's size."""

    def quantized(period: int, rate: float, levels: int, size: int) -> Case:
        method = methods.ofediq(rate, levels, round(dim / size), period=period)
        return Case(f"OFedIQ({period}, {rate}, {levels}, D/{size})", method, rate)

    chosen = [(1, 0.086, 3, 45), (1, 0.515, 17, 31), (10, 0.86, 3, 45)]
    return [Case("FedOGD", methods.fedogd()), *(quantized(*numbers) for numbers in chosen)]


@dataclass(frozen=True)
class Work:
    """Floating-point operations for one sample."""

    forward: float
    backward: float

    def per_step(self, case: Case) -> float:
        """Of one time step of all clients."""
        again = 1 - 1 / case.method.period  # the first step of a window is taken at the common model
        return CLIENTS * (self.forward + case.rate * (again * self.forward + self.backward))


def main() -> None:
    """Print one table for each model."""
    print(native_status())
    for model in (models.cnn(), models.mlp_regressor(25)):
        work, stream = _work(model), _stream(model)
        rows: list[list[object]] = [
            ["", "limit ms", "native ms", "x limit", "JAX ms", "x limit", "JAX / native"]
        ]
        for case in cases(model.dim):
            speed = _matrix_speed()
            kernels = native_runner(case.method, model, None) is not None
            native = _seconds_per_step(case.method, stream, model, blocks=6) if kernels else math.nan
            with _only_jax():
                jax = _seconds_per_step(case.method, stream, model, blocks=3)
            limit = work.per_step(case) / max(speed, _matrix_speed())
            numbers = (1e3 * limit, 1e3 * native, native / limit, 1e3 * jax, jax / limit, jax / native)
            rows.append([case.name, *("-" if math.isnan(one) else f"{one:.2f}" for one in numbers)])
        print(f"\n{model.name}, D = {model.dim}, K = {CLIENTS}: time per step")
        print(table(rows))


def _work(model: Cnn | Mlp) -> Work:
    """A multiply-add counts twice. The backward pass has two products for one, except in the first layer."""
    if isinstance(model, Cnn):
        rows, columns = (model.height - 2) // 2, (model.width - 2) // 2
        first = 2.0 * 4 * rows * columns * 9 * model.filters[0]
        cells = ((rows - 2) // 2) * ((columns - 2) // 2)
        second = 2.0 * 4 * cells * 9 * model.filters[0] * model.filters[1]
        last = 2.0 * cells * model.filters[1] * model.classes
    else:
        products = [2.0 * inputs * outputs for inputs, outputs in itertools.pairwise(model.sizes)]
        first, second, last = products[0], sum(products[1:-1]), products[-1]
    return Work(first + second + last, first + 2 * second + 2 * last)


def _stream(model: Cnn | Mlp) -> Stream:
    """Random samples, as sparse as handwritten digits where they are images."""
    rng = np.random.default_rng(0)
    if isinstance(model, Cnn):
        x = rng.random((4000, model.height, model.width), np.float32)
        x[x < 0.8] = 0
        data = streams.Dataset("images", x, rng.integers(0, 10, 4000).astype(np.int32), "classification", 10)
    else:
        x = rng.standard_normal((4000, model.sizes[0])).astype(np.float32)
        data = streams.Dataset("rows", x, rng.standard_normal(4000).astype(np.float32), "regression")
    return Stream(data, rng.integers(0, 4000, (640, CLIENTS)).astype(np.int32))


def _seconds_per_step(method: Method, stream: Stream, model: Model, blocks: int) -> float:
    """The fastest of the first blocks of a run; the first one, which compiles, never is."""
    marks: list[tuple[int, float]] = []

    def progress(done: int, _: int) -> None:
        marks.append((done, time.perf_counter()))
        if len(marks) > blocks:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        simulate(method, stream, model, progress=progress)
    return min((t1 - t0) / (d1 - d0) for (d0, t0), (d1, t1) in itertools.pairwise(marks))


def _matrix_speed() -> float:
    """Operations per second of a matrix product."""
    matrix = np.random.default_rng(0).random((SIDE, SIDE), np.float32)
    return 2.0 * SIDE**3 / fastest(lambda: matrix @ matrix)


@contextmanager
def _only_jax() -> Iterator[None]:
    before = os.environ.get("OFEDIQ_NATIVE")
    os.environ["OFEDIQ_NATIVE"] = "0"
    try:
        yield
    finally:
        os.environ.pop("OFEDIQ_NATIVE")
        if before is not None:
            os.environ["OFEDIQ_NATIVE"] = before


if __name__ == "__main__":
    main()
