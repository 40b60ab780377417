"""The simulator's time per step beside the machine's limit: compiled kernels and JAX, in one run.

The limits are the arithmetic alone, at the speed of a large matrix product, and the data alone, at the speed of a
pass over memory, both measured in the same run; `benchmarks.limits` says what is counted. What comes on top is
everything else: pooling, quantiser and its draws, sums, server, Python.
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

from benchmarks import limits, table
from benchmarks.limits import Load
from ofediq import methods, models, streams
from ofediq.methods import Method
from ofediq.models import Model, Network
from ofediq.simulation import simulate
from ofediq.simulation.native import native_status, native_sums
from ofediq.simulation.window import Setting
from ofediq.streams import Stream

CLIENTS = 1000
SHARES = ("ms", "x product", "x pass")
HEADINGS = (
    "",
    "product ms",
    "pass ms",
    *(f"native {s}" for s in SHARES),
    *(f"JAX {s}" for s in SHARES),
    "JAX / native",
)


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


def main() -> None:
    """Print one table for each model."""
    print(native_status())
    for model in (models.cnn(), models.mlp_regressor(25)):
        work, stream = limits.work(model), some_stream(model)
        rows: list[list[object]] = [list(HEADINGS)]
        for case in cases(model.dim):
            speed, memory = limits.matrix_speed(), limits.memory_speed()
            kernels = not isinstance(native_sums(Setting(case.method, model, CLIENTS, None)), str)
            native = seconds_per_step(case.method, stream, model, blocks=6) if kernels else math.nan
            with _only_jax():
                jax = seconds_per_step(case.method, stream, model, blocks=3)
            load = Load(CLIENTS, case.rate, case.method.period)
            limit = work.per_step(load) / max(speed, limits.matrix_speed())
            passes = limits.bytes_per_step(load, stream.x[0].size, model.dim) / max(
                memory, limits.memory_speed()
            )
            times = (1e3 * limit, 1e3 * passes, 1e3 * native, native / limit, native / passes)
            numbers = (*times, 1e3 * jax, jax / limit, jax / passes, jax / native)
            rows.append([case.name, *("-" if math.isnan(one) else f"{one:.2f}" for one in numbers)])
        print(f"\n{model.name}, D = {model.dim}, K = {CLIENTS}: time per step")
        print(table(rows))


def some_stream(model: Network) -> Stream:
    """Random samples, as sparse as handwritten digits where they are images."""
    rng = np.random.default_rng(0)
    if model.convolves:
        x = rng.random((4000, *model.shape), np.float32)
        x[x < 0.8] = 0
        data = streams.Dataset("images", x, rng.integers(0, 10, 4000).astype(np.int32), "classification", 10)
    else:
        x = rng.standard_normal((4000, *model.shape)).astype(np.float32)
        data = streams.Dataset("rows", x, rng.standard_normal(4000).astype(np.float32), "regression")
    return Stream(data, rng.integers(0, 4000, (640, CLIENTS)).astype(np.int32))


def seconds_per_step(method: Method, stream: Stream, model: Model, blocks: int) -> float:
    """The fastest of the first blocks of a run; the first one, which compiles, never is."""
    return times_per_step(method, stream, model, blocks)[0]


def times_per_step(method: Method, stream: Stream, model: Model, blocks: int) -> tuple[float, float]:
    """The same, and the CPU time of all threads, which does not mind that others want the cores too."""
    marks: list[tuple[int, float, float]] = []

    def progress(done: int, _: int) -> None:
        marks.append((done, time.perf_counter(), time.process_time()))
        if len(marks) > blocks:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        simulate(method, stream, model, progress=progress)
    spans = [np.subtract(later, earlier) for earlier, later in itertools.pairwise(marks)]
    return min(float(span[1] / span[0]) for span in spans), min(float(span[2] / span[0]) for span in spans)


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
