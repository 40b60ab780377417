"""Coin betting beside every fixed step size of a grid: what is lost by not guessing, and by guessing wrong.

`python -m benchmarks.parameter_free` prints one table per problem: the mean loss per prediction, averaged over
seeds, of coin betting, the best and the worst step size of the grid, and the customary 0.01.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks import table
from ofediq import methods, models, streams
from ofediq.methods import Method, ServerRule
from ofediq.models import Model
from ofediq.simulation import simulate
from ofediq.streams import Stream

STEP_SIZES = (0.001, 0.01, 0.1, 1.0, 10.0)
CUSTOMARY = 0.01
CLIENTS, STEPS, SEEDS = 100, 200, 3
Problem = tuple[Callable[[int], Stream], Model]


def problems() -> dict[str, Problem]:
    """Streams by seed and the models that learn from them."""
    digits = streams.load("digits")
    found: dict[str, Problem] = {
        "digits, softmax": (
            lambda seed: streams.partition(digits, clients=CLIENTS, steps=STEPS, seed=seed),
            models.softmax(64, 10),
        )
    }
    pm25 = streams.load("pm25")
    features = pm25.x.shape[1]

    def deal(seed: int) -> Stream:
        return streams.partition(pm25, clients=CLIENTS, steps=STEPS, seed=seed)

    found["pm25, linear"] = (deal, models.linear(features))
    found["pm25, mlp"] = (deal, models.mlp_regressor(features, hidden=(64, 64)))
    return found


def bases(dim: int) -> dict[str, Method]:
    """Methods whose only step size is the server's: one-step windows."""
    return {"FedOGD": methods.fedogd(), "OFedIQ(1, 0.2, 3, D/45)": methods.ofediq(0.2, 3, max(1, dim // 45))}


def mean_loss(base: Method, rule: ServerRule, problem: Problem) -> float:
    """Mean loss per prediction over all steps, averaged over seeds; infinite if a run diverged."""
    deal, model = problem
    runs = (simulate(methods.with_server(base, rule), deal(seed), model, seed=seed) for seed in range(SEEDS))
    losses = [float(run.loss.sum() / run.present.sum()) for run in runs]
    return float(np.mean(losses)) if np.isfinite(losses).all() else float("inf")


def row(name: str, base: Method, problem: Problem) -> list[str]:
    """One method on one problem."""
    coin = mean_loss(base, methods.coin(), problem)
    fixed = {eta: mean_loss(base, methods.descend(eta), problem) for eta in STEP_SIZES}
    best = min(fixed, key=lambda eta: fixed[eta])
    worst = max(fixed, key=lambda eta: fixed[eta])
    return [
        name,
        _shown(coin),
        f"{_shown(fixed[best])} ({best:g})",
        _shown(fixed[CUSTOMARY]),
        f"{_shown(fixed[worst])} ({worst:g})",
    ]


def _shown(loss: float) -> str:
    return f"{loss:.4g}" if np.isfinite(loss) else "diverges"


def main() -> None:
    """Print the tables."""
    header = ["method", "coin", "best eta", f"eta {CUSTOMARY:g}", "worst eta"]
    for title, problem in problems().items():
        found = bases(problem[1].dim)
        print(f"{title}: mean loss per prediction, K={CLIENTS}, T={STEPS}, {SEEDS} seeds")
        print(table([header, *(row(name, base, problem) for name, base in found.items())]), flush=True)


if __name__ == "__main__":
    main()
