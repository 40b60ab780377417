"""What each ingredient beyond the paper brings, at equal real uplink bits: room occupancy, or digits without it.

1,000 clients, 300 steps, Adam at the server, three seeds; running accuracy at the last step.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np

from benchmarks import table
from ofediq import methods, models, streams, theory
from ofediq.errors import DataError
from ofediq.methods import Method
from ofediq.models import Model
from ofediq.simulation import simulate
from ofediq.streams import Dataset, Stream

CLIENTS, STEPS, SEEDS = 1000, 300, 3


def data() -> Dataset:
    """Room occupancy where it is found, else the embedded digits."""
    try:
        return streams.load("room")
    except DataError:
        return streams.load("digits")


def ingredients(
    share: float, dim: int, updates: np.ndarray[tuple[int, int], np.dtype[np.float32]]
) -> dict[str, Method]:
    """Methods that spend `share` of FedOGD's bits, one ingredient more at a time."""
    bits = share * 32 * CLIENTS * dim
    planned = theory.plan(share, dim, clients=CLIENTS, method="measured", rates=theory.fitted_rates(updates))
    sampled = methods.ofedavg(min(1.0, share * 32), preset="authors")
    size = max(1, dim // 45)
    grid = methods.ofedgrid(bits, STEPS, preset="authors", averages=False)
    return {
        "the paper's OFedIQ, bits by the formula": methods.at_budget(
            "ofediq", share, dim, CLIENTS, preset="authors"
        ),
        "+ entropy coding, plan for real bits": methods.from_plan(planned, preset="authors"),
        "rotated, 1 bit, sampled": replace(sampled, compress=methods.rotate(1), name="rotated"),
        "(3, D/45), norm-proportional, every step alike": methods.ofediq_norm(
            3, size, bits, STEPS, preset="authors", front=0.0
        ),
        "(3, D/45), norm-proportional, run budget": methods.ofediq_norm(
            3, size, bits, STEPS, preset="authors"
        ),
        "OFedGrid, every step alike": methods.ofedgrid(
            bits, STEPS, preset="authors", front=0.0, averages=False
        ),
        "OFedGrid, run budget": grid,
        "OFedGrid, compressed broadcast": methods.with_broadcast(grid, methods.delta(31, max(1, dim // 500))),
        "OFedGrid, coin betting instead of Adam": methods.with_server(grid, methods.coin()),
    }


def score(method: Method, model: Model, deal: list[Stream]) -> list[object]:
    """Mean accuracy, real bits as a share of FedOGD's, downlink bits per parameter and broadcast."""
    results = [simulate(method, stream, model, seed) for seed, stream in enumerate(deal)]
    up = fmean(1 - result.summary()["ccr_wire"] for result in results)
    down = fmean(
        float(result.bits_downlink.sum()) / (model.dim * STEPS / method.period) for result in results
    )
    accuracies = [float(result.accuracy[-1]) for result in results]
    spread = max(accuracies) - min(accuracies)
    return [f"{100 * up:.3g}%", f"{down:.3g}", f"{fmean(accuracies):.4f}", f"{spread:.4f}"]


def main() -> None:
    """Print one table per budget."""
    dataset = data()
    deal = [streams.partition(dataset, CLIENTS, STEPS, kind="passes", seed=seed) for seed in range(SEEDS)]
    model = models.build("mlp", dataset.sample_shape, dataset.task, classes=dataset.classes)
    ceiling = score(methods.fedogd(preset="authors"), model, deal)
    warm = simulate(methods.fedogd(preset="authors"), deal[0].head(60), model).params
    x, y, _ = deal[0].step(60)
    updates = np.asarray(model.client_gradients(warm, x[:12], y[:12]), np.float32)
    for share in (0.01, 0.001):
        rows: list[list[object]] = [["method", "uplink", "down/par.", "accuracy", "range"]]
        rows.append(["FedOGD", *ceiling])
        for name, method in ingredients(share, model.dim, updates).items():
            rows.append([name, *score(method, model, deal)])
        print(f"{dataset.name}, {model.dim:,} parameters, budget {100 * share:g}% of FedOGD's uplink bits")
        print(table(rows), end="\n\n", flush=True)
