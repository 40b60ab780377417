"""Files that chose nothing: real data with other targets, clients and cuts, and made ones of odd sizes.

`OFEDIQ_DATA=FOLDER python -m benchmarks.strangers recuts untuned` runs them; the folder holds the datasets' raw files
and `beijing_multisite.csv.gz`. The usual method live was chosen with the first eighteen (`ofedgrid` beside the
default), the present first moves of the adaptive server were checked on seven of all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from benchmarks.newcomers import Made, Rng, together
from benchmarks.outside import wander


def file(name: str, **read: Any) -> Any:
    """A raw file as a frame."""
    return pandas.read_csv(Path(os.environ.get("OFEDIQ_DATA", "data")) / name, **read)


def energy(rng: Rng, target: str) -> Made:
    """A house every ten minutes."""
    return file("energydata_complete.csv.gz").rename(columns={target: "y"}), {}


def gas(rng: Rng, target: str) -> Made:
    """Sensors beside an Italian road: decimal commas, marks of -200, dates and times in two columns."""
    frame = file("AirQualityUCI.csv", sep=";", decimal=",").dropna(how="all").dropna(axis=1, how="all")
    return frame.rename(columns={target: "y"}), {}


def stations(rng: Rng, target: str, first: int, last: int) -> Made:
    """Some months of the twelve stations."""
    frame = file("beijing_multisite.csv.gz").drop(columns="No")
    rows = frame.groupby("station").cumcount()
    return frame[(rows >= first) & (rows < last)].rename(columns={target: "y"}), {"client_column": "station"}


def grades(rng: Rng) -> Made:
    """Four labels for the particles at the stations, without the other kind of them."""
    frame, said = stations(rng, "PM2.5", 8000, 11_000)
    names = ["good", "fair", "bad", "awful"]
    return frame.drop(columns="PM10").assign(
        y=pandas.cut(frame["y"], [-1, 35, 75, 150, 2000], labels=names)
    ), said


def room(rng: Rng, target: str) -> Made:
    """A room with sensors for light, sound, heat and movement."""
    return file("Occupancy_Estimation.csv").rename(columns={target: "y"}), {}


def movement(rng: Rng) -> Made:
    """Movement in that room, rare, with a client for each hour of the day."""
    frame = room(rng, "S6_PIR")[0]
    return frame.assign(h=frame["Time"].str[:2]), {"client_column": "h"}


def gusts(rng: Rng) -> Made:
    """Wind in Beijing, added up while its direction stays."""
    frame = file("PRSA_data_2010.1.1-2014.12.31.csv").iloc[10_000:25_000]
    return frame.rename(columns={"Iws": "y"}), {}


def constant(rng: Rng) -> Made:
    """A target that is always the same."""
    return pandas.DataFrame({"a": rng.normal(size=3000), "y": np.full(3000, 7.25)}), {}


def thousandth(rng: Rng) -> Made:
    """A fault in one of a thousand rows, which two readings nearly tell."""
    x = rng.normal(size=(30_000, 5))
    fault = x[:, 0] + x[:, 1] + 0.3 * rng.normal(size=len(x)) > 4.6
    return pandas.DataFrame(x, columns=list("abcde")).assign(y=np.where(fault, "fault", "fine")), {
        "clients": 20
    }


def nano(rng: Rng) -> Made:
    """A target of 1e-9 from readings in millions."""
    x = rng.normal(size=(9000, 3))
    y = wander(rng, 9000, 0.9) + x @ [1, 0.5, 0]
    return pandas.DataFrame(x * 1e6, columns=list("abc")).assign(y=1e-9 * y), {}


def giga(rng: Rng) -> Made:
    """A target of 3e9 that moves by hundreds, from readings in thousandths that wander."""
    x = np.cumsum(rng.normal(size=(9000, 3)), 0)
    y = 3e9 + 100 * (x @ [1, 0.5, 0]) + 50 * rng.normal(size=9000)
    return pandas.DataFrame(x * 1e-3, columns=list("abc")).assign(y=y), {}


def brief(rng: Rng) -> Made:
    """A thousand devices with twenty rows and a level of their own each."""
    parts = []
    for device in range(1000):
        x = rng.normal(size=(20, 4))
        y = 10 * rng.normal() + wander(rng, 20, 0.7) + x @ [1, -1, 0.5, 0]
        frame = pandas.DataFrame(x, columns=list("abcd"))
        parts.append(frame.assign(dev=f"d{device}", day=np.arange(20), y=y))
    return pandas.concat(parts), {"client_column": "dev"}


def vocabulary(rng: Rng) -> Made:
    """Seven labels by 5,000 words, twenty in a text: more parameters than anybody can learn from 2,500 rows."""
    x = rng.random((2500, 5000)) < 0.004
    weights = rng.normal(size=(5000, 7))
    y = (x @ weights * 1.5 + rng.gumbel(size=(2500, 7))).argmax(1)
    frame = pandas.DataFrame(x.astype(int), columns=[f"w{word}" for word in range(5000)])
    return frame.assign(y=[f"topic {label}" for label in y]), {"clients": 5}


def amounts(rng: Rng) -> Made:
    """A number by 8,000 amounts, most of them 0."""
    x = (rng.random((2000, 8000)) < 0.002) * rng.gamma(2, 1, (2000, 8000)).round(2)
    weights = rng.normal(size=8000) * (rng.random(8000) < 0.3)
    frame = pandas.DataFrame(x, columns=[f"w{word}" for word in range(8000)])
    return frame.assign(y=50 + x @ weights * 3 + rng.normal(size=2000)), {"clients": 4}


def switches(rng: Rng) -> Made:
    """Truth values and nothing else; what two of them mean turns around every 2,000 rows."""
    rows = 8000
    on = rng.random((rows, 8)) < 0.4
    turned = np.where(np.arange(rows) // 2000 % 2, 1, -1) * (on[:, 0] * 2.0 + on[:, 1] - 1.2) + on[:, 2]
    frame = pandas.DataFrame(np.where(on, "TRUE", "FALSE"), columns=[f"flag{flag}" for flag in range(8)])
    return frame.assign(y=np.where(turned + 0.7 * rng.normal(size=rows) > 0, "True", "False")), {}


def blocks(rng: Rng) -> Made:
    """Six machines; each reading is away for 300 rows, and the target for 200."""
    parts = []
    for machine in range(6):
        x = np.c_[wander(rng, 2000, 0.9), wander(rng, 2000, 0.9), rng.normal(size=2000)]
        y = x @ [2, 1, 0.5] + 0.5 * wander(rng, 2000, 0.8)
        for reading in range(3):
            start = rng.integers(0, 1700)
            x[start : start + 300, reading] = np.nan
        start = rng.integers(0, 1800)
        y[start : start + 200] = np.nan
        frame = pandas.DataFrame(x, columns=["fl", "te", "pr"])
        when = pandas.date_range("2021-1-1", periods=2000, freq="15min")
        parts.append(frame.assign(m=f"m{machine}", when=when, y=y))
    return pandas.concat(parts), {"client_column": "m"}


def passers(rng: Rng) -> Made:
    """Eighty clients that come and go, with 10 to 400 rows each."""
    parts, weights = [], rng.normal(size=4)
    for client in range(80):
        rows, start = int(rng.integers(10, 400)), int(rng.integers(0, 1500))
        x, level = rng.normal(size=(rows, 4)), rng.normal() * 5
        y = level + x @ weights + 0.4 * wander(rng, rows, 0.9)
        frame = pandas.DataFrame(x, columns=list("abcd"))
        parts.append(frame.assign(who=f"m{client}", t=start + np.arange(rows), y=y))
    return together(parts)


def bridges(rng: Rng) -> Made:
    """Five targets that swing with little damping, in millionths, and nothing else."""
    parts = []
    for bridge in range(5):
        y = np.zeros(3000)
        for t in range(2, len(y)):
            y[t] = 1.9 * y[t - 1] - 0.97 * y[t - 2] + rng.normal()
        parts.append(pandas.DataFrame({"bridge": bridge, "y": y * 1e-6}))
    return pandas.concat(parts), {"client_column": "bridge"}


def limited(rng: Rng) -> Made:
    """Eight sensors that say no more than +-3,000."""
    parts = []
    for sensor in range(8):
        x = wander(rng, 2500, 0.97)
        frame = {"s": sensor, "minute": np.arange(2500), "in": x + 0.2 * rng.normal(size=2500)}
        parts.append(pandas.DataFrame({**frame, "y": np.clip(np.round(x, 1), -3, 3) * 1000}))
    return pandas.concat(parts), {"client_column": "s"}


RECUTS: dict[str, tuple[int, Callable[[Rng], Made]]] = {  # by name, with their numbers in the draws
    "house wind": (3, partial(energy, target="Windspeed")),
    "benzene trap": (7, partial(gas, target="NMHC(GT)")),
    "sulphur": (11, partial(stations, target="SO2", first=20_000, last=23_000)),
    "station wind": (15, partial(stations, target="WSPM", first=25_000, last=28_000)),
    "station rain": (16, partial(stations, target="RAIN", first=2000, last=5000)),
    "directions": (17, partial(stations, target="wd", first=30_000, last=32_000)),
    "grades": (18, grades),
    "light": (19, partial(room, target="S1_Light")),
    "movement": (20, movement),
    "gusts": (22, gusts),
    "constant": (24, constant),
    "thousandth": (25, thousandth),
    "nano": (26, nano),
    "giga": (27, giga),
    "brief": (28, brief),
    "vocabulary": (30, vocabulary),
    "amounts": (31, amounts),
    "switches": (32, switches),
    "blocks": (34, blocks),
    "passers": (35, passers),
    "bridges": (43, bridges),
    "limited": (46, limited),
}
