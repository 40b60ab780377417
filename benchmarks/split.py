"""What is the best use of a byte: how much OFedDuplex loses to FedOGD, over the share of its bytes that goes down.

`python -m benchmarks split` prints the table; `python -m benchmarks.split FILE` also draws it. 1 % of FedOGD's bytes
on all sockets, Adam at the server.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean

from benchmarks import table
from benchmarks.bytes import CASES, Case, fitted, loss, model_of
from ofediq import methods
from ofediq.simulation import simulate

BUDGET, SEEDS = 0.01, 2
SHARES = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
NAMES = ("mnist", "digits", "room")

Losses = dict[float | None, list[float]]


def losses(case: Case) -> Losses:
    """Points lost with each share, and with the default (None), seed by seed."""
    model = model_of(case)
    found: Losses = {share: [] for share in (*SHARES, None)}
    for seed in range(SEEDS):
        stream = case.stream(seed)
        whole = simulate(methods.fedogd(case.step_size, "authors"), stream, model, seed)
        for share, values in found.items():
            text = "ofedduplex" if share is None else f"ofedduplex(down={share})"
            method = fitted(case, text, BUDGET, stream, model)
            values.append(loss(simulate(method, stream, model, seed), whole))
    return found


def rows(found: dict[str, Losses]) -> list[list[object]]:
    """One row for each share."""
    made: list[list[object]] = [["down", *found]]
    for share in (*SHARES, None):
        cells = [f"{fmean(one[share]):.2f}" for one in found.values()]
        made.append(["default" if share is None else f"{100 * share:g}%", *cells])
    return made


def draw(found: dict[str, Losses], path: Path) -> None:
    """The figure of docs/learning-per-bit.md."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for (name, values), marker in zip(found.items(), "osD", strict=True):
        means = [-fmean(values[share]) for share in SHARES]
        (line,) = axes.plot([100 * share for share in SHARES], means, marker=marker, label=name)
        low, high = ([-pick(values[share]) for share in SHARES] for pick in (max, min))
        axes.fill_between([100 * share for share in SHARES], low, high, alpha=0.15, color=line.get_color())
    axes.axhline(0, color="0.4", label="FedOGD, all bytes")
    axes.set(xlabel="share of the bytes that goes down, per cent", ylabel="accuracy, points above FedOGD")
    axes.set_title(f"OFedDuplex at {100 * BUDGET:g} % of all bytes, 1,000 clients, 300 steps, {SEEDS} seeds")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower center")
    figure.savefig(path, dpi=120)


def measure() -> dict[str, Losses]:
    """All streams."""
    return {case.name: losses(case) for case in CASES if case.name in NAMES}


def main() -> None:
    """Print the table."""
    print(table(rows(measure())))


if __name__ == "__main__":
    everything = measure()
    print(table(rows(everything)))
    draw(everything, Path(sys.argv[1]))
