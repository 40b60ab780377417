"""Files that preset auto was not made on: each came as a question, and what it taught is in docs/own-data.md.

`python -m benchmarks.strangers` runs them as `own_data` runs its streams: defaults, skill over time, and what tuning
a step size by hand would have brought (not with `untuned`). Names choose some of them; `tuning` and `check` are the
halves of `newcomers`, `unseen`, `fresh`, `outside` and `recuts` the files of those modules, and `ofedgrid` takes the
place of OFedIQ.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas

from benchmarks import table
from benchmarks.fresh import FRESH
from benchmarks.newcomers import CHECK, TUNING, Made, Rng, columns
from benchmarks.outside import OUTSIDE
from benchmarks.own_data import HEADER, METHOD, row
from benchmarks.recuts import RECUTS
from benchmarks.unseen import UNSEEN
from ofediq.experiment import Config


def rotating(rng: Rng) -> Made:
    """Two labels on independent rows; the boundary turns by half a circle."""
    rows, readings = 10_000, 10
    x = rng.random((rows, readings))
    angle = np.linspace(0, np.pi, rows)
    score = (x[:, 0] - 0.5) * np.cos(angle) + (x[:, 1] - 0.5) * np.sin(angle)
    return columns(x, np.where(score + 0.05 * rng.normal(size=rows) > 0, "yes", "no")), {}


def alarm(rng: Rng) -> Made:
    """A label of one row in eighty, which the readings nearly tell."""
    x = rng.normal(size=(10_000, 6))
    score = 2 * x[:, 0] + x[:, 1] + 0.5 * rng.normal(size=len(x))
    return columns(x, np.where(score > 5, "alarm", "ok")), {}


def blobs(rng: Rng) -> Made:
    """Twenty labels, independent rows."""
    labels, centres = rng.integers(0, 20, 10_000), 1.2 * rng.normal(size=(20, 15))
    x = centres[labels] + rng.normal(size=(len(labels), 15))
    return columns(x, [f"kind {label:02d}" for label in labels]), {}


def words(rng: Rng) -> Made:
    """Counts of 2,000 words in texts on four topics, most of them 0."""
    usual = 1 / np.arange(1, 2001)
    shares = [usual * np.exp(rng.normal(size=usual.size)) for _ in range(4)]
    topics = rng.integers(0, 4, 2000)
    x = np.stack([rng.multinomial(60, shares[topic] / shares[topic].sum()) for topic in topics])
    return columns(x, [("art", "law", "news", "sport")[topic] for topic in topics]), {}


def tabular(rng: Rng) -> Made:
    """Independent rows in all units, a category, a constant, a target in tens of thousands that is not linear."""
    x, colour = rng.normal(size=(10_000, 12)), rng.choice(["red", "green", "blue"], 10_000)
    y = 2 * x[:, 0] + 2 * np.sin(2 * x[:, 1]) + x[:, 2] * x[:, 3] + 3 * (colour == "red")
    frame = columns(x * 10.0 ** (np.arange(12) % 7 - 3), 1e4 * (30 + y + rng.normal(size=len(x))))
    return frame.assign(colour=colour, flat=3), {}


def spikes(rng: Rng) -> Made:
    """Twelve sensors that wander; one target in 200 is wrong by far, one reading in 20 is missing."""
    parts = []
    for sensor in range(12):
        x = 0.05 * np.cumsum(rng.normal(size=(1500, 4)), axis=0)
        y = 20 + 3 * x[:, 0] + 0.1 * rng.normal(size=len(x)) + 0.02 * np.cumsum(rng.normal(size=len(x)))
        y = y + np.where(rng.random(len(x)) < 0.005, 500 * rng.normal(size=len(x)), 0)
        x[rng.random(x.shape) < 0.05] = np.nan
        parts.append(columns(x, y).assign(who=f"s{sensor}", t=np.arange(len(x))))
    return pandas.concat(parts), {"client_column": "who", "time_column": "t"}


def visitors(rng: Rng) -> Made:
    """Counts per hour in twenty shops: time of day, weekend, rain as a text."""
    when = pandas.date_range("2022-03-01", periods=24 * 40, freq="h")
    hour, weekend = when.hour.to_numpy(), when.day_of_week.to_numpy() >= 5
    parts = []
    for shop in range(20):
        wet = rng.random(len(when)) < 0.2
        rate = np.exp(2 + 0.7 * rng.normal() + 1.2 * np.sin(2 * np.pi * (hour - 8) / 24) + 0.5 * weekend)
        warm = 10 + 8 * np.sin(2 * np.pi * (hour - 14) / 24) + rng.normal(size=len(when))
        sky, y = np.where(wet, "wet", "dry"), rng.poisson(rate * np.where(wet, 0.6, 1.0))
        parts.append(pandas.DataFrame({"when": when, "shop": f"s{shop}", "sky": sky, "warm": warm, "y": y}))
    return pandas.concat(parts), {"client_column": "shop", "options": {"task": "regression"}}


def crowd(rng: Rng) -> Made:
    """A thousand devices with 40 rows each, a level of its own each, a target in millionths."""
    devices, weights = np.arange(1000), rng.normal(size=8)
    parts = []
    for t in range(40):
        x = rng.normal(size=(len(devices), 8))
        y = 1e-6 * (x @ weights + 2 * np.sin(devices) + 0.3 * rng.normal(size=len(devices)))
        parts.append(columns(x, y).assign(who=devices, t=t))
    return pandas.concat(parts), {"client_column": "who", "time_column": "t"}


def regimes(rng: Rng) -> Made:
    """Three sites, 5,000 rows each; what a reading means changes its sign every 2,000 rows or so."""
    parts = []
    for site in "ABC":
        x, y = rng.normal(size=(5000, 3)), np.zeros(5000)
        sign = np.where(np.cumsum(rng.random(5000) < 1 / 2000) % 2, -1.0, 1.0)
        for t in range(1, len(y)):
            y[t] = 0.7 * y[t - 1] + sign[t] * x[t, 0] + 0.5 * x[t, 1] + 0.5 * rng.normal()
        parts.append(columns(x, 1e4 + 100 * y).assign(who=site, t=np.arange(len(y))))
    return pandas.concat(parts), {"client_column": "who", "time_column": "t"}


def noise(rng: Rng) -> Made:
    """Nothing to be learnt."""
    return columns(rng.normal(size=(10_000, 2)), rng.normal(size=10_000) - 3), {}


def prices(rng: Rng) -> Made:
    """Half-hours with a date: a demand by the time of day, and a price that follows it, with jumps."""
    rows = 20_000
    turn = 2 * np.pi * np.arange(rows) / 48
    demand = 100 + 30 * np.sin(turn - 1) + 0.2 * np.cumsum(rng.normal(size=rows)) + 3 * rng.normal(size=rows)
    price, jumps = np.zeros(rows), 0.3 * rng.standard_t(4, size=rows)
    for t in range(1, rows):
        price[t] = 0.9 * price[t - 1] + 0.1 * (demand[t] - 100) / 20 + jumps[t]
    dates = pandas.date_range("2021-01-01", periods=rows, freq="30min")
    return pandas.DataFrame({"date": dates, "demand": demand, "y": 40 + 20 * price}), {}


def ahead(rng: Rng) -> Made:
    """The same prices, twelve rows ahead."""
    return prices(rng)[0], {"horizon": 12}


MADE: tuple[Callable[[Rng], Made], ...] = (
    prices,
    ahead,
    visitors,
    spikes,
    regimes,
    crowd,
    tabular,
    noise,
    rotating,
    alarm,
    blobs,
    words,
)


GROUPS = {"tuning": TUNING, "check": CHECK, "unseen": UNSEEN, "fresh": FRESH, "outside": OUTSIDE}


def configurations(folder: Path, only: tuple[str, ...], method: str = METHOD) -> Iterator[tuple[str, Config]]:
    """Every file by name, or those of `only`."""
    wanted = {name for one in only for name in (maker.__name__ for maker in GROUPS.get(one, ()))} | set(only)
    wanted |= set(RECUTS) if "recuts" in only else set()
    makers = [
        (maker.__name__, [number, seed], maker)
        for number, group in enumerate((MADE, (*TUNING, *CHECK), UNSEEN, FRESH, OUTSIDE), 17)
        for seed, maker in enumerate(group)
    ]
    if wanted & set(RECUTS):  # they need the raw files
        makers += [(name, [77, seed], maker) for name, (seed, maker) in RECUTS.items()]
    for name, seed, maker in makers:
        if wanted and name not in wanted:
            continue
        frame, said = maker(np.random.default_rng(seed))
        path = folder / f"{name.replace(' ', '-')}.csv"
        frame.to_csv(path, index=False)
        yield name, Config(data=str(path), target="y", methods=(method,), **said)


def main(only: tuple[str, ...] = ()) -> None:
    """Print the table."""
    rows = [HEADER]
    method = "ofedgrid" if "ofedgrid" in only else METHOD
    names = tuple(set(only) - {"ofedgrid", "untuned"})
    with tempfile.TemporaryDirectory() as folder:
        for name, config in configurations(Path(folder), names, method):
            rows.append(row(name, config, method, tune="untuned" not in only))
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print(f"{method} at the default budget, one pass, one seed")
    print(table(rows))


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
