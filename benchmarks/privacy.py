"""What a server reads from one update, and what it costs that it cannot: bits, accuracy, epsilon.

`python -m benchmarks privacy` prints the tables of docs/privacy.md; `python -m benchmarks.privacy FILE` draws its
figure. Digits, softmax regression.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import table
from ofediq import models, streams
from ofediq.methods import Method, Terms, make
from ofediq.methods.budgets.loudness import length, pack
from ofediq.randomness import Address
from ofediq.simulation import simulate

Matrix = npt.NDArray[np.float64]

CLIENTS, STEPS, SEEDS, VICTIMS = 1000, 300, 3, 100
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
DIGITS = streams.load("digits")
MODEL = models.softmax(64, 10)
TERMS = Terms(0.01, MODEL.dim, CLIENTS, STEPS)
STEP_SIZES = (0.3, 1.0, 3.0)
FIRST = np.asarray(MODEL.initial(0), np.float32)


# What a server reads ---------------------------------------------------------------------------------------------


def gradients(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """The updates of clients with these samples, at the first model."""
    return np.asarray(MODEL.client_gradients(FIRST, DIGITS.x[rows], DIGITS.y[rows]), np.float32)


def heard(method: Method, rows: npt.NDArray[np.int64], step: int) -> npt.NDArray[np.float32]:
    """What the server decodes from the messages of clients with these samples, one by one."""
    updates, address = gradients(rows), Address(0, step, np.arange(len(rows)))
    signal = None
    if method.compress.signal is not None:  # a grid on which these updates are just sent
        signal = pack(np.float32(np.median(length(updates)) / method.participation.spread))  # type: ignore[attr-defined]  # norm-proportional
    return np.asarray(method.compress.apply(updates, address, signal)[0])


def attack(update: npt.NDArray[np.float32]) -> tuple[int, Matrix]:
    """Label and sample from an update: [x; 1] (p - y)^T has rank one, and the label is where p - y is largest."""
    left, _, right = np.linalg.svd(np.asarray(update, np.float64).reshape(65, 10))
    return int(np.abs(right[0]).argmax()), left[:64, 0]


def score(updates: Iterator[tuple[npt.NDArray[np.float32], int]]) -> list[str]:
    """Labels that were right, and the mean correlation of what was rebuilt with the sample."""
    right, alike = 0, []
    for update, row in updates:
        label, sample = attack(update)
        right += label == DIGITS.y[row]
        found = np.corrcoef(sample, DIGITS.x[row].ravel())[0, 1] if sample.any() else 0.0
        alike.append(abs(float(found)))
    return [f"{right} of {VICTIMS}", f"{fmean(alike):.3f}"]


def reconstruction() -> list[list[object]]:
    """One row for each method: what its server sees of one sample."""
    rows = np.random.default_rng(0).choice(len(DIGITS.y), (VICTIMS, 250))
    named = {name: make(name, TERMS) for name in ("fedogd", "ofediq", "ofedgrid", "topk_ef", "secure")}
    made: list[list[object]] = [["what the server sees", "label", "correlation"]]
    for name, method in named.items():
        alone = ((heard(method, some[:1], step)[0], some[0]) for step, some in enumerate(rows, 1))
        made.append([f"{name}: each message", *score(alone)])
    for name, cohort in (("secure", 8), ("secure", 250), ("private", 250)):
        method = make(name, TERMS)
        sums = ((heard(method, some[:cohort], step).sum(0), some[0]) for step, some in enumerate(rows, 1))
        made.append([f"{name}: sums of {cohort}", *score(sums)])
    return made


# What it costs ---------------------------------------------------------------------------------------------------


def accuracies(text: str, budget: float, **promised: Any) -> tuple[list[float], float]:
    """Accuracy of each seed at the best of three step sizes, and the real share of FedOGD's bits."""
    deal = [streams.partition(DIGITS, CLIENTS, STEPS, seed=seed) for seed in range(SEEDS)]
    best: tuple[list[float], float] = ([0.0], 0.0)
    for step_size in STEP_SIZES:
        method = make(text, Terms(budget, MODEL.dim, CLIENTS, STEPS, **promised), step_size=step_size)
        results = [simulate(method, stream, MODEL, seed) for seed, stream in enumerate(deal)]
        found = [float(result.accuracy[-1]) for result in results]
        if fmean(found) > fmean(best[0]):
            best = found, fmean(1 - result.summary()["ccr_wire"] for result in results)
    return best


def costs() -> list[list[object]]:
    """Open and secure methods at equal bits."""
    made: list[list[object]] = [["method", "budget", "real bits", "accuracy"]]
    ceiling, _ = accuracies("fedogd", 1.0)
    made.append(["fedogd", "", "100%", f"{fmean(ceiling):.4f}"])
    for budget in (0.1, 0.01):
        for text in ("ofediq", "ofedgrid", "secure", "private"):
            found, share = accuracies(text, budget, epsilon=4.0)
            made.append([text, f"{100 * budget:g}%", f"{100 * share:.3g}%", f"{fmean(found):.4f}"])
    return made


def promises() -> dict[float, list[float]]:
    """Accuracies at 1 % of the bits, by epsilon."""
    return {epsilon: accuracies("private", 0.01, epsilon=epsilon)[0] for epsilon in EPSILONS}


def draw(path: Path) -> None:
    """The figure of docs/privacy.md."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for text, budget, style in (("fedogd", 1.0, "-"), ("secure", 0.01, "--")):
        label = "FedOGD, all bits, no privacy" if text == "fedogd" else "secure, 1 % of the bits, no noise"
        axes.axhline(fmean(accuracies(text, budget)[0]), color="0.4", linestyle=style, label=label)
    found = promises()
    means = [fmean(values) for values in found.values()]
    axes.plot(list(found), means, marker="o", color="tab:blue", label="private, 1 % of the bits")
    axes.fill_between(
        list(found), [min(v) for v in found.values()], [max(v) for v in found.values()], alpha=0.2
    )
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(found), [f"{one:g}" for one in found])
    axes.set(xlabel="epsilon for each sample, delta = 1e-5", ylabel="accuracy over the run", ylim=(None, 1))
    axes.set_title(f"digits, {CLIENTS:,} clients, {STEPS} steps, {SEEDS} seeds")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Print three tables."""
    print(table(reconstruction()), end="\n\n", flush=True)
    print(table(costs()), end="\n\n", flush=True)
    rows = [[f"{epsilon:g}", f"{fmean(found):.4f}"] for epsilon, found in promises().items()]
    print(table([["epsilon", "accuracy"], *rows]))


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
