"""Ten files of kinds that the others lack; made and run once before anything was changed because of them.

Tails without a variance, seasons whose phase wanders, labels that are wrong, clients with opposite signs, gaps that
last, counts, zeros: `benchmarks/strangers.py` runs them (`fresh`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas

from benchmarks.newcomers import Made, Rng, columns, together


def _gaps(rng: Rng, x: Any, begin: float, end: float) -> Any:
    """`x` with gaps that begin and end by chance, in each column apart."""
    gone, x = np.zeros(x.shape[1], bool), x.copy()
    for t in range(len(x)):
        gone = np.where(gone, rng.random(len(gone)) > end, rng.random(len(gone)) < begin)
        x[t, gone] = np.nan
    return x


def tides(rng: Rng) -> Made:
    """Eight harbours by the hour: a tide of 12.4 hours whose phase wanders, and a surge that follows the wind."""
    parts, rows = [], 6000
    when = pandas.date_range("2019-03-01", periods=rows, freq="h")
    for who in range(8):
        phase = (
            2 * np.pi * np.arange(rows) / 12.42 + np.cumsum(0.03 * rng.normal(size=rows)) + rng.random() * 6
        )
        wind, surge = np.zeros(rows), np.zeros(rows)
        for t in range(1, rows):
            wind[t] = 0.95 * wind[t - 1] + rng.normal()
            surge[t] = 0.9 * surge[t - 1] + 0.05 * wind[t - 1]
        height = 3 + (1 + 0.3 * np.sin(np.arange(rows) / 170)) * np.cos(phase) + surge
        frame = columns(_gaps(rng, wind[:, None], 0.01, 0.1), height + 0.05 * rng.normal(size=rows))
        parts.append(frame.assign(who=f"harbour {who}", when=when))
    return pandas.concat(parts), {"client_column": "who"}


def rain(rng: Rng) -> Made:
    """Forty gauges: dry for days, then wet for hours, with amounts of heavy tails; readings with long gaps."""
    parts, rows = [], 800
    for who in range(40):
        wet, damp, y = False, 0.0, np.zeros(rows)
        x = np.zeros((rows, 3))
        for t in range(rows):
            damp = 0.9 * damp + 0.4 * rng.normal()
            wet = rng.random() < (0.8 if wet else 0.03 + 0.1 * (damp > 1))
            y[t] = round(rng.pareto(2.2) * np.exp(0.5 * damp), 1) if wet else 0.0
            x[t] = damp + 0.3 * rng.normal(), 1013 - 5 * damp + rng.normal(), rng.normal()
        parts.append(columns(_gaps(rng, x, 0.02, 0.05), y).assign(who=who, t=np.arange(rows)))
    return together(parts, options={"task": "regression"})


def opposites(rng: Rng) -> Made:
    """Thirty clients, three labels in nine readings: half of the clients take them the other way; 15 % are wrong."""
    parts, rows, weights = [], 600, rng.normal(size=(9, 3))
    for who in range(30):
        x, sign = rng.normal(size=(rows, 9)), 1 if who % 2 else -1
        label = np.argmax(sign * x @ weights, axis=1)
        label = np.where(rng.random(rows) < 0.15, rng.integers(0, 3, rows), label)
        parts.append(columns(x, np.array(["low", "mid", "top"])[label]).assign(who=who, t=np.arange(rows)))
    return together(parts)


def calls(rng: Rng) -> Made:
    """A thousand desks for sixty days: overdispersed counts of calls, a level of each, a week, a strike."""
    parts, days = [], np.arange(60)
    strike = (days >= 33) & (days < 40)
    for who in range(1000):
        rate = np.exp(rng.normal(1, 1)) * np.where(days % 7 < 5, 1.5, 0.4) * np.where(strike, 0.2, 1)
        y = rng.poisson(rate * rng.gamma(2, 0.5, size=len(days)))
        staff = np.round(2 + rate + rng.normal(size=len(days)))
        parts.append(
            pandas.DataFrame({"t": days, "who": who, "staff": staff, "strike": strike.astype(int), "y": y})
        )
    return together(parts, options={"task": "regression"})


def machines(rng: Rng) -> Made:
    """Twelve machines with five states that last; every 700 rows or so the readings of two states change places."""
    parts, rows, centres = [], 3000, rng.normal(size=(5, 6))
    for who in range(12):
        state, names, label = 0, np.arange(5), np.zeros(rows, int)
        x = np.zeros((rows, 6))
        for t in range(rows):
            state = state if rng.random() < 0.8 else int(rng.integers(5))
            if rng.random() < 1 / 700:
                one, other = rng.choice(5, 2, replace=False)
                names[[one, other]] = names[[other, one]]
            x[t], label[t] = centres[names[state]] + rng.normal(size=6), state
        parts.append(columns(x, [f"state {one}" for one in label]).assign(who=who, t=np.arange(rows)))
    return together(parts)


def tails(rng: Rng) -> Made:
    """Five markets, 10,000 rows: moves with 1.5 degrees of freedom, which pull back, and readings with the same."""
    parts, rows = [], 10_000
    for who in range(5):
        x, move, y = rng.standard_t(1.5, size=(rows, 3)), rng.standard_t(1.5, size=rows), np.zeros(rows)
        for t in range(1, rows):
            y[t] = 0.8 * y[t - 1] + 0.5 * x[t, 0] + move[t]
        parts.append(columns(x, y).assign(who=who, t=np.arange(rows)))
    return together(parts)


def tags(rng: Rng) -> Made:
    """Fifty clients, thirty labels by 1,000 truth values of which few are true: 33,000 parameters."""
    parts, rows, usual = [], 200, 0.02 * np.ones(1000)
    kinds = np.stack([np.where(rng.random(1000) < 0.03, 0.5, usual) for _ in range(30)])
    for who in range(50):
        favoured = rng.dirichlet(0.3 * np.ones(30))
        label = rng.choice(30, rows, p=favoured)
        x = (rng.random((rows, 1000)) < kinds[label]).astype(int)
        parts.append(columns(x, [f"tag {one}" for one in label]).assign(who=who, t=np.arange(rows)))
    return together(parts)


def long_labels(rng: Rng) -> Made:
    """Three clients, 50,000 rows: two labels by a boundary that turns slowly, and one label in five is wrong."""
    parts, rows = [], 50_000
    for who in range(3):
        x, turn = rng.normal(size=(rows, 5)), np.linspace(0, 3 * np.pi, rows)
        label = np.cos(turn) * x[:, 0] + np.sin(turn) * x[:, 1] + 0.5 * x[:, 2] > 0.3
        wrong = rng.random(rows) < 0.2
        parts.append(columns(x, np.where(label ^ wrong, "buy", "sell")).assign(who=who, t=np.arange(rows)))
    return together(parts)


def stuck(rng: Rng) -> Made:
    """Twenty valves that stand still for a while and then move to where two readings say; gaps of all lengths."""
    parts, rows = [], 1500
    for who in range(20):
        x, y = 0.1 * np.cumsum(rng.normal(size=(rows, 4)), axis=0), np.zeros(rows)
        for t in range(1, rows):
            y[t] = np.round(50 + 10 * x[t, 0] - 5 * x[t, 1]) if rng.random() < 0.1 else y[t - 1]
        parts.append(columns(_gaps(rng, x, 0.01, 0.03), y).assign(who=who, t=np.arange(rows)))
    return together(parts, options={"task": "regression"})


def batteries(rng: Rng) -> Made:
    """A hundred batteries that run down by their load and are charged when they are empty."""
    parts, rows = [], 500
    for who in range(100):
        charge, y, load = 100.0, np.zeros(rows), rng.gamma(2, 1 + rng.random(), size=rows)
        for t in range(rows):
            charge = 100.0 if charge < 10 else charge - load[t]
            y[t] = charge + 0.3 * rng.normal()
        heat = 20 + 2 * load + rng.normal(size=rows)
        parts.append(pandas.DataFrame({"t": np.arange(rows), "who": who, "heat": heat, "load": load, "y": y}))
    return together(parts)


FRESH = (tides, rain, opposites, calls, machines, tails, tags, long_labels, stuck, batteries)
