"""What a compressor makes of an update: its error, its bits, and what both mean at a fixed budget.

Error is E||Q(u) - u||^2 / ||u||^2; bits are those of the encoded payload, per coordinate. At a fixed budget a client
sends with a rate p proportional to 1 / bits, and the variance of the unbiased sum is proportional to (1 + error) / p:
the last column, (1 + error) x bits, is what counts. Updates are Gaussian vectors, and gradients of single samples of
each dataset after a short training. Means over the updates. Plans choose the (s, b) quantiser's parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import table
from ofediq.errors import OFedIQError
from ofediq.methods import Compressor, grid, quantize, rotate
from ofediq.methods.budgets.loudness import pack
from ofediq.models import build
from ofediq.randomness import Address
from ofediq.streams import load
from ofediq.theory import fitted_rates, plan

UPDATES = 24
STEPS, BATCH, STEP_SIZE = 60, 32, 0.05
SOURCES = ("mnist", "room", "pm25", "energy")

Updates = NDArray[np.float32]


def compressors(updates: Updates) -> Iterator[tuple[str, Compressor, float | None]]:
    """Name, compressor and signal of every row."""
    dim = updates.shape[1]
    for levels, size in ((1, 64), (1, 1024), (3, 45), (15, 47)):
        for coding in ("packed", "entropy"):
            piece = quantize(levels, max(1, dim // size), coding=coding)
            yield f"(s={levels}, D/b={size}) {coding}", piece, None
    for bits in (1, 2, 3, 4):
        yield f"rotated, dither, {bits} bits", rotate(bits), None
    for bits in (1, 2, 3, 4):
        yield f"rotated, nearest, {bits} bits", rotate(bits, "nearest"), None
    typical = float(np.sqrt(np.mean(updates.astype(np.float64) ** 2)))
    for cells in (1, 4, 16, 64):
        yield f"grid, z = {cells} rms", grid(), float(pack(np.float32(cells * typical)))


def main() -> None:
    """Print one table for each source of updates."""
    for name, updates in _sources():
        rows: list[tuple[str, ...]] = [("", "error", "bits/coordinate", "(1 + error) bits")]
        for label, piece, signal in compressors(updates):
            rows.append(_row(label, *_measure(piece, updates, signal)))
        rows += _plans(updates)
        print(f"\n{name}: {len(updates)} updates of {updates.shape[1]:,} coordinates\n\n{table(rows)}")


def _plans(updates: Updates) -> list[tuple[str, ...]]:
    """Plans at a budget of 0.01, one of them fitted to the first half of the updates; measured on the second half."""
    dim, seen, held_out = updates.shape[1], updates[: UPDATES // 2], updates[UPDATES // 2 :]
    plans = {
        "plan by formula": plan(0.01, dim),
        "plan, Gaussian": plan(0.01, dim, method="measured"),
        "plan, fitted": plan(0.01, dim, method="measured", rates=fitted_rates(seen)),
    }
    rows = []
    for label, chosen in plans.items():
        piece = quantize(chosen.levels, chosen.blocks, coding="entropy")
        label = f"{label}: s={chosen.levels}, b={chosen.blocks}"
        rows.append(_row(label, *_measure(piece, held_out, None)))
    return rows


def _row(label: str, error: float, bits: float) -> tuple[str, ...]:
    return label, f"{error:.4g}", f"{bits:.4g}", f"{(1 + error) * bits:.4g}"


def _measure(piece: Compressor, updates: Updates, signal: float | None) -> tuple[float, float]:
    """Mean error, relative to the mean squared norm, and mean bits per coordinate."""
    error = bits = 0.0
    for client, update in enumerate(updates):
        address = Address(0, 1, client)
        message = piece.encode(update, address, signal)
        received = piece.decode(message, update.size, address, signal)
        error += float(np.square(received - update, dtype=np.float64).sum())
        bits += message.bits
    return error / float(np.square(updates, dtype=np.float64).sum()), bits / updates.size


def _sources() -> Iterator[tuple[str, Updates]]:
    yield "Gaussian", np.random.default_rng(0).standard_normal((UPDATES, 34826)).astype(np.float32)
    for name in SOURCES:
        try:
            yield name, gradients(load(name))
        except OFedIQError as error:
            print(f"\n{name}: left out ({error})")


def gradients(data: Any) -> Updates:
    """Gradients of single samples after `STEPS` steps of gradient descent on small batches."""
    rng = np.random.default_rng(0)
    model = build("auto", data.x.shape[1:], data.task, classes=data.classes)
    params, weights = model.initial(), np.full(BATCH, 1 / BATCH, np.float32)
    for _ in range(STEPS):
        chosen = rng.integers(len(data.y), size=BATCH)
        params = (
            params
            - np.float32(STEP_SIZE) * model.batch_gradient(params, data.x[chosen], data.y[chosen], weights)[2]
        )
    chosen = rng.integers(len(data.y), size=UPDATES)
    return np.asarray(model.client_gradients(params, data.x[chosen], data.y[chosen]), np.float32)


if __name__ == "__main__":
    main()
