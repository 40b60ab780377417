"""A sweep: methods x budgets x step sizes x seeds in a few lines, and the table that comes out.

`ofediq.simulate` is a function without side effects: a sweep is a loop, and a table is a list of dictionaries. What
was compiled for one seed serves the others. For runs with files, resumption and pictures there is `ofediq frontier`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pandas as pd

import ofediq


def main(
    clients: int = 100,
    steps: int = 100,
    budgets: Sequence[float] = (0.1, 0.01),
    step_sizes: Sequence[float] = (0.1, 1.0),
    seeds: int = 2,
) -> pd.DataFrame:
    """Print the mean accuracy for each method and budget, at its best step size."""
    data, model = ofediq.load("digits"), ofediq.models.softmax(features=64, classes=10)
    streams = [ofediq.partition(data, clients=clients, steps=steps, seed=seed) for seed in range(seeds)]
    rows = []
    for key, budget, step_size in product(("ofedavg", "fedomd", "ofediq"), budgets, step_sizes):
        method = ofediq.methods.at_budget(key, budget, model.dim, clients, step_size=step_size)
        for seed, stream in enumerate(streams):
            summary = ofediq.simulate(method, stream, model, seed).summary()
            rows.append(
                {"method": method.name, "budget": budget, "step_size": step_size, "seed": seed, **summary}
            )
    table = pd.DataFrame(rows)
    means = table.groupby(["method", "budget", "step_size"], as_index=False)[["accuracy", "ccr_wire"]].mean()
    best = means.loc[means.groupby(["method", "budget"])["accuracy"].idxmax()]
    print(best.to_string(index=False, float_format="{:.3g}".format))
    return table


if __name__ == "__main__":
    main()
