"""What the guard costs where nobody is hostile, on federations drawn at random: on none of them was anything chosen.

`python -m benchmarks.honest` draws 112 federations, `python -m benchmarks.honest 500 600` those with these numbers.
Members, features, classes, offsets, tails, scales, drift, method and budget differ. Points of the target's variance,
or of accuracy, over the whole run, with the guard against without it; and the share of updates that counted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks import attacks, few, sly, table
from benchmarks.attacks import Federation
from ofediq import methods
from ofediq.methods import Method, Terms, make
from ofediq.methods.combine import Guarded
from ofediq.swarm import Swarm

FIRST, LAST = 500, 612
NAMES = (
    "fedogd",
    "ofediq",
    "ofedgrid",
    "ofedduplex",
    "untuned",
    "scaffold",
    "vrlsgd",
    "laq",
    "lasg",
    "diana",
    "ef21_sgdm",
    "topk_ef",
    "ofedavg",
    "fedpaq",
)
MOST = 1.0  # error without a model; what is worse without a guard is not compared


class Cost(NamedTuple):
    """Of one federation."""

    title: str
    name: str
    error: float  # without a guard
    lost: float
    kept: float


def drawn(number: int) -> tuple[Federation, Method, str, str]:
    """A federation with its method, its title, and the method's name."""
    rng, name = np.random.default_rng((99, number)), NAMES[number % len(NAMES)]
    clients = round(float(np.exp(rng.uniform(np.log(3), np.log(80)))))
    kind = str(rng.choice(["line", "classes", "digits", "skewed", "pairs"], p=[0.35, 0.35, 0.1, 0.1, 0.1]))
    budget, classes = float(rng.choice([0.01, 0.1, 1.0])), 0 if kind == "line" else int(rng.integers(2, 11))
    if kind in ("line", "classes"):
        low, high = (1, 200) if kind == "line" else (2, 60)
        features = round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))
        how = {
            "offsets": float(rng.choice([0, 0, 0.3])),
            "tails": float(rng.choice([0, 0, 2.5, 3])),
            "scales": float(rng.choice([1, 1, 5, 30])),
            "rolls": float(rng.choice([0, 0, 0.8])),
            "drift": float(rng.choice([0, 0, 1])),
            "noise": float(rng.choice([0.1, 0.5])),
        }
        where = few.made(clients, features, classes, **how)
        kind += "".join(f" {key}={value:g}" for key, value in how.items() if value)
    else:
        clients = max(clients, 10) if kind == "pairs" else clients
        ways: dict[str, dict[str, Any]] = {
            "digits": {},
            "skewed": {"kind": "dirichlet", "alpha": 0.3},
            "pairs": {"kind": "label", "labels": 2},
        }
        where = attacks._digits(clients, **ways[kind])
    size = 0.3 if classes else min(0.3, 0.5 / where.model.dim)
    terms = Terms(budget, where.model.dim, clients, attacks.STEPS)
    if name == "untuned":
        method = methods.untuned(make("ofedgrid", terms), clients=clients)
    else:
        method = make(name, terms, step_size=size)
    return where, method, f"K={clients} D={where.model.dim} {budget:g} {name}: {kind}", name


def run(where: Federation, method: Method, seed: int) -> tuple[float, float]:
    """Mean error, and the share of updates that counted."""
    stream, swarm = where.deal(seed), Swarm(method, where.model, where.clients, seed=seed)
    kept, guard = [1.0], swarm._scales.guard if swarm._scales else None
    if guard is not None:
        guard.secret, weigh = sly.SECRET, guard.weigh

        def watched(updates: Mapping[int, Any], **given: float) -> dict[int, float]:
            factors = weigh(updates, **given)
            kept.extend(factors.values())
            return factors

        guard.weigh = watched  # type: ignore[method-assign]  # only looked at
    found = [swarm.take(*map(np.asarray, stream.step(step))) for step in range(stream.steps)]
    errors = np.concatenate([one for one in found if one is not None])
    with np.errstate(invalid="ignore"):
        mean = float(np.nanmean(np.minimum(errors, 1e6))) / where.scale
    return min(mean, 3.0), float(np.mean(kept))


def cost(number: int) -> Cost:
    """Of one federation, over one seed."""
    where, method, title, name = drawn(number)
    plain, _ = run(where, method, number)
    guarded, kept = run(where, replace(method, combine=Guarded()), number)
    return Cost(title, name, plain, guarded - plain, kept)


def summary(title: str, costs: Sequence[Cost]) -> list[str]:
    """A row of the table."""
    lost = 100 * np.array([one.lost for one in costs])
    error = lost.std(ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else 0.0
    return [
        title,
        str(len(lost)),
        f"{lost.mean():.2f} +- {error:.2f}",
        f"{np.median(lost):.2f}",
        f"{lost.max():.1f}",
        f"{np.mean([one.kept for one in costs]):.3f}",
    ]


def main(named: Sequence[str] = ()) -> None:
    """Measure and print."""
    first, last = map(int, named or (FIRST, LAST))
    found = []
    for number in range(first, last):
        one = cost(number)
        if one.error >= MOST:
            continue
        found.append(one)
        print(
            f"{number}  {100 * one.error:.1f}  {100 * one.lost:.2f}  {one.kept:.3f}  {one.title}", flush=True
        )
    rows = [summary(name, some) for name in NAMES if (some := [one for one in found if one.name == name])]
    heads = ["method", "federations", "points lost", "median", "worst", "counted"]
    print(table([heads, *rows, summary("all", found)]))


if __name__ == "__main__":
    main(sys.argv[1:])
