"""Twenty-one files after kinds of data that strangers have, by other mechanisms than the rest.

Hires by date and hour, exchange rates, visits of pages, sales, rooms, heartbeats, tracks, ratings, fraud, texts,
jumps that stay and spikes that go: `benchmarks/strangers.py` runs them (`outside`). The prior after a far target was
chosen with the first fourteen in sight; the six before the last were made to check it; the last is for many
readings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas

from benchmarks.newcomers import Array, Made, Rng, columns, together


def wander(rng: Rng, rows: int, stay: float, size: float = 1.0) -> Array:
    """An autoregression of order one."""
    found, noise = np.zeros(rows), size * rng.normal(size=rows)
    for t in range(1, rows):
        found[t] = stay * found[t - 1] + noise[t]
    return found


def hires(rng: Rng) -> Made:
    """Hires of bikes with a date in one column and the hour in another, nights with next to none, two years."""
    rows = 17_379
    when = pandas.date_range("2011-01-01", periods=rows, freq="h")
    hour, work = when.hour.to_numpy(), when.day_of_week.to_numpy() < 5
    year = 0.3 * np.sin(2 * np.pi * np.arange(rows) / 8760 - 1.5)
    warm = 0.5 + year + 0.1 * np.sin(2 * np.pi * (hour - 9) / 24) + 0.02 * wander(rng, rows, 0.9)
    rush = work * (np.exp(-((hour - 8.0) ** 2)) + np.exp(-((hour - 17.5) ** 2) / 2))
    rate = np.exp(3 + 2 * warm + 1.6 * np.sin(2 * np.pi * (hour - 10) / 24) + rush) * np.where(
        hour < 5, 0.1, 1
    )
    y = rng.poisson(rate * rng.gamma(10, 0.1, rows))
    frame = {"dteday": when.strftime("%Y-%m-%d"), "hr": hour, "workingday": work.astype(int), "temp": warm}
    return pandas.DataFrame({**frame, "hum": rng.random(rows), "y": y}), {}


def forex(rng: Rng) -> Made:
    """An exchange rate every five minutes: a random walk with heavy tails whose spread comes in clusters."""
    rows = 15_000
    size = np.exp(wander(rng, rows, 0.99, 0.1))
    y = np.round(1.1 * np.exp(np.cumsum(1e-4 * size * rng.standard_t(4, rows))), 5)
    when = pandas.date_range("2023-01-02", periods=rows, freq="5min").strftime("%Y.%m.%d %H:%M")
    return pandas.DataFrame({"time": when, "volume": rng.poisson(200 * size), "y": y}), {}


def pages(rng: Rng) -> Made:
    """Visits of 145 pages a day, from one to millions; one day in a hundred has several times as many."""
    parts, rows = [], 550
    for page in range(145):
        week = 1 + 0.3 * np.sin(2 * np.pi * (np.arange(rows) + rng.integers(7)) / 7)
        sudden = np.where(rng.random(rows) < 0.01, rng.uniform(2, 8, rows), 1)
        rate = np.exp(rng.normal(6, 2)) * week * np.exp(wander(rng, rows, 0.9, 0.1)) * sudden
        when = pandas.date_range("2015-07-01", periods=rows).strftime("%Y-%m-%d")
        parts.append(pandas.DataFrame({"who": page, "date": when, "y": rng.poisson(rate)}))
    return pandas.concat(parts), {"client_column": "who"}


def sold(rng: Rng) -> Made:
    """Sales of three hundred items, mostly zero, with weekends and an allowance; some items come later."""
    parts, days = [], np.arange(400)
    for item in range(300):
        rate = np.exp(rng.normal(-1, 1)) * (1 + 0.4 * (days % 7 > 4)) * rng.gamma(1, 1, len(days))
        y = rng.poisson(rate) * (days >= rng.integers(0, 200))
        frame = {"t": days, "who": item, "weekday": days % 7, "snap": (rng.random(len(days)) < 0.3) * 1}
        parts.append(pandas.DataFrame({**frame, "y": y}))
    return together(parts, options={"task": "regression"})


def office(rng: Rng) -> Made:
    """CO2 in a room every ten minutes, rows in no order, dates with a summer time, gaps of hours in all columns."""
    rows = 12_000
    when = pandas.date_range("2022-10-25", periods=rows, freq="10min", tz="Europe/Berlin")
    busy = (when.hour > 8) & (when.hour < 18) & (when.day_of_week < 5)
    people, y = busy * rng.poisson(3, rows), np.full(rows, 420.0)
    for t in range(1, rows):
        y[t] = y[t - 1] + 0.1 * (420 - y[t - 1]) + 12 * people[t] + 3 * rng.normal()
    x = np.stack([20 + wander(rng, rows, 0.99, 0.1), 40 * people + rng.random(rows), y.round()], axis=1)
    for column in range(3):
        for begin in rng.integers(0, rows, 8):
            x[begin : begin + rng.integers(20, 400), column] = np.nan
    frame = columns(x[:, :2], x[:, 2]).assign(stamp=when.astype(str))
    return frame.sample(frac=1, random_state=1), {}


def heartbeats(rng: Rng) -> Made:
    """Fifteen hearts, a second lead as reading: flat for seventy rows, then a peak of three."""
    parts, rows = [], 4000
    for heart in range(15):
        phase = np.cumsum(1 / (70 + 5 * wander(rng, rows, 0.999, 0.1))) % 1
        beat = sum(
            size * np.exp(-(((phase - at) / width) ** 2))
            for size, at, width in (
                (1.2, 0.3, 0.015),
                (-0.2, 0.27, 0.01),
                (0.25, 0.55, 0.04),
                (0.1, 0.15, 0.03),
            )
        )
        y = np.round(beat * rng.uniform(0.5, 2) + 0.02 * rng.normal(size=rows), 3)
        lead = 0.6 * np.roll(beat, 1) + 0.02 * rng.normal(size=rows)
        parts.append(pandas.DataFrame({"t": 8 * np.arange(rows), "who": heart, "lead": lead, "y": y}))
    return together(parts)


def tracks(rng: Rng) -> Made:
    """Latitudes of fifty vehicles every five seconds, with speed and heading; some stand still."""
    parts, rows = [], 600
    for car in range(50):
        heading = np.cumsum(0.2 * rng.normal(size=rows))
        moving = np.sin(np.arange(rows) / 60 + car) > -0.5
        speed = np.clip(10 + wander(rng, rows, 0.95), 0, None) * moving
        y = 48 + 1e-5 * np.cumsum(speed * np.cos(heading))
        frame = {"ts": 1.7e9 + 5 * np.arange(rows), "who": car, "speed": speed.round(1)}
        parts.append(pandas.DataFrame({**frame, "heading": np.degrees(heading) % 360, "y": y}))
    return pandas.concat(parts), {"client_column": "who"}


def ratings(rng: Rng) -> Made:
    """One to five stars that two hundred people give, by genre and by person, at moments of their own."""
    rows = 30_000
    who, genre = rng.integers(0, 200, rows), rng.integers(0, 12, rows)
    taste = 0.3 * rng.normal(size=(200, 12)) + 0.4 * rng.normal(size=12) + 0.5 * rng.normal(size=(200, 1))
    y = np.clip(np.round(3.5 + taste[who, genre] + 0.8 * rng.normal(size=rows)), 1, 5).astype(int)
    when = np.sort(rng.integers(1_500_000_000, 1_600_000_000, rows))
    frame = {"who": who, "ts": when, "genre": [f"genre {one}" for one in genre], "y": y}
    return pandas.DataFrame(frame), {"client_column": "who"}


def fraud(rng: Rng) -> Made:
    """Three payments in a thousand are fraud, which twelve readings nearly tell."""
    x, y = rng.normal(size=(40_000, 12)), rng.random(40_000) < 0.003
    x[y] += rng.normal(1.5, 0.5, 12)
    return columns(x, y.astype(int)).assign(amount=np.exp(rng.normal(3, 1.5, len(x))).round(2)), {}


def topics(rng: Rng) -> Made:
    """Two hundred labels as texts, a few of them often and most of them seldom, twenty readings."""
    label = np.minimum(rng.zipf(1.3, 8000) - 1, 199)
    x = rng.normal(size=(200, 20))[label] + rng.normal(size=(len(label), 20))
    return columns(x, [f"topic {one}" for one in label]), {}


def homes(rng: Rng) -> Made:
    """A thousand homes with thirty rows each: a level of its own, and half of what the weather does."""
    parts, outside = [], 15 + 8 * np.sin(np.arange(30) / 4)
    for home in range(1000):
        y = rng.normal(20, 5) + 0.5 * (outside - 15) + 0.5 * wander(rng, 30, 0.7)
        frame = {"t": np.arange(30), "who": home, "outside": outside + 0.5 * rng.normal(size=30), "y": y}
        parts.append(pandas.DataFrame(frame))
    return together(parts)


def unequal(rng: Rng) -> Made:
    """Sixty devices with two to five thousand rows, each from a moment of its own on."""
    parts = []
    for device in range(60):
        rows, begin = int(10 ** rng.uniform(0.3, 3.7)), int(rng.integers(0, 3000))
        x = rng.normal(size=(rows, 3))
        y = 5 * rng.normal() + x @ [1, 2, -1] + wander(rng, rows, 0.9, 0.5)
        parts.append(columns(x, y).assign(who=device, t=begin + np.arange(rows)))
    return together(parts)


def units(rng: Rng) -> Made:
    """Ten sensors that change from Celsius to Fahrenheit, one after another, and then all to thousandths."""

    def sensor(rng: Rng) -> Any:
        t, y = np.arange(2000), 20 + 3 * wander(rng, 2000, 0.98, 0.2)
        y = np.where(t > 700 + rng.integers(300), 1.8 * y + 32, y)
        return columns(rng.normal(size=(2000, 1)), np.where(t > 1500, 1000 * y, y)).assign(t=t)

    return each(rng, sensor, 10)


def counters(rng: Rng) -> Made:
    """Twenty meters that count kilowatt-hours; four of them begin anew."""

    def meter(rng: Rng) -> Any:
        t = np.arange(1500)
        used = np.clip(0.3 + 0.3 * np.sin(2 * np.pi * (t - 30) / 96) + 0.1 * rng.normal(size=1500), 0, None)
        y = 1000 * rng.random() + np.cumsum(used)
        y = np.where((t > 900) & (rng.random() < 0.2), y - y[900], y)
        return pandas.DataFrame({"t": t, "volt": 230 + rng.normal(size=1500), "y": y.round(2)})

    return each(rng, meter, 20)


def duty(rng: Rng) -> Made:
    """Twelve heaters that are on or off for a while."""

    def heater(rng: Rng) -> Any:
        on = np.zeros(1500)
        for t in range(1, 1500):
            on[t] = rng.random() < (0.97 if on[t - 1] else 0.02)
        frame = {"t": np.arange(1500), "warm": 20 + np.cumsum(0.1 * (on - 0.4))}
        return pandas.DataFrame({**frame, "y": 2000 * on + 5 + rng.normal(size=1500)})

    return each(rng, heater, 12)


def tariffs(rng: Rng) -> Made:
    """Twelve prices that stay as they are, but for a jump in two hundred rows."""

    def price(rng: Rng) -> Any:
        level = 30 + np.cumsum((rng.random(1200) < 1 / 200) * rng.normal(size=1200) * 5)
        x = rng.normal(size=(1200, 1))
        return columns(x, level + 0.01 * rng.normal(size=1200)).assign(t=np.arange(1200))

    return each(rng, price, 12)


def tanks(rng: Rng) -> Made:
    """Ten tanks that empty slowly and are filled at once."""

    def tank(rng: Rng) -> Any:
        y = np.full(1500, 50.0)
        for t in range(1, 1500):
            y[t] = y[t - 1] - 0.1 + 0.02 * rng.normal() + 60 * (y[t - 1] < 10)
        return columns(rng.normal(size=(1500, 1)), y).assign(t=np.arange(1500))

    return each(rng, tank, 10)


def pings(rng: Rng) -> Made:
    """Answers of twenty servers in milliseconds: one in a hundred takes far longer, and the next does not."""

    def server(rng: Rng) -> Any:
        late = np.where(rng.random(1500) < 0.01, rng.exponential(300, 1500), 0)
        y = 20 + np.abs(rng.normal(size=1500)) + late
        return columns(rng.random((1500, 1)), y).assign(t=np.arange(1500))

    return each(rng, server, 20)


def dropouts(rng: Rng) -> Made:
    """Twelve targets that wander; one row in 140 is a zero that was never measured."""

    def meter(rng: Rng) -> Any:
        y = np.where(rng.random(1500) < 0.007, 0, 100 + np.cumsum(0.3 * rng.normal(size=1500)))
        return columns(rng.normal(size=(1500, 1)), y).assign(t=np.arange(1500))

    return each(rng, meter, 12)


def bursts(rng: Rng) -> Made:
    """Twelve targets that jump up once in a hundred rows, and half as far is gone with each row after it."""

    def one(rng: Rng) -> Any:
        y = np.zeros(1500)
        for t in range(1, 1500):
            y[t] = 0.5 * y[t - 1] + (rng.random() < 0.01) * rng.exponential(100)
        x = rng.normal(size=(1500, 1))
        return columns(x, 5 + y + 0.2 * rng.normal(size=1500)).assign(t=np.arange(1500))

    return each(rng, one, 12)


def each(rng: Rng, maker: Callable[[Rng], Any], clients: int) -> Made:
    """The frames of so many clients of one kind."""
    return together([maker(rng).assign(who=client) for client in range(clients)])


def panel(rng: Rng) -> Made:
    """Four plants with 200 readings that last and have twelve causes in common; the target is a sum of all."""
    parts, rows, readings = [], 500, 200
    load, weights = rng.normal(size=(12, readings)), rng.normal(size=readings) / np.sqrt(readings)
    for plant in "ABCD":
        causes = np.stack([wander(rng, rows, 0.97, 0.24) for _ in range(12)], axis=1)
        own = np.stack([wander(rng, rows, 0.9, 0.44) for _ in range(readings)], axis=1)
        x = causes @ load / 3 + own
        y = 1000 + 50 * (2 * x @ weights + 0.3 * rng.normal(size=rows))
        parts.append(columns(x, y).assign(who=plant, t=np.arange(rows)))
    return together(parts)


OUTSIDE = (
    *(
        hires,
        forex,
        pages,
        sold,
        office,
        heartbeats,
        tracks,
        ratings,
        fraud,
        topics,
        homes,
        unequal,
        units,
        counters,
    ),
    *(duty, tariffs, tanks, pings, dropouts, bursts, panel),
)
