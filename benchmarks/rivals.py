"""OFedGrid and its rivals at equal real uplink bits, each with a step size tuned on the first part of the stream.

`python -m benchmarks.rivals digits 0.001` runs one dataset (digits, mnist or pm25) at one budget. What is done is
kept in `runs/`, so that the command can be stopped and called again.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import table
from ofediq.cli.progress import Reporter
from ofediq.experiment.config import Config
from ofediq.experiment.tuning import Effort
from ofediq.experiment.zoo_runs import zoo
from ofediq.report import value_text

BUDGETS = (0.001, 0.0001, 0.01)
_SIZES = {"Adam": (0.004, 0.016, 0.064), "descent": (0.064, 0.25, 1.0)}
_MORE_SIZES = (0.004, 0.016, 0.064, 0.25, 1.0)  # on digits, which is quick
SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {"model": "softmax", "clients": 100, "steps": 300, "seeds": 3},
    "mnist": {"model": "softmax", "clients": 1000, "steps": 300, "seeds": 1},
    "pm25": {"model": "mlp", "clients": 100, "steps": 300, "seeds": 2},
}
_SPREADS = ("", ", spread=1", ", spread=30")  # of OFedGrid; with Adam, as its rivals have it
GRIDS = (*(f"ofedgrid(averages=False{one})" for one in _SPREADS), "intsgd", "ocs", "ocs(codec=eden)")
METHODS = {
    "Adam": ("fedogd", *GRIDS, "eden", "send_samples", "topk_ef", "ofediq"),
    "descent": ("topk_ef", "send_samples", "ftrl_ef", "seeds_scalars"),
}
MORE = {"Adam": ("ef21_sgdm", "cafe", "diana"), "descent": ("majority_vote", "lasg")}
"""On digits alone: where a message has a few coordinates, they are far behind."""


def texts(name: str, server: str) -> list[str]:
    """What runs on a dataset with Adam, or with plain descent, at the server."""
    some = METHODS[server] + (MORE[server] if name == "digits" else ())
    if server == "descent":
        return list(some)
    return [f"{one[:-1]}, preset=authors)" if "(" in one else f"{one}(preset=authors)" for one in some]


def measure(name: str, budgets: Sequence[float] = BUDGETS) -> None:
    """Every budget, both servers; step sizes for each method on the first fifth of the stream."""
    found: dict[float, dict[str, Any]] = {budget: {} for budget in budgets}
    for budget, server in itertools.product(budgets, METHODS):
        chosen = tuple(texts(name, server))
        config = Config(
            dataset=name, methods=chosen, budget=budget, preset="paper", regret=False, **SETTINGS[name]
        )
        folder = Path("runs") / f"rivals-{name}-{budget:g}-{server.lower()}"
        effort = Effort(_MORE_SIZES if name == "digits" else _SIZES[server], 0.2)
        with Reporter() as reporter:
            done = zoo(config, ("random",), folder, reporter, effort=effort)
        if done["interrupted"]:
            sys.exit(130)
        part = done["parts"]["random"]
        found[budget] |= part["rows"]
        show(name, found, part["metric"])


def show(name: str, found: dict[float, dict[str, Any]], metric: str) -> None:
    """One row per method: value, real bits and step size at each budget."""
    budgets = sorted(found, reverse=True)
    rows: list[list[object]] = [["method", *(f"{100 * one:g} %" for one in budgets)]]
    for text in dict.fromkeys(text for part in found.values() for text in part):
        cells = []
        for budget in budgets:
            row = found[budget].get(text)
            if row is None:
                cells.append("")
                continue
            value = "diverged" if row["value"] is None else value_text(row["value"], metric)
            cells.append(f"{value} ({100 * row['share']:.2g} %, {row['step_size']:g})")
        rows.append([text.replace("preset=authors", "Adam"), *cells])
    print(f"{name}: {metric}, in brackets real uplink bits and the step size that was chosen")
    print(table(rows), flush=True)


def main(words: list[str] | None = None) -> None:
    """Every dataset and budget, or those that are named."""
    known = [word for word in words or () if word in SETTINGS]
    budgets = tuple(float(word) for word in words or () if word not in SETTINGS)
    for name in known or SETTINGS:
        measure(name, budgets or BUDGETS)


if __name__ == "__main__":
    main(sys.argv[1:])
