"""OFedGrid with Adam and with the averaging server at equal uplink bits, and what its messages are.

`python -m benchmarks averages` prints both tables, half an hour of one core; `python -m
benchmarks.averages room pm25` takes some streams, `python -m benchmarks.averages messages` the messages alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from benchmarks import table
from benchmarks.bytes import CASES, Case, model_of, score
from ofediq import methods
from ofediq.methods import Method
from ofediq.methods.budgets.connection import Connection
from ofediq.models import Model
from ofediq.simulation import simulate

SEEDS = 3
STEP_SIZES = (0.01, 0.03)
BUDGETS = {"net": (0.001,), "turning": (0.001, 0.01)}  # of the uplink bits; of the others 0.01 and 0.1 %
SIZES = {"turning": (200, 1500)}  # clients and steps, where they are not those of `benchmarks bytes`
NAMES = ("room", "pm25", "energy", "net", "turning", "mnist", "digits")
MESSAGES = (
    ("mnist", "cnn", (0.01, 0.001, 0.0001)),
    ("room", "mlp", (0.001,)),
    ("digits", "softmax", (0.01, 0.001)),
)


def grid(case: Case, budget: float, model: Model, averages: bool = False, step_size: float = 0.01) -> Method:
    """OFedGrid at a share of the uplink's bits, with Adam or, as by default, with the average of its steps."""
    text, size = f"ofedgrid(averages={averages})", step_size
    return methods.at_budget(
        text, budget, model.dim, case.clients, step_size=size, preset="authors", steps=case.steps
    )


def rows(name: str) -> list[list[object]]:
    """Of one stream: mean scores with both servers and both step sizes, a row for each budget."""
    case = next(one for one in CASES if one.name == name)
    clients, steps = SIZES.get(name, (case.clients, case.steps))
    case, made = replace(case, clients=clients, steps=steps), list[list[object]]()
    model, rules = model_of(case), [(one, size) for size in STEP_SIZES for one in (False, True)]
    for budget in BUDGETS.get(name, (0.0001, 0.001)):
        found = [
            fmean(
                score(simulate(grid(case, budget, model, *rule), case.stream(seed), model, seed))
                for seed in range(SEEDS)
            )
            for rule in rules
        ]
        made.append([name, f"{100 * budget:g}%", *(f"{one:.4g}" for one in found)])
    return made


def messages() -> list[list[object]]:
    """Per step: senders, bytes of a payload, of all, beside them, and of passes if they are announced."""
    made: list[list[object]] = [["stream", "budget", "senders", "each", "payloads", "beside them", "passes"]]
    link = Connection()
    for name, kind, budgets in MESSAGES:
        case = Case(name, name, kind)
        model, stream = model_of(case), case.stream(0)
        for budget in budgets:
            method = grid(case, budget, model)
            result = simulate(method, stream, model, 0)
            senders = float(result.senders.sum()) / case.steps
            payloads = float(result.bits_wire.sum()) / 8 / case.steps
            beside, silent = senders * link.update_bytes(method, model.dim), case.clients - senders
            cells = (f"{senders:.0f}", f"{payloads / senders:.0f}", f"{payloads:.0f}", f"{beside:.0f}")
            made.append([name, f"{100 * budget:g}%", *cells, f"{silent * link.pass_bytes():.0f}"])
    return made


def show(names: Sequence[str]) -> None:
    """The first table of some streams."""
    columns = (f"{server} {size:g}" for size in STEP_SIZES for server in ("Adam", "averaged"))
    print(table([["stream", "budget", *columns], *(row for name in names for row in rows(name))]))


def main() -> None:
    """Both tables."""
    show(NAMES)
    print(table(messages()))


if __name__ == "__main__":
    if sys.argv[1:] == ["messages"]:
        print(table(messages()))
    else:
        show(sys.argv[1:] or NAMES)
