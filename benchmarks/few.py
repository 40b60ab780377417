"""Few members and few parameters: hostile members where every cosine may be chance.

`python -m benchmarks.few` measures the streams on which nothing of the guard was chosen, `python -m benchmarks.few
chosen` those on which it was; `python -m benchmarks.few "a line of 65"` some by the beginning of their names.
Points of the target's variance, or of accuracy, that honest members lose in the second half.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from benchmarks import attacks, sly, table
from benchmarks.attacks import Federation
from ofediq import methods
from ofediq.methods import Method
from ofediq.models import linear, softmax
from ofediq.streams import Dataset, Stream

SEEDS = (0, 1)
SOME = (
    "sign flipped, 1.4 times",
    "flipped after 120",
    "against the others",
    "one direction",
    "a little is enough",
    "hidden in noise",
    "mirrors",
    "back to the first model",
    "labels flipped",
    "knows",
)


def made(
    clients: int,
    features: int,
    classes: int = 0,
    *,
    offsets: float = 0.0,
    tails: float = 0.0,
    scales: float = 1.0,
    rolls: float = 0.0,
    drift: float = 0.0,
    noise: float = 0.3,
) -> Federation:
    """A linear regression, or so many classes of a linear rule.

    Arguments:
        clients: K.
        features: without the bias.
        classes: none for a regression.
        offsets: deviation of what each member adds to its targets (to the inputs of a classification).
        tails: degrees of freedom of Student's noise; 0 for normal noise.
        scales: the largest input is so many times as large as the smallest.
        rolls: what an input keeps of the last one.
        drift: how far the truth moves over the stream, in its own length.
        noise: of targets, or of the classes' scores.
    """

    def deal(seed: int) -> Stream:
        rng, steps, width = np.random.default_rng((seed, clients, features)), attacks.STEPS, max(1, classes)
        x, last = np.zeros((steps, clients, features)), rng.standard_normal((clients, features))
        for step in range(steps):
            fresh = rng.standard_normal((clients, features))
            last = x[step] = rolls * last + np.sqrt(1 - rolls**2) * fresh
        truth, away = (one / np.linalg.norm(one, axis=0) for one in rng.standard_normal((2, features, width)))
        time = np.linspace(0, 1, steps)[:, None, None]
        aim = x @ truth + drift * time * (x @ (away - truth))
        shape = (steps, clients, width)
        aim += noise * (rng.standard_t(tails, shape) if tails else rng.standard_normal(shape))
        own = offsets * rng.standard_normal((clients, width))
        x *= scales ** np.linspace(-0.5, 0.5, features)
        rows = x.reshape(-1, features).astype(np.float32)
        order = np.arange(steps * clients).reshape(steps, clients)
        if classes:
            labels = (aim + own).argmax(-1).ravel()
            return Stream(Dataset("made", x=rows, y=labels, task="classification"), order)
        targets = (aim + own)[..., 0].ravel().astype(np.float32)
        return Stream(Dataset("made", x=rows, y=targets, task="regression"), order)

    if classes:
        return Federation(deal, softmax(features, classes), clients)
    return Federation(deal, linear(features), clients, float(np.var(deal(0).dataset.y)))


CHOSEN: dict[str, Federation] = {
    "a line of 5, 10 members": made(10, 4),
    "a line of 65, 10 members": made(10, 64, offsets=0.3, tails=3),
    "a line of 13, 6 members": made(6, 12, scales=10, tails=3),
    "three classes of 7, 10 members": made(10, 6, 3, noise=0.1),
    "a line of 33, 20 members": made(20, 32, offsets=0.3, rolls=0.8),
    "a line of 201, 10 members": made(10, 200, noise=0.5),
}
REPORTED: dict[str, Federation] = {
    "a line of 9, 8 members": made(8, 8, offsets=0.3, tails=3, rolls=0.8),
    "five classes of 17, 15 members": made(15, 16, 5, noise=0.2, offsets=0.2),
    "a line of 17, 30 members": made(30, 16, scales=5, tails=2.5),
    "a line of 41, 10 members": made(10, 40, offsets=0.2, drift=1.0),
    "two classes of 4, 7 members": made(7, 3, 2, noise=0.3),
    "a line of 101, 5 members": made(5, 100, noise=0.5, scales=3),
}


def lost(where: Federation, method: Method, share: float, base: float) -> list[str]:
    """Points lost to all attacks: the mean, and the worst with its name."""
    found = {attack: mean(where, method, attack, share) - base for attack in SOME}
    worst = max(found, key=lambda one: found[one])
    return [f"{np.mean([*found.values()]):.1f}", f"{found[worst]:.1f} {worst}"]


def mean(where: Federation, method: Method, attack: str, share: float, *, guard: bool = True) -> float:
    """Points of error over the seeds."""
    each = [
        attacks.error(where, method, attack, share, seed, guard=guard, secret=sly.SECRET) for seed in SEEDS
    ]
    return 100 * float(np.mean(each))


def main(named: Sequence[str] = ()) -> None:
    """Measure and print."""
    found, every = [], {**CHOSEN, **REPORTED}
    some = [title for title in every if any(title.startswith(word) for word in named)]
    for title in some or (CHOSEN if "chosen" in named else REPORTED):
        where = every[title]
        plain = methods.fedogd(min(0.1, 1 / where.model.dim))
        for name, method in (("untuned OFedGrid", where.method("untuned OFedGrid")), ("FedOGD", plain)):
            base = mean(where, method, "nobody", 0.0)
            cost = base - mean(where, method, "nobody", 0.0, guard=False)
            row = [f"{title}, {name}", f"{base:.1f}", f"{cost:.2f}"]
            row += [*lost(where, method, 0.1, base), *lost(where, method, 0.3, base)]
            print("  ".join(row), flush=True)
            found.append(row)
    heads = ["stream", "error", "guard costs", "1 in 10: mean", "worst", "3 in 10: mean", "worst"]
    print(table([heads, *found]))


if __name__ == "__main__":
    main(sys.argv[1:])
