"""Hostile members of other kinds than those of `attacks`, on more federations: what the guard was not made on.

`python -m benchmarks.sly` tries them all, `python -m benchmarks.sly digits mlp` some federations, and
`python -m benchmarks.sly knows` some attacks; `thin` are federations at 1 % of the bits. Two attacks know the guard:
its random signs if it has no secret, and all of its state.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import attacks, table
from benchmarks.attacks import ACTS, LABELS, Act, Federation, Floats, Round, _digits, _line, _unit, late
from ofediq import methods
from ofediq.methods import Method, Terms, make
from ofediq.models import linear, mlp_classifier
from ofediq.streams import Dataset, Stream

SEEDS, SECRET = 1, 2**63 + 5


# What hostile members do -----------------------------------------------------------------------------------------


def against(size: float) -> Act:
    """The others' mean with its sign flipped (C. Xie, O. Koyejo, I. Gupta, 2020)."""
    return lambda now: now.all(-size * now.others.mean(0))


def beside(size: float) -> Act:
    """So many deviations below the others' mean, in every coordinate (G. Baruch, M. Baruch, Y. Goldberg, 2019)."""
    return lambda now: now.all(now.others.mean(0) - size * now.others.std(0))


def min_sum(now: Round) -> Floats:
    """As far back as keeps the sum of squared distances to the others below the largest of theirs."""
    mean, back, size = now.others.mean(0), -_unit(now.others.std(0)), 0.0
    apart = ((now.others[:, None] - now.others[None]) ** 2).sum(2).sum(1).max()
    for step in 50 * now.usual * 0.5 ** np.arange(1, 31):
        sent = mean + (size + step) * back
        size += step * (((sent - now.others) ** 2).sum() <= apart)
    return now.all(mean + size * back)


def bias(size: float) -> Act:
    """Honest updates, and always a little of one direction."""
    return lambda now: now.own + size * attacks.one_direction(1.0)(now)


def shrink(now: Round) -> Floats:
    """Honest updates, and a little towards a model that knows nothing."""
    return now.own + 0.5 * now.usual * _unit(now.coalition.models[-1])


def of_old(now: Round) -> Floats:
    """The others' updates of the first twenty rounds, again and again."""
    known = now.coalition.first
    if now.coalition.rounds <= 20:
        known.update({1000 * now.coalition.rounds + place: row for place, row in enumerate(now.others)})
    rows = [*known.values()]
    chosen = (7 * now.coalition.rounds + np.arange(len(now.own))) % len(rows)
    return 1.4 * np.array([rows[place] for place in chosen])


def copies(now: Round) -> Floats:
    """All of them what one of the others sends."""
    return now.all(1.4 * now.others[0])


def strangest(now: Round) -> Floats:
    """All of them what that one of the others sends who agrees least with their mean."""
    return now.all(1.4 * now.others[np.argmin([_unit(one) @ now.others.mean(0) for one in now.others])])


def ones(now: Round) -> Floats:
    """The same number everywhere."""
    return now.all(1.4 * now.usual * _unit(np.ones(now.own.shape[1])))


def huge(now: Round) -> Floats:
    """Random directions, nearly as long as numbers go."""
    return 1e37 * np.random.default_rng(now.coalition.rounds).standard_normal(now.own.shape)


def spike(now: Round) -> Floats:
    """Everything in the coordinate where the model is largest."""
    model = now.coalition.models[-1]
    place = int(np.argmax(np.abs(model)))
    return now.all(1.4 * now.usual * np.sign(model[place]) * np.eye(1, model.size, place)[0])


def at_first(now: Round) -> Floats:
    """A thousand times flipped in the first eight rounds, when nothing is known, and honest later."""
    return now.own * (-1000 if now.coalition.rounds <= 8 else 1)


def pulses(now: Round) -> Floats:
    """Nothing in four rounds, and all that was saved in the fifth."""
    return now.own * (-5 if now.coalition.rounds % 5 == 0 else 0)


def shuffled(now: Round) -> Floats:
    """Their updates with coordinates in another order, always the same one."""
    order = np.random.default_rng(3).permutation(now.own.shape[1])
    return now.own[:, order]


def reverse(now: Round) -> Floats:
    """Towards the negative of the model that there was in round 100."""
    models = now.coalition.models
    return now.all(1.4 * now.usual * _unit(models[-1] + models[min(100, len(models) - 1)]))


def random_turns(now: Round) -> Floats:
    """Each of them hostile or honest by a coin of its own."""
    coins = np.random.default_rng(now.coalition.rounds).random(len(now.own)) < 0.5
    sent: Floats = np.where(coins[:, None], -2.5 * now.own, now.own)
    return sent


