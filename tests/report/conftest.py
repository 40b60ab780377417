from __future__ import annotations

import pytest

from ofediq import methods, models, streams
from ofediq.report import Comparison
from ofediq.simulation import simulate

STEPS, CLIENTS, SEEDS = 12, 10, (3, 4)


@pytest.fixture(scope="package")
def comparison() -> Comparison:
    """Two methods, two seeds, with naive references and regrets."""
    model = models.softmax(features=4, classes=3)
    dealt = {
        seed: streams.synthetic("classification", CLIENTS, STEPS, features=4, classes=3, seed=seed)
        for seed in SEEDS
    }
    chosen = {"fedogd": methods.fedogd(), "ofediq": methods.ofediq(rate=0.1, levels=3, blocks=2)}
    runs = {
        key: [simulate(method, dealt[seed], model, seed) for seed in SEEDS] for key, method in chosen.items()
    }
    naive = [streams.naive_references(stream) for stream in dealt.values()]
    return Comparison(
        runs,
        {name: [curves[name] for curves in naive] for name in naive[0]},
        {key: {result.seed: result.regret() for result in results} for key, results in runs.items()},
    )
