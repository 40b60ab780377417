"""Small models in kernels beside the limit of their arithmetic, in CPU time of one thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

os.environ |= {"OFEDIQ_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # before NumPy starts its own

import numpy as np

from benchmarks import limits
from benchmarks.limits import Load
from benchmarks.native import CLIENTS, some_stream, times_per_step
from ofediq import methods, models, streams
from ofediq.models import Network
from ofediq.streams import Stream

RATE, LEVELS, SIZE, BLOCKS = 0.086, 3, 45, 6


def main() -> None:
    """Print, for each model, a step of OFedIQ at 99 %, and as a multiple of the limit."""
    for model in (models.mlp_regressor(25), models.softmax(784, 10)):
        method = methods.ofediq(RATE, LEVELS, round(model.dim / SIZE))
        spent = times_per_step(method, _stream(model), model, BLOCKS)[1]
        limit = limits.work(model).per_step(Load(CLIENTS, RATE)) / _core_speed()
        print(
            f"{model.name}, D = {model.dim}: {1e3 * spent:.2f} ms, limit {1e3 * limit:.2f}, x {spent / limit:.1f}"
        )


def _stream(model: Network) -> Stream:
    if model.task == "regression":
        return some_stream(model)
    rng = np.random.default_rng(0)
    x = rng.random((4000, *model.shape), np.float32)
    x[x < 0.8] = 0
    data = streams.Dataset("pixels", x, rng.integers(0, 10, 4000).astype(np.int32), "classification", 10)
    return Stream(data, rng.integers(0, 4000, (640, CLIENTS)).astype(np.int32))


def _core_speed(side: int = 1024, runs: int = 20) -> float:
    """Operations per second of CPU time of a matrix product in one thread."""
    matrix = np.random.default_rng(0).random((side, side), np.float32)
    return 2.0 * side**3 / min(_cpu_seconds(lambda: matrix @ matrix) for _ in range(runs))


def _cpu_seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


if __name__ == "__main__":
    main()
