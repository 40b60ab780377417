"""How the simulator's cost grows with clients, steps and parameters, and how much memory 100,000 clients take.

Cost should be linear: the slope is d log(seconds) / d log(size), measured between the smallest and the largest size
of the same run; below 1 means that a fixed part is still seen.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks import table
from ofediq import methods, models
from ofediq.models import Model
from ofediq.simulation import simulate
from ofediq.streams import Dataset, Stream

MANY = 100_000


def stream(clients: int, steps: int, shape: tuple[int, ...] = (28, 28)) -> Stream:
    """Random images: speed does not depend on what they show."""
    rng = np.random.default_rng(0)
    data = Dataset(
        "noise",
        x=rng.random((2000, *shape), np.float32),
        y=rng.integers(0, 10, 2000).astype(np.int32),
        task="classification",
        classes=10,
    )
    return Stream(data, rng.integers(0, 2000, (steps, clients)).astype(np.int32))


def seconds(model: Model, data: Stream) -> float:
    """Of the faster of two runs; the first one also compiles."""
    method = methods.ofediq(0.086, levels=3, blocks=max(1, model.dim // 45))
    best = math.inf
    for _ in range(2):
        start = time.perf_counter()
        simulate(method, data, model)
        best = min(best, time.perf_counter() - start)
    return best


def slope(name: str, sizes: list[int], cost: Callable[[int], float]) -> list[object]:
    """A row: the times at each size, and the slope between the first and the last."""
    times = [cost(size) for size in sizes]
    exponent = math.log(times[-1] / times[0]) / math.log(sizes[-1] / sizes[0])
    shown = ", ".join(f"{size:,}: {1000 * spent:,.0f} ms" for size, spent in zip(sizes, times, strict=True))
    return [name, shown, f"{exponent:.2f}"]


def peak_memory() -> float:
    """GiB at the peak of a process that runs Model I with 100,000 clients and L = 1 for two steps."""
    code = f"from benchmarks.scaling import many; many({MANY})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def many(clients: int) -> None:
    """Run two steps with so many clients and print the peak of this process's memory in GiB."""
    simulate(methods.ofediq(0.01, levels=3, blocks=777), stream(clients, 2), models.cnn())
    unit = 2**30 if sys.platform == "darwin" else 2**20
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)


def main() -> None:
    """Print the slopes and the memory."""
    cnn = models.cnn()
    rows: list[list[object]] = [["OFedIQ, p = 0.086", "time", "slope"]]
    rows.append(slope("clients (CNN, 8 steps)", [500, 2000, 8000], lambda k: seconds(cnn, stream(k, 8))))
    rows.append(slope("steps (CNN, 500 clients)", [10, 40, 160], lambda t: seconds(cnn, stream(500, t))))
    widths = [64, 256, 1024]
    pixels = stream(500, 20, (8, 8))
    mlps = {models.mlp_classifier(64, 10, (width,)).dim: width for width in widths}
    rows.append(
        slope(
            "parameters (MLP, 500 clients, 20 steps)",
            list(mlps),
            lambda dim: seconds(models.mlp_classifier(64, 10, (mlps[dim],)), pixels),
        )
    )
    print(table(rows))
    print(f"\npeak memory, CNN with {MANY:,} clients, L = 1: {peak_memory():.2f} GiB (limit 4)")
