"""OFedGrid and its rivals at equal real uplink bits, each with a step size tuned on the first part of the stream.

`python -m benchmarks.rivals digits` (or pm25, mnist) runs one dataset. What is done is kept in `runs/`, so that the
command can be stopped and called again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks import table
from ofediq.cli.progress import Reporter
from ofediq.experiment.config import Config
from ofediq.experiment.menagerie import Effort, zoo
from ofediq.report import value_text

BUDGETS = (0.001, 0.0001, 0.01)
SEVERAL = Effort((0.004, 0.016, 0.064, 0.25, 1.0), 0.2)
SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {"model": "softmax", "clients": 100, "steps": 300, "seeds": 3},
    "pm25": {"model": "mlp", "clients": 100, "steps": 300, "seeds": 3},
    "mnist": {"model": "softmax", "clients": 1000, "steps": 300, "seeds": 1},
}
GRIDS = ("ofedgrid", "ofedgrid(spread=1)", "ofedgrid(spread=30)", "intsgd", "ocs", "ocs(codec=eden)")
WITH_ADAM = ("fedogd", *GRIDS, "eden", "topk_ef", "send_samples", "ofediq", "ef21_sgdm", "cafe", "diana")
PLAIN = ("topk_ef", "ftrl_ef", "seeds_scalars", "majority_vote", "lasg")


def texts() -> list[str]:
    """The methods: with Adam at the server where they take it, and plain descent where they do not."""
    adam = [f"{one[:-1]}, preset=authors)" if "(" in one else f"{one}(preset=authors)" for one in WITH_ADAM]
    return [*adam, *PLAIN]


def measure(name: str) -> dict[float, dict[str, Any]]:
    """The rows of each budget, by the method's text."""
    found = {}
    for budget in BUDGETS:
        config = Config(
            dataset=name,
            methods=tuple(texts()),
            budget=budget,
            preset="paper",
            regret=False,
            **SETTINGS[name],
        )
        folder = Path("runs") / f"rivals-{name}-{budget:g}"
        with Reporter() as reporter:
            part = zoo(config, ("random",), folder, reporter, effort=SEVERAL)["parts"]["random"]
        found[budget] = part["rows"]
        metric = part["metric"]
    show(name, found, metric)
    return found


def show(name: str, found: dict[float, dict[str, Any]], metric: str) -> None:
    """One row per method: value, real bits and step size at each budget."""
    budgets = sorted(found, reverse=True)
    rows: list[list[object]] = [["method", *(f"{100 * one:g} %" for one in budgets)]]
    for text in texts():
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


def main(names: list[str] | None = None) -> None:
    """Every dataset, or those that are named."""
    for name in names or SETTINGS:
        measure(name)


if __name__ == "__main__":
    main(sys.argv[1:])