def behind_the_sketch(now: Round) -> Floats:
    """Against the others, without all that the guard would see if its signs were those of a simulation."""
    wanted = -_unit(now.others.mean(0))
    size, width = wanted.size, 512
    signs = np.random.default_rng(size).choice(np.array([-1, 1], np.float32), size)
    places = np.arange(size) % width
    seen, many = np.bincount(places, signs * wanted, width), np.bincount(places, minlength=width)
    return now.all(1.4 * now.usual * _unit(wanted - signs * (seen / np.maximum(many, 1))[places]))


def own_ways(now: Round) -> Floats:
    """Against the others' sum, each with a direction of its own beside it, always the same."""
    drawn = np.array([np.random.default_rng(int(k)).standard_normal(now.own.shape[1]) for k in now.who])
    ways = now.usual * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    sent: Floats = ways - 0.7 * now.usual * _unit(now.others.mean(0))
    return sent


def copies_of_two(now: Round) -> Floats:
    """Half of what each of two others sends, so that these look like a coalition."""
    return now.all(0.5 * now.others[0] + 0.5 * now.others[-1])


def knows(now: Round) -> Floats:
    """Whatever harms most in this round after the guard, tried out on a copy of it."""
    guard = now.coalition.guard()
    mean = now.others.mean(0)
    if guard is None:
        return now.all(-1.4 * now.usual * _unit(mean))
    noise = np.random.default_rng(now.coalition.rounds).standard_normal(now.own.shape)
    noise *= now.usual / np.linalg.norm(noise, axis=1, keepdims=True)
    back = -now.usual * _unit(mean)
    offered = [size * now.all(back) for size in (0.3, 0.7, 1.4, 3.0)]
    offered += [noise + size * back for size in (0.4, 0.8, 1.6)]
    offered += [now.own + size * back for size in (0.5, 1.0, 2.0)]
    offered += [now.all(mean - now.others.std(0) * np.sign(mean)), -1.2 * now.own, mirrored(now)]
    best, least = now.own, np.inf
    numbers = [*map(int, now.who)]
    others = [number for number in range(len(now.others) + len(numbers)) if number not in numbers]
    for sent in offered:
        rows = dict(zip([*numbers, *others], [*sent, *now.others], strict=False))
        factors = copy.deepcopy(guard).weigh(
            {number: {"update": row.astype(np.float32)} for number, row in rows.items()}
        )
        total = sum(factors[number] * row for number, row in rows.items())
        if float(total @ mean) < least:
            best, least = sent, float(total @ mean)
    return best


def mirrored(now: Round) -> Floats:
    """Each the opposite of what one of the others sends."""
    return -1.4 * now.others[np.arange(len(now.own)) % len(now.others)]


def some_places(now: Round) -> Floats:
    """Everything in the last ten coordinates, the biases of a softmax: the first of them up, the others down."""
    wanted = np.zeros(now.own.shape[1])
    wanted[-10:] = 1.0
    wanted[-10:][:1] = -9.0
    return now.all(1.4 * now.usual * _unit(wanted))


def there_and_back(now: Round) -> Floats:
    """One direction and its opposite by turns, so that what they say adds up to nothing."""
    return (-1.0) ** now.coalition.rounds * attacks.one_direction(4.0)(now)


def hardly_drifting(now: Round) -> Floats:
    """Honest for long; then a little more against the others in every round, never longer than is usual."""
    share = np.clip((now.coalition.rounds - 80) / 120, 0.0, 1.0)
    against = -now.usual * _unit(now.others.mean(0))
    sent: Floats = (1 - share) * now.own + share * against
    return sent


def dear(now: Round) -> Floats:
    """Random directions of two usual lengths: dense messages, which a common budget pays for."""
    drawn = np.random.default_rng(now.coalition.rounds).standard_normal(now.own.shape)
    sent: Floats = 2 * now.usual * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return sent


SLY: dict[str, Act] = {
    "a tenth against the mean": against(0.1),
    "against the mean": against(1.0),
    "1.5 deviations aside": beside(1.5),
    "0.3 deviations aside": beside(0.3),
    "min-sum": min_sum,
    "a small bias": bias(0.3),
    "towards nothing": shrink,
    "others' old updates": of_old,
    "copies of one": copies,
    "copies of the strangest": strangest,
    "ones": ones,
    "huge": huge,
    "spike": spike,
    "at first": at_first,
    "pulses": pulses,
    "shuffled": shuffled,
    "reverse after 160": late(160, reverse),
    "random turns": random_turns,
    "behind the sketch": behind_the_sketch,
    "own ways": own_ways,
    "copies of two": copies_of_two,
    "some places": some_places,
    "there and back": there_and_back,
    "hardly drifting": hardly_drifting,
    "dear": dear,
    "just below the limit": lambda now: now.all(-1.5 * now.usual * _unit(now.others[0])),
    "knows": knows,
    "knows, after 120": late(120, knows),
    "against the others": attacks.against_the_others,
    "flipped after 120": late(120, attacks.times(-1.4)),
}
SLY_LABELS = {
    "next label": lambda labels, step: (
        (labels + 1) % (labels.max() + 1) if labels.dtype.kind == "i" else labels + 3
    ),
    "one class for another": lambda labels, step: (
        np.where(labels == 3, 8, labels)
        if labels.dtype.kind == "i"
        else np.where(labels > 1, -labels, labels)
    ),
    "labels of a pair swapped": lambda labels, step: labels ^ 1 if labels.dtype.kind == "i" else 3 * labels,
}
ACTS.update(SLY)
LABELS.update(SLY_LABELS)


