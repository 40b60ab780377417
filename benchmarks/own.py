"""A user's own network of Model I's shape beside the built-in one: time per step, and as a multiple of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import table
from benchmarks.native import CLIENTS, cases, seconds_per_step, some_stream
from ofediq import models
from ofediq.errors import extra
from ofediq.models import Model
from ofediq.simulation import simulate


def main() -> None:
    """Print one row for each model, one column for each method, and what computed it."""
    built_in = models.cnn()
    stream, chosen = some_stream(built_in), cases(built_in.dim)
    rows: list[list[object]] = [["ms (x built-in)", *(case.name for case in chosen), "engine"]]
    first: list[float] = []
    for name, model in networks():
        times = [1e3 * seconds_per_step(case.method, stream, model, blocks=3) for case in chosen]
        first = first or times
        shown = [f"{time:.0f} ({time / base:.1f})" for time, base in zip(times, first, strict=True)]
        engine = simulate(chosen[1].method, stream.head(1), model).engine
        rows.append([name, *shown, engine.split(":")[0]])
    print(f"Model I's shape, K = {CLIENTS}: time per step")
    print(table(rows))


def networks() -> Iterator[tuple[str, Model]]:
    """Model I, and the same in other frameworks; with SiLU by kernels and by JAX."""
    yield "built in", models.cnn()
    linen = extra("flax.linen", "flax")
    chosen = (
        ("Flax", linen.relu, True),
        ("Flax, SiLU", linen.silu, True),
        ("Flax, SiLU, JAX", linen.silu, False),
    )
    for name, activation, lower in chosen:
        layers = [lambda x: x[..., None]]
        for filters in (32, 64):
            layers += [linen.Conv(filters, (3, 3), padding="VALID"), activation]
            layers += [lambda x: linen.max_pool(x, (2, 2), (2, 2))]
        layers += [lambda x: x.reshape(len(x), -1), linen.Dense(10)]
        yield name, models.from_flax(linen.Sequential(layers), (28, 28), "classification", lower=lower)
    nn = extra("torch.nn", "torch")

    def make(seed: int) -> Any:
        first = (nn.Unflatten(1, (1, 28)), nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2))
        second = (nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1600, 10))
        return nn.Sequential(*first, *second)

    yield "torch", models.from_torch(make, "classification")
