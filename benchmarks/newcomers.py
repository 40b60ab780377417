"""Files for preset auto in two halves: on TUNING its constants are chosen, CHECK tells how they do elsewhere.

Made by other mechanisms than those of `own_data` and the older strangers; `benchmarks/strangers.py` runs them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from ofediq.streams import load

Rng = np.random.Generator
Made = tuple[Any, dict[str, Any]]  # a frame, and what the stranger says about it
Array = NDArray[Any]


def columns(x: Any, y: Any) -> Any:
    """A frame of readings x0, x1, ... and a target y."""
    return pandas.DataFrame(x, columns=[f"x{place}" for place in range(x.shape[1])]).assign(y=y)


def together(parts: list[Any], **said: Any) -> Made:
    """The frames of clients "who" with their times "t"."""
    return pandas.concat(parts), {"client_column": "who", "time_column": "t", **said}


# The tuning half.


def sea(rng: Rng) -> Made:
    """Two labels by the sum of two of three readings; the threshold jumps three times, one label in ten is wrong."""
    x = rng.uniform(0, 10, size=(12_000, 3))
    label = x[:, 0] + x[:, 1] <= np.repeat([8.0, 9.0, 7.0, 9.5], 3000)
    return columns(x, np.where(label ^ (rng.random(len(x)) < 0.1), "in", "out")), {}


def friedman(rng: Rng) -> Made:
    """Five labs, independent rows, a curved target; two of its readings change places halfway."""
    parts = []
    for lab in range(5):
        x = rng.random((2000, 8))
        used = x.copy()
        used[1000:, [0, 3]] = used[1000:, [3, 0]]
        y = 10 * np.sin(np.pi * used[:, 0] * used[:, 1]) + 20 * (used[:, 2] - 0.5) ** 2 + 10 * used[:, 3]
        frame = columns(x, y + 5 * used[:, 4] + rng.normal(size=len(x)))
        parts.append(frame.assign(who=f"lab {lab}", t=np.arange(len(x))))
    return together(parts)


def waves(rng: Rng) -> Made:
    """Twenty targets and nothing else: an autoregression of order two that swings, each around a level of its own."""
    parts = []
    for one in range(20):
        y = np.zeros(1000)
        for t in range(2, len(y)):
            y[t] = 1.5 * y[t - 1] - 0.85 * y[t - 2] + rng.normal()
        parts.append(pandas.DataFrame({"t": np.arange(len(y)), "who": one, "y": 50 * rng.normal() + y}))
    return together(parts)


def bikes(rng: Rng) -> Made:
    """Hires per hour in one city, 500 days: commuters, weekends, warmth, and a year that grows."""
    when = pandas.date_range("2023-01-01", periods=24 * 500, freq="h")
    hour, workday = when.hour.to_numpy(), when.day_of_week.to_numpy() < 5
    warm = 12 - 10 * np.cos(2 * np.pi * np.arange(len(when)) / 8760) + 4 * np.sin(2 * np.pi * (hour - 9) / 24)
    warm = warm + np.convolve(rng.normal(size=len(when)), np.ones(24) / 5, "same")
    rush = np.exp(-((hour - 8) ** 2) / 2) + np.exp(-((hour - 17.5) ** 2) / 4)
    leisure = np.exp(-((hour - 14) ** 2) / 18)
    rate = (
        (20 + 300 * np.where(workday, rush, 0.8 * leisure))
        * np.exp(0.04 * warm)
        * np.linspace(0.6, 1, len(when))
    )
    wet = rng.random(len(when)) < 0.1
    counts = rng.poisson(rate * np.where(wet, 0.4, 1) * rng.gamma(20, 1 / 20, len(when)))
    return pandas.DataFrame({"when": when, "warm": warm, "wet": wet.astype(int), "y": counts}), {
        "options": {"task": "regression"}
    }


def queues(rng: Rng) -> Made:
    """Lengths of eight queues, with the arrivals of the minute as a reading."""
    parts = []
    for server in range(8):
        load_factor = rng.uniform(0.85, 0.98)
        arrived, served = rng.poisson(5 * load_factor, 3000), rng.poisson(5, 3000)
        length = np.zeros(3000)
        for t in range(1, len(length)):
            length[t] = max(0, length[t - 1] + arrived[t] - served[t])
        parts.append(pandas.DataFrame({"t": np.arange(3000), "who": server, "arrived": arrived, "y": length}))
    return together(parts, options={"task": "regression"})


def demand(rng: Rng) -> Made:
    """A hundred spare parts that are asked for on one day in six, a promotion as flag."""
    parts = []
    for part in range(100):
        promoted = rng.random(150) < 0.05
        wanted = rng.random(150) < np.where(promoted, 0.6, 0.16)
        sizes = wanted * (1 + rng.poisson(np.exp(rng.normal()), 150))
        parts.append(
            pandas.DataFrame({"t": np.arange(150), "who": part, "promoted": promoted.astype(int), "y": sizes})
        )
    return together(parts, options={"task": "regression"})


def worn(rng: Rng) -> Made:
    """Thirty gas sensors whose gain and zero drift, beside a common truth; they come into use one after another."""
    truth = 400 + np.cumsum(rng.normal(size=1200)) + 30 * np.sin(np.arange(1200) / 20)
    parts = []
    for sensor in range(30):
        begin = 20 * sensor
        use = np.arange(1200 - begin)
        raw = (
            (1 + 2e-4 * use * rng.normal()) * truth[begin:]
            + 0.02 * use * rng.normal()
            + 2 * rng.normal(size=len(use))
        )
        heat = 20 + np.cumsum(0.1 * rng.normal(size=len(use)))
        frame = pandas.DataFrame(
            {"t": begin + use, "who": sensor, "raw": raw, "heat": heat, "y": truth[begin:]}
        )
        parts.append(frame)
    return together(parts)


def digits(rng: Rng) -> Made:
    """Scanned digits of a hundred people, 64 grey values each, 17 rows per client."""
    x, y = load_digits(return_X_y=True)
    mixed = rng.permutation(len(x))
    frame = columns(x[mixed], [f"digit {label}" for label in y[mixed]])
    return frame.assign(who=np.arange(len(x)) % 100, t=np.arange(len(x)) // 100), {
        "client_column": "who",
        "time_column": "t",
    }


def batches(rng: Rng) -> Made:
    """Six machines: a target that stands still, jumps with the next batch, and has a transient after it."""
    parts = []
    for machine in range(6):
        level, since, y = 10.0, 0, np.zeros(2500)
        for t in range(len(y)):
            if rng.random() < 1 / 150:
                level, since = 10 + 3 * rng.standard_t(3), 0
            y[t] = level + 2 * np.exp(-since / 8) * (since > 0) + 0.01 * rng.normal()
            since += 1
        parts.append(pandas.DataFrame({"t": np.arange(2500), "who": machine, "y": y}))
    return together(parts)


def glitches(rng: Rng) -> Made:
    """Fifteen meters with a daily swing; one target in 100 is a zero that was never measured."""
    parts = []
    for meter in range(15):
        t = np.arange(1500)
        x = rng.normal(size=(1500, 2))
        y = 230 + 5 * np.sin(2 * np.pi * t / 96) + 2 * x[:, 0] + np.cumsum(0.2 * rng.normal(size=1500))
        parts.append(columns(x, np.where(rng.random(1500) < 0.01, 0.0, y)).assign(who=meter, t=t))
    return together(parts)


# The check half.


def hyperplane(rng: Rng) -> Made:
    """Two labels by the side of a plane in ten dimensions whose normal wanders; one label in twenty is wrong."""
    x = rng.random((15_000, 10))
    normal = rng.normal(size=10) + np.cumsum(0.02 * rng.normal(size=(len(x), 10)), axis=0)
    label = ((x - 0.5) * normal).sum(axis=1) > 0
    return columns(x, (label ^ (rng.random(len(x)) < 0.05)).astype(int)), {
        "options": {"task": "classification"}
    }


def seven_segments(rng: Rng) -> Made:
    """Ten labels shown by seven lamps, each wrong one time in ten, beside 17 lamps that mean nothing."""
    shown = np.array([119, 36, 93, 109, 46, 107, 123, 37, 127, 111])[:, None] >> np.arange(7) & 1
    label = rng.integers(0, 10, 10_000)
    lamps = np.concatenate([shown[label], rng.integers(0, 2, (len(label), 17))], axis=1)
    lamps[:, :7] ^= rng.random((len(label), 7)) < 0.1
    return columns(lamps, [f"figure {one}" for one in label]), {}


def growth(rng: Rng) -> Made:
    """Fifty cultures that grow to a limit and are thinned out again; sizes from hundreds to millions."""
    parts = []
    for culture in range(50):
        limit, size, y = 10 ** rng.uniform(3, 6), 0.01, np.zeros(400)
        for t in range(len(y)):
            size = size + 0.15 * size * (1 - size) * np.exp(0.1 * rng.normal())
            size = 0.02 if rng.random() < 1 / 120 else size
            y[t] = limit * size * np.exp(0.02 * rng.normal())
        food = rng.normal(size=len(y))
        parts.append(pandas.DataFrame({"t": np.arange(len(y)), "who": culture, "food": food, "y": y}))
    return together(parts)


def updown(rng: Rng) -> Made:
    """Half-hours with dates: whether the price is above its mean of a day; demand and supply of a neighbour."""
    rows = 16_000
    day = 2 * np.pi * np.arange(rows) / 48
    wander = np.zeros((rows, 2))
    for t in range(1, rows):
        wander[t] = 0.95 * wander[t - 1] + rng.normal(size=2)
    asked = np.sin(day - 1.5) + 0.4 * np.sin(2 * day) + 0.15 * wander[:, 0]
    offered = 0.3 * np.sin(day) + 0.15 * wander[:, 1]
    price = pandas.Series(asked - offered + 0.2 * rng.standard_t(3, rows))
    label = np.where(price > price.rolling(48, min_periods=1).mean(), "UP", "DOWN")
    when = pandas.date_range("2020-05-07", periods=rows, freq="30min")
    return pandas.DataFrame({"date": when, "asked": asked, "offered": offered, "y": label}), {}


def rivers(rng: Rng) -> Made:
    """Discharge of six rivers from rain that comes in storms: long tails, slow recessions."""
    parts = []
    for river in range(6):
        rain = (rng.random(4000) < 0.08) * rng.gamma(0.6, 12, 4000)
        fast, slow = np.zeros(4000), np.zeros(4000)
        for t in range(1, 4000):
            fast[t] = 0.6 * fast[t - 1] + 0.5 * rain[t - 1] ** 1.3
            slow[t] = 0.98 * slow[t - 1] + 0.1 * rain[t]
        flow = (river + 1) * (fast + slow) * np.exp(0.03 * rng.normal(size=4000))
        parts.append(pandas.DataFrame({"t": np.arange(4000), "who": f"r{river}", "rain": rain, "y": flow}))
    return together(parts)


def roads(rng: Rng) -> Made:
    """Occupancy of forty roads every quarter of an hour, three rows ahead; some rows are missing."""
    when = pandas.date_range("2024-02-01", periods=96 * 14, freq="15min")
    hour = when.hour.to_numpy() + when.minute.to_numpy() / 60
    parts = []
    for road in range(40):
        peak, width = rng.uniform(7, 18), rng.uniform(1, 4)
        usual = 0.05 + 0.4 * rng.random() * np.exp(-((hour - peak) ** 2) / (2 * width**2))
        jam = np.zeros(len(when))
        for t in range(1, len(jam)):
            jam[t] = 0.9 * jam[t - 1] + 0.02 * rng.normal()
        frame = pandas.DataFrame({"when": when, "road": road, "y": np.clip(usual + jam, 0, 1)})
        parts.append(frame[rng.random(len(frame)) > 0.03])
    return pandas.concat(parts), {"client_column": "road", "horizon": 3}


def states(rng: Rng) -> Made:
    """Thirty machines in five states that last; two readings tell the state late, failures are rare."""
    names = np.array(["idle", "run", "fast", "clean", "failed"])
    leave = np.array([0.05, 0.02, 0.08, 0.15, 0.2])
    onward = np.array(
        [[0, 8, 1, 1, 0.1], [4, 0, 4, 2, 0.3], [1, 8, 0, 1, 0.5], [6, 4, 0, 0, 0], [1, 0, 0, 1, 0]]
    )
    parts = []
    for machine in range(30):
        state, found = 0, np.zeros(600, int)
        for t in range(600):
            if rng.random() < leave[state]:
                state = int(rng.choice(5, p=onward[state] / onward[state].sum()))
            found[t] = state
        power = np.array([1.0, 5, 9, 3, 0])[found] + rng.normal(size=600)
        shake = np.array([0.1, 1, 3, 0.5, 0.1])[np.roll(found, 1)] * rng.gamma(4, 0.25, 600)
        frame = pandas.DataFrame({"t": np.arange(600), "who": f"m{machine}", "power": power, "shake": shake})
        parts.append(frame.assign(y=names[found]))
    return together(parts)


def wide(rng: Rng) -> Made:
    """Five hundred readings of which eight matter, twenty sites, independent rows."""
    weights = np.zeros(500)
    weights[rng.choice(500, 8, replace=False)] = rng.normal(size=8)
    parts = []
    for site in range(20):
        x = rng.normal(size=(500, 500)).astype(np.float32)
        y = x @ weights + rng.normal() + 0.5 * rng.normal(size=500)
        parts.append(columns(x, y).assign(who=site, t=np.arange(500)))
    return together(parts)


def returns(rng: Rng) -> Made:
    """Daily returns of twelve shares: nothing to learn but their spread, which comes in clusters."""
    parts = []
    for share in range(12):
        x, y, variance = rng.normal(size=(2000, 3)), np.zeros(2000), 1.0
        for t in range(2000):
            y[t] = np.sqrt(variance) * rng.standard_t(5)
            variance = 0.05 + 0.1 * y[t] ** 2 + 0.8 * variance
        parts.append(columns(x, 0.01 * y).assign(who=share, t=np.arange(2000)))
    return together(parts)


def latecomers(rng: Rng) -> Made:
    """Twenty-five greenhouses in units of their own, each there for a while; a reading in ten is missing."""
    parts = []
    for house in range(25):
        begin, rows = int(rng.integers(0, 1500)), int(rng.integers(100, 1500))
        sun = np.maximum(0, np.sin(2 * np.pi * (begin + np.arange(rows)) / 144)) * rng.gamma(8, 1 / 8, rows)
        heat = np.zeros(rows)
        for t in range(1, rows):
            heat[t] = 0.9 * heat[t - 1] + 2 * sun[t] + 0.2 * rng.normal()
        unit = 10 ** rng.uniform(-3, 3)
        x = np.stack([sun, rng.random(rows)], axis=1)
        x[rng.random(x.shape) < 0.1] = np.nan
        parts.append(columns(x, unit * (15 + heat)).assign(who=f"h{house}", t=begin + np.arange(rows)))
    return together(parts)


def species(rng: Rng) -> Made:
    """A hundred labels as texts, three observers who see other ones often, twelve readings."""
    centres = 1.5 * rng.normal(size=(100, 12))
    parts = []
    for observer in range(3):
        label = rng.choice(100, 4000, p=rng.dirichlet(0.5 * np.ones(100)))
        frame = columns(centres[label] + rng.normal(size=(4000, 12)), [f"species {one:02d}" for one in label])
        parts.append(frame.assign(who=f"o{observer}", t=np.arange(4000)))
    return together(parts)


def written(rng: Rng) -> Made:
    """MNIST as a file: 784 grey values, a hundred clients, 200 rows each."""
    data = load("mnist", "none")
    rows = rng.choice(len(data), 20_000, replace=False)
    pixels = np.round(255 * data.x[rows].reshape(len(rows), -1)).astype(np.uint8)
    frame = columns(pixels, data.y[rows]).assign(
        who=np.arange(len(rows)) % 100, t=np.arange(len(rows)) // 100
    )
    return frame, {"client_column": "who", "time_column": "t", "options": {"task": "classification"}}


TUNING = (sea, friedman, waves, bikes, queues, demand, worn, digits, batches, glitches)
CHECK = (
    hyperplane,
    seven_segments,
    growth,
    updown,
    rivers,
    roads,
    states,
    wide,
    returns,
    latecomers,
    species,
    written,
)
