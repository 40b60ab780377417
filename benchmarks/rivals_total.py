"""OFedDuplex and its rivals at equal bytes on all sockets, each with a step size of its own.

Most rivals compress what goes up and broadcast whole models. Here each has two ways to come down to the budget: the
whole model after every `L` steps, L as small as half of the bytes pay for; or OFedDuplex's windows and broadcasts, on
which it does not depend who sends what. Rivals that compress both ways run as they are. Step sizes and the way down
are chosen on seed 1, scores are means over the other seeds. `python -m benchmarks.rivals_total digits 0.01 [METHOD
...]` takes one stream (digits, mnist, room) and share.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from benchmarks import table
from benchmarks.bytes import CASES, Case, model_of, score, spent
from ofediq import methods
from ofediq.errors import InputError
from ofediq.methods import Method
from ofediq.methods.budgets.connection import Connection, fedogd_bytes
from ofediq.methods.budgets.steered import Steered
from ofediq.methods.budgets.steering import Budget
from ofediq.simulation import Result, simulate

TUNED_ON, SEEDS = 1, (0, 2)
SIZES = {"authors": (0.004, 0.016, 0.064), "paper": (0.064, 0.25, 1.0)}
CASES_HERE = {case.name: case for case in CASES if case.name in ("digits", "mnist", "room")}
OURS = ("ofedduplex", "ofedduplex(averages=False)")
UPWARDS = (
    *("ofedgrid", "intsgd", "ocs", "ocs(codec=eden)", "eden", "topk_ef", "ef21_sgdm", "cafe", "diana"),
    *("majority_vote", "send_samples", "ofediq", "ofedavg"),
)
BOTH_WAYS = ("ftrl_ef", "seeds_scalars", "lasg", "fedomd")
EVERYONE = ("fedogd", *OURS, *UPWARDS, *BOTH_WAYS)
DESCENT = ("topk_ef", "ef21_sgdm", "majority_vote", "ftrl_ef", "seeds_scalars", "lasg", "fedomd")
"""Those that are tried with plain descent, too: their memories and signs do not go well with Adam."""

Way = tuple[str, Method]


class Stage:
    """One stream and share of all bytes."""

    def __init__(self, case: Case, share: float) -> None:
        self.case, self.share, self.model = case, share, model_of(case)
        self.streams = {seed: case.stream(seed) for seed in (TUNED_ON, *SEEDS)}

    def at(self, text: str, share: float, size: float, preset: str, counted: str = "total") -> Method:
        """A method by its name within a share of FedOGD's bytes, up or in all."""
        stream = self.streams[TUNED_ON]
        return methods.at_budget(
            text,
            share,
            self.model.dim,
            stream.clients,
            step_size=size,
            preset=preset,
            steps=stream.steps,
            budget_of=counted,  # type: ignore[arg-type]  # one of three words
            features=math.prod(stream.x.shape[1:]),
        )

    def run(self, method: Method, seed: int) -> Result:
        """The method on the stream of a seed."""
        return simulate(method, self.streams[seed], self.model, seed)

    def ways(self, text: str, size: float, preset: str) -> Iterator[Way]:
        """The method in every form that fits the budget, by what goes down."""
        if text not in UPWARDS:
            yield "its own", self.at(text, self.share, size, preset)
            return
        for name, way in (("whole models", self.whole), ("as OFedDuplex", self.ours)):
            try:
                yield name, way(partial(self.at, text, size=size, preset=preset, counted="uplink"))
            except InputError as error:
                print(f"  {text}, {name}: {error}", file=sys.stderr)

    def whole(self, at: partial[Method]) -> Method:
        """Whole models, with what goes along, after every L steps; the rest of the bytes goes up."""
        plain = at(share=1.0)
        if plain.topology != "federated":
            raise InputError("`method` must learn at the clients, or it has no windows")
        opening = Connection().broadcast_bytes(plain) + 4.0 * len(plain.server.scalars)
        each = self.share * fedogd_bytes(self.model.dim)
        down = opening + 4.0 * self.model.dim * (1 + len(plain.server.vectors))
        period = math.ceil(2 * down / each)
        return self.fitted(at, each - down / period, replace(plain, period=period))

    def ours(self, at: partial[Method]) -> Method:
        """OFedDuplex's windows and broadcasts, and its bytes up."""
        if (plain := at(share=1.0)).server.vectors or plain.topology != "federated":
            raise InputError("`method` must broadcast nothing but the model")
        duplex = self.at("ofedduplex(walks=False)", self.share, 0.01, "authors")
        up = duplex.server.budget.bits_per_step / 8 / self.streams[TUNED_ON].clients  # type: ignore[attr-defined]
        return self.fitted(at, up, duplex)

    def fitted(self, at: partial[Method], up: float, rhythm: Method) -> Method:
        """`up` bytes per client and step, sent and answered as `rhythm` has it."""
        share = up / (fedogd_bytes(self.model.dim) / 2)
        steered = isinstance(getattr(at(share=1.0).server, "budget", None), Budget)
        made = at(share=min(1.0, share * (1 if steered else rhythm.mean_window)))
        if steered:
            server: Steered = made.server  # type: ignore[assignment]  # what a budget steers
            budget = replace(server.budget, windows=rhythm.windows)  # type: ignore[type-var]
            made = replace(made, server=replace(server, budget=budget))
        return replace(made, broadcast=rhythm.broadcast, windows=rhythm.windows, period=rhythm.period)

    def row(self, text: str) -> list[object]:
        """The best of all step sizes, servers and ways on one seed, then its scores on the others."""
        better = -1 if self.model.task == "classification" else 1
        tried: list[tuple[float, str, str, float, Method]] = []
        for preset in ("authors", "paper") if text in DESCENT else ("authors",):
            for size in SIZES[preset]:
                for way, method in self.ways(text, size, preset):
                    found = score(self.run(method, TUNED_ON))
                    if math.isfinite(found):
                        tried.append((better * found, preset, way, size, method))
        if not tried:
            return [text, "", "cannot", "", "", ""]
        best = min(tried, key=lambda one: one[0])
        results = [self.run(best[4], seed) for seed in SEEDS]
        share, value = fmean(map(spent, results)), fmean(map(score, results))
        server = {"authors": "Adam", "paper": "descent"}[best[1]]
        return [text, server, best[2], f"{best[3]:g}", f"{100 * share:.3g} %", f"{value:.4g}"]


def measure(name: str, share: float, texts: Sequence[str]) -> None:
    """The table of one stream and share, row by row as they come."""
    stage = Stage(CASES_HERE[name], share)
    rows: list[list[object]] = [["method", "server", "down", "step size", "spent", "score"]]
    for text in texts:
        try:
            rows.append(stage.row(text))
        except InputError as error:
            rows.append([text, "", "cannot", "", "", ""])
            print(f"  {text}: {error}", file=sys.stderr)
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    print(f"{name}, {stage.model.dim} parameters, {100 * share:g} % of all bytes")
    print(table(rows), flush=True)


def main(words: list[str] | None = None) -> None:
    """Every stream at both shares with every method, or those that are named."""
    names = [word for word in words or () if word in CASES_HERE]
    texts = [word for word in words or () if word in EVERYONE]
    shares = [float(word) for word in words or () if word not in (*names, *texts)]
    for name in names or CASES_HERE:
        for share in shares or (0.01, 0.001):
            measure(name, share, texts or EVERYONE)


if __name__ == "__main__":
    main(sys.argv[1:])
