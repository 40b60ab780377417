"""Nine files of other sizes than the rest: up to 1,000 clients, 50,000 steps and 32,350 parameters.

They were made and run once, after the constants of preset auto had been chosen; `benchmarks/strangers.py` runs them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas

from benchmarks.newcomers import Made, Rng, columns, together


def _lasting(rng: Rng, rows: int, readings: int, stay: float, noise: float) -> Any:
    """Readings that are like the ones before, [rows, readings]."""
    x, drawn = np.zeros((rows, readings)), rng.normal(size=(rows, readings))
    for t in range(1, rows):
        x[t] = stay * x[t - 1] + noise * drawn[t]
    return x


def long_walk(rng: Rng) -> Made:
    """Three clients, 50,000 steps: a target that follows two readings, whose weights turn around twice."""
    parts, rows = [], 50_000
    for who in range(3):
        x, turn, y = _lasting(rng, rows, 4, 0.97, 0.25), np.linspace(0, 4 * np.pi, rows), np.zeros(rows)
        noise = rng.normal(size=rows)
        for t in range(1, rows):
            pull = np.cos(turn[t]) * x[t, 0] + np.sin(turn[t]) * x[t, 1]
            y[t] = 0.95 * y[t - 1] + 0.3 * pull + 0.3 * noise[t]
        parts.append(columns(x, 100 + 5 * y).assign(who=who, t=np.arange(rows)))
    return together(parts)


def thousand_meters(rng: Rng) -> Made:
    """A thousand meters for four days: a load that falls with the warmth, and has its hours."""
    parts, t = [], np.arange(100)
    warm = 10 + 8 * np.sin(2 * np.pi * t / 24) + np.cumsum(rng.normal(size=100)) * 0.5
    for who in range(1000):
        size = np.exp(rng.normal())
        load = size * (5 - 0.1 * warm + np.sin(2 * np.pi * (t - rng.integers(6)) / 24))
        y = load + 0.2 * size * rng.normal(size=100)
        parts.append(pandas.DataFrame({"t": t, "who": who, "warm": warm + rng.normal(size=100), "y": y}))
    return together(parts)


def wide_series(rng: Rng) -> Made:
    """One machine with 300 readings that last, of which five move the target a little."""
    x = _lasting(rng, 6000, 300, 0.9, 0.44)
    return columns(x, np.cumsum(0.04 * x[:, :5].sum(axis=1) + 0.3 * rng.normal(size=6000))), {}


def drifting_classes(rng: Rng) -> Made:
    """Fifty clients, eight labels in 20 dimensions whose centres move."""
    parts, rows = [], 600
    centres, moves = rng.normal(size=(8, 20)) * 1.2, rng.normal(size=(8, 20))
    for who in range(50):
        label, share = rng.integers(0, 8, rows), np.linspace(0, 1, rows)[:, None]
        x = (
            centres[label] * (1 - share)
            + (centres + 1.5 * moves)[label] * share
            + rng.normal(size=(rows, 20))
        )
        parts.append(columns(x, [f"k{one}" for one in label]).assign(who=who, t=np.arange(rows)))
    return together(parts)


def network(rng: Rng) -> Made:
    """Twenty clients, ten labels that stay for a while, 200 noisy readings, and a network with 32,350 parameters."""
    parts, rows, centres = [], 400, rng.normal(size=(10, 200)) * 0.4
    for who in range(20):
        label = np.zeros(rows, int)
        label[0] = rng.integers(10)
        for t in range(1, rows):
            label[t] = label[t - 1] if rng.random() < 0.7 else rng.integers(10)
        x = centres[label] + rng.normal(size=(rows, 200))
        parts.append(columns(x, [f"k{one}" for one in label]).assign(who=who, t=np.arange(rows)))
    return together(parts, model="mlp", hidden=(140,))


def shops(rng: Rng) -> Made:
    """Sales of thirty shops per day: weekends, offers, a price that tells nothing, and more of all after 400 days."""
    parts, when = [], pandas.date_range("2022-01-01", periods=800, freq="D")
    for shop in range(30):
        usual = np.exp(rng.normal(3, 0.5)) * (1 + 0.4 * (when.dayofweek >= 5))
        usual = usual * np.where(np.arange(800) > 400, 1.3, 1)
        offer = rng.random(800) < 0.1
        price = rng.normal(10, 1, 800)
        sold = rng.poisson(usual * np.where(offer, 1.6, 1))
        parts.append(
            pandas.DataFrame(
                {"when": when, "shop": f"s{shop}", "offer": offer.astype(int), "price": price, "y": sold}
            )
        )
    return pandas.concat(parts), {"client_column": "shop", "options": {"task": "regression"}}


def regimes_of_rows(rng: Rng) -> Made:
    """Independent rows without clients; every 1,000 rows the weights change their sign."""
    x, weights = rng.normal(size=(20_000, 12)), rng.normal(size=12)
    sign = np.where(np.arange(20_000) % 2000 < 1000, 1, -1)
    return columns(x, sign * (x @ weights) + rng.normal(size=20_000)), {}


def vibration(rng: Rng) -> Made:
    """Eight machines that swing with a frequency that wanders; a reading tells it."""
    parts, rows = [], 5000
    for who in range(8):
        y, noise, swing = (
            np.zeros(rows),
            rng.normal(size=rows),
            0.3 + 0.2 * np.sin(np.arange(rows) / 700 + who),
        )
        for t in range(2, rows):
            y[t] = 2 * 0.97 * np.cos(swing[t]) * y[t - 1] - 0.94 * y[t - 2] + noise[t]
        turns = swing * 100 + rng.normal(size=rows)
        parts.append(pandas.DataFrame({"t": np.arange(rows), "who": who, "turns": turns, "y": y}))
    return together(parts)


def alarms(rng: Rng) -> Made:
    """Two hundred devices with an alarm that is rare and lasts; a reading rises before it."""
    parts, rows = [], 250
    for who in range(200):
        alarm, heat = np.zeros(rows, int), np.zeros(rows)
        for t in range(1, rows):
            heat[t] = 0.9 * heat[t - 1] + rng.normal() * 0.5
            stays = bool(alarm[t - 1]) and rng.random() < 0.85
            alarm[t] = stays or rng.random() < 1 / (1 + np.exp(-(3 * heat[t - 1] - 7)))
        noise = rng.normal(size=rows)
        named = np.where(alarm, "alarm", "ok")
        parts.append(
            pandas.DataFrame({"t": np.arange(rows), "who": who, "heat": heat, "noise": noise, "y": named})
        )
    return together(parts)


UNSEEN = (
    long_walk,
    thousand_meters,
    wide_series,
    drifting_classes,
    network,
    shops,
    regimes_of_rows,
    vibration,
    alarms,
)
