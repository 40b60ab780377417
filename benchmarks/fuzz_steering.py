"""OFedGrid's budget under fleets drawn at random: what it spends, and that no number is ever lost.

    python -m benchmarks fuzz_steering

D from 1 to 100,000, K from 1 to 10,000, T from 30 to 100,000, budgets from 0.001 % to everything, with the horizon
known, half of it known, and none; updates that vanish, explode, come in bursts, in waves and at random; clients who
come late, leave, take turns. Every case follows from its number and has 64 fleets. What must hold of each:

    every number of the signal is finite, z and the loudest lie within the floats that a grid has;
    at no step t has more been spent than `most_spent` says.

Messages cost what the codec counts, between the lengths in a table (`tests/methods/fleet.py`, held against the coder
in `tests/methods/test_budget.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tests.methods import fleet

from benchmarks import table
from ofediq.methods.budgets.steering import Budget, budget

COUNT = int(os.environ.get("OFEDIQ_FUZZ_STEERING", "200"))
FIRST = int(os.environ.get("OFEDIQ_FUZZ_SEED", "0"))
LANES = 64

Floats = npt.NDArray[np.float64]
Random = np.random.Generator


def _log(rng: Random, low: float, high: float) -> float:
    return float(10 ** rng.uniform(np.log10(low), np.log10(high)))


def _bursts(t: Floats, rng: Random) -> Floats:
    return np.where(rng.random(t.size) < _log(rng, 1 / t.size, 0.2), _log(rng, 10, 1e12), 1.0)


def _blocks(t: Floats, rng: Random) -> Floats:
    return np.where(t % (length := _log(rng, 2, t.size)) < length * rng.random(), _log(rng, 1e-12, 1e12), 1.0)


def _walk(t: Floats, rng: Random) -> Floats:
    return np.exp(np.clip(np.cumsum(_log(rng, 0.01, 3) * rng.standard_normal(t.size)), -60, 60))


def _explosion(t: Floats, rng: Random) -> Floats:
    return np.where(t >= t.size - rng.integers(0, 5), 1e15, 1.0)


COURSES: dict[str, Callable[[Floats, Random], Floats]] = {
    "steady": lambda t, rng: np.ones_like(t),
    "shrinking": lambda t, rng: t ** -rng.uniform(0.1, 2),
    "growing": lambda t, rng: np.exp(np.minimum(t * _log(rng, 1e-4, 3), 80)),
    "bursts": _bursts,
    "blocks": _blocks,
    "silence": lambda t, rng: np.where(t % (n := _log(rng, 2, t.size)) < n * rng.random(), 1.0, 0.0),
    "zero": lambda t, rng: np.zeros_like(t),
    "waves": lambda t, rng: 10.0 ** (rng.uniform(1, 12) * np.sin(t / _log(rng, 0.5, t.size))),
    "walk": _walk,
    "heavy tails": lambda t, rng: np.exp(np.clip(2 * rng.standard_t(2, t.size), -60, 60)),
    "explodes at last": _explosion,
    "noise": lambda t, rng: 10.0 ** rng.uniform(-15, 15, t.size),
}


@dataclass(frozen=True)
class Case:
    """What all fleets of a number have in common."""

    number: int
    dim: int
    members: tuple[int, ...]
    steps: int
    share: float
    rule: Budget

    @property
    def clients(self) -> int:
        """K."""
        return sum(self.members)


def draw(number: int, longest: float = 1e5) -> tuple[Case, tuple[str, ...], fleet.Lanes]:
    """Case `number`: its sizes, the names of its courses, its fleets."""
    rng = np.random.default_rng(number)
    dim, clients, steps = int(_log(rng, 1, 1e5)), int(_log(rng, 1, 1e4)), int(_log(rng, 30, longest))
    share, groups = _log(rng, 1e-5, 1), min(clients, 5)
    cuts = np.sort(rng.choice(max(1, clients - 1), groups - 1, replace=False) + 1)
    members = tuple(int(one) for one in np.diff([0, *cuts, clients]))
    horizon = (steps, steps, None, max(1, steps // 2))[rng.integers(4)]
    extra = float(rng.choice([0.0, 0.0, 64.0, 850.0]))
    rule = budget(
        share * (32 * dim + extra) * clients, horizon, float(rng.uniform(0, 0.95)), extra_bits=extra
    )
    return Case(number, dim, members, steps, share, rule), *_fleets(dim, groups, steps, rng)


def _fleets(dim: int, groups: int, steps: int, rng: Random) -> tuple[tuple[str, ...], fleet.Lanes]:
    t, names = np.arange(1.0, steps + 1), tuple(rng.choice(list(COURSES), LANES))
    scales = 10 ** rng.uniform(-18, 15, LANES)
    with np.errstate(over="ignore", under="ignore"):
        courses = np.stack([COURSES[name](t, rng) * scale for name, scale in zip(names, scales, strict=True)])
    courses = np.minimum(courses, 1e37).astype(np.float32)
    among = np.where(rng.random((LANES, 1)) < 0.5, 1.0, 10 ** rng.uniform(-3, 3, (LANES, groups)))
    come = np.where(rng.random((LANES, 1)) < 0.6, 0, rng.integers(0, steps, (LANES, groups)))
    leave = np.where(rng.random((LANES, 1)) < 0.8, steps, rng.integers(0, steps, (LANES, groups)))
    turns = np.where(rng.random((LANES, 1)) < 0.8, 1, rng.integers(2, 40, (LANES, 1)))

    def factors(step: int) -> Floats:
        there = (come < step) & (step <= leave) & ((step + np.arange(groups)) % turns == 0)
        return np.where(there, courses[:, step - 1 : step] * among, 0.0)

    shapes = rng.choice(fleet.SHAPES, LANES)
    return names, fleet.Lanes(
        factors=factors,
        uneven=rng.choice([0.0, 0.5, 2.0], LANES),
        alignment=rng.choice([0.0, 0.3, 1.0], LANES),
        sizes=np.stack([fleet.message_sizes(dim, shape) for shape in shapes]),
    )


def excess(case: Case, course: fleet.Course) -> tuple[Floats, Floats]:
    """Of each fleet: the most that was spent beyond `most_spent`, over all steps, in budgets up to then, and when."""
    spent, messages = np.cumsum(course.bits, 1), np.cumsum(course.senders, 1)
    each = spent / np.maximum(messages, 1)
    allowed = np.array([case.rule.most_spent(step) for step in range(1, case.steps + 1)])
    over = (spent - allowed - 4 * each * np.sqrt(1 + allowed / np.maximum(each, 1) / 100)) / allowed
    return over.max(1), over.argmax(1) + 1


def main() -> None:
    """Run, and print the fleets that spent most; those that break a promise end it with an error."""
    worst: list[tuple[float, tuple[object, ...]]] = []
    broken, started, steps = [], time.process_time(), 0
    for number in range(FIRST, FIRST + COUNT):
        case, names, lanes = draw(number)
        with np.errstate(under="ignore"):
            course = fleet.run_lanes(case.rule, case.dim, case.members, case.steps, lanes, number)
        steps += case.steps * LANES
        over, when = excess(case, course)
        top = int(over.argmax())
        sane = course.finite.all(1) & (course.step > 0).all(1) & (course.loudest > 0).all(1)
        broken += [(number, int(lane), str(names[lane])) for lane in np.flatnonzero(~sane | (over > 0))]
        row = (
            number,
            top,
            names[top],
            case.dim,
            case.clients,
            case.steps,
            str(case.rule.steps),
            f"{case.share:.2g}",
        )
        worst.append((float(over[top]), (*row, int(when[top]), f"{over[top]:.3f}", int((~sane).sum()))))
        if over[top] > 0 or not sane.all():
            print(*worst[-1][1], sep=" | ", flush=True)
    head = (
        "case",
        "fleet",
        "course",
        "D",
        "K",
        "T",
        "horizon",
        "budget",
        "at",
        "above the bound",
        "not finite",
    )
    print(table([head, *(row for _, row in sorted(worst, key=lambda one: -one[0])[:20])]))
    seconds = time.process_time() - started
    print(
        f"{COUNT * LANES} fleets, {steps:,} rounds, {seconds:.0f} s of processor time; {len(broken)} break a promise"
    )
    if broken:
        raise SystemExit(f"broken (case, fleet, course): {broken[:20]}")