# Federations -----------------------------------------------------------------------------------------------------


def _deep(clients: int, **how: Any) -> Federation:
    return replace(_digits(clients, **how), model=mlp_classifier(64, 10, (32,)))


def _sensors(clients: int) -> Federation:
    """A regression with nine parameters: inputs that follow from the last ones, an offset for each, heavy tails."""

    def deal(seed: int) -> Stream:
        rng, steps = np.random.default_rng((seed, clients)), attacks.STEPS
        x, row = np.zeros((steps, clients, 8), np.float32), np.zeros((clients, 8))
        for step in range(steps):
            row = x[step] = 0.8 * row + 0.6 * rng.standard_normal((clients, 8))
        weights, offsets = rng.standard_normal(8), 0.3 * rng.standard_normal(clients)
        y = x @ (weights / np.linalg.norm(weights)) + offsets + 0.3 * rng.standard_t(3, (steps, clients))
        data = Dataset("sensors", x=x.reshape(-1, 8), y=y.ravel().astype(np.float32), task="regression")
        return Stream(data, np.arange(steps * clients).reshape(steps, clients))

    return Federation(deal, linear(8), clients, float(np.var(deal(0).dataset.y)))


def cases() -> dict[str, tuple[Federation, Method]]:
    """Federations by name, each with a method."""
    found: dict[str, tuple[Federation, Method]] = {}
    home = _digits(20)
    for name in ("FedOGD", "OFedIQ", "OFedGrid", "OFedDuplex", "topk_ef", "scaffold"):
        found[f"digits {name}"] = home, home.method(name)
    for clients in (5, 10, 50):
        found[f"digits{clients} FedOGD"] = _digits(clients), home.method("FedOGD")
    deep = _deep(20)
    found["mlp FedOGD"] = deep, deep.method("FedOGD")
    found["mlp OFedGrid"] = deep, deep.method("OFedGrid")
    for name in ("ofedgrid", "ofediq", "topk_ef"):
        found[f"thin {name}"] = (
            home,
            make(name, Terms(0.01, home.model.dim, 20, attacks.STEPS), step_size=0.3),
        )
    terms = Terms(0.1, home.model.dim, 20, attacks.STEPS)
    found["auto digits"] = home, methods.untuned(make("ofedgrid", terms), clients=20)
    found["line OFedGrid"] = _line(10), _line(10).method("untuned OFedGrid")
    for clients in (10, 30):
        found[f"sensors{clients} FedOGD"] = _sensors(clients), home.method("FedOGD")
        found[f"sensors{clients} OFedGrid"] = _sensors(clients), _sensors(clients).method("untuned OFedGrid")
    found["skewed FedOGD"] = _digits(20, kind="dirichlet", alpha=0.3), home.method("FedOGD")
    found["pairs FedOGD"] = _digits(20, kind="label", labels=2), home.method("FedOGD")
    return found


def lost(
    where: Federation, method: Method, names: Iterable[str], seeds: Iterable[int], shares: Sequence[float]
) -> list[list[str]]:
    """A row per attack."""
    base = [attacks.error(where, method, "nobody", 0.0, seed, secret=SECRET) for seed in seeds]
    found = []
    for name in names:
        row = [name]
        for share in shares:
            errors = [attacks.error(where, method, name, share, seed, secret=SECRET) for seed in seeds]
            points = 100 * (np.array(errors) - base)
            row.append(f"{points.mean():.1f} ({points.max():.1f})")
        found.append(row)
        print("  ".join(row), flush=True)
    return found


def main(named: Sequence[str] = ()) -> None:
    """Measure and print."""
    every = [*SLY, *SLY_LABELS]
    chosen = [name for name in every if name in named] or every
    for title, (where, method) in cases().items():
        if not set(named) - set(every) or any(title.startswith(word) for word in named):
            print(title, flush=True)
            found = lost(where, method, chosen, range(SEEDS), (0.1, 0.3))
            print(table([[title, "1 in 10", "3 in 10"], *found]))


if __name__ == "__main__":
    main(sys.argv[1:])
