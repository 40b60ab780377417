"""The paper's claims, checked against numbers. Every check can fail.

A claim is a function from results (see `results.collect`) to `Claim`; it knows no runs and no files. Means over
seeds decide; the numbers also say whether every single seed agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

CLOSE_POINTS, CLOSE_SHARE = 2.5, 0.05
POOR_POINTS, POOR_FACTOR = 10.0, 1.5
GROWTH, GROWTH_TOLERANCE = 0.5, 0.1
AT_99 = ("fig4b", "fig4d", "fig4e", "fig4f")
"""The panels at a communication-cost reduction of 99 %, one per dataset."""

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """One claim and its verdict.

    Attributes:
        name: short.
        statement: what the paper says.
        rule: what we check.
        holds: whether it holds here; None if its runs are missing.
        sentence: the verdict in words.
        numbers: what the verdict rests on.
    """

    name: str
    statement: str
    rule: str
    holds: bool | None
    sentence: str
    numbers: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def check_claims(results: Results) -> list[Claim]:
    """All claims, in the order of the paper's argument."""
    return [check(results) for check in _CHECKS]


def _period(results: Results) -> Claim:
    statement = "A transmission period of L = 1 is best at equal bits."
    rule = "fig2: the final accuracy of L = 1 is above that of L = 4 and of L = 8"
    return _wins("period", statement, rule, results, ("fig2",), "OFedIQ", ("OFedIQ L=4", "OFedIQ L=8"))


def _quantizer(results: Results) -> Claim:
    statement = "The optimised quantiser beats b = 1 and no quantiser."
    rule = "fig3: the final accuracy of OFedIQ(1, .086, 3, 777) is above that of (1, .086, 7, 1) and OFedAvg(.01)"
    return _wins("quantizer", statement, rule, results, ("fig3",), "OFedIQ", ("OFedIQ s=7 b=1", "OFedAvg"))


def _beats(results: Results) -> Claim:
    statement = "OFedIQ at 99 % beats OFedAvg and FedOMD on every dataset."
    rule = "fig4b, d, e, f: OFedIQ ends with the higher accuracy or the lower MSE"
    return _wins("beats", statement, rule, results, AT_99, "OFedIQ", ("OFedAvg", "FedOMD"))


def _close(results: Results) -> Claim:
    """OFedIQ beside FedOGD, dataset by dataset."""
    return _gaps(
        "close",
        "OFedIQ at 99 % comes close to FedOGD on every dataset.",
        f"fig4b, d, e, f: at most {CLOSE_POINTS:g} points of accuracy or {CLOSE_SHARE:.0%} of MSE worse than FedOGD",
        results,
        "OFedIQ",
        lambda points, factor: points <= CLOSE_POINTS if points is not None else factor <= 1 + CLOSE_SHARE,
    )


def _fedomd(results: Results) -> Claim:
    """FedOMD beside FedOGD, dataset by dataset."""
    return _gaps(
        "fedomd",
        "FedOMD is poor at 99 % on every dataset.",
        f"fig4b, d, e, f: at least {POOR_POINTS:g} points of accuracy below FedOGD, or {POOR_FACTOR:g} times its MSE",
        results,
        "FedOMD",
        lambda points, factor: points >= POOR_POINTS if points is not None else factor >= POOR_FACTOR,
    )


def _theorem(number: int) -> Callable[[Results], Claim]:
    who = "FedOGD and OFedAvg" if number == 1 else "OFedIQ"

    def check(results: Results) -> Claim:
        statement = f"The regret of {who} stays under the bound of Theorem {number}."
        rule = "softmax on digits, step size within the theorem's condition: regret at T <= bound, for every seed"
        convex = results.get("convex")
        rows = [row for row in convex["bounds"] if row["theorem"] == number] if convex else []
        if not rows:
            return _missing(f"theorem{number}", statement, rule)
        holds = all(row["bound"] is not None and row["regret"] <= row["bound"] for row in rows)
        shares = [row["regret"] / row["bound"] for row in rows if row["bound"]]
        largest = f"at most {max(shares):.1%} of the bound" if shares else "no bound applies"
        sentence = f"{_verdict(holds)}: {len(rows)} runs, the regret is {largest}."
        return Claim(f"theorem{number}", statement, rule, holds, sentence, {"runs": rows})

    return check


def _growth(results: Results) -> Claim:
    statement = "The regret grows like the root of T at the step size of Corollary 1."
    rule = f"slope of log regret over log T within {GROWTH} +- {GROWTH_TOLERANCE}, for each method"
    convex = results.get("convex")
    if not convex or not convex["growth"]:
        return _missing("growth", statement, rule)
    slopes = {label: row["slope"] for label, row in convex["growth"].items()}
    holds = all(slope is not None and abs(slope - GROWTH) <= GROWTH_TOLERANCE for slope in slopes.values())
    shown = ", ".join(
        f"{label} {'none' if slope is None else format(slope, '.3f')}" for label, slope in slopes.items()
    )
    return Claim("growth", statement, rule, holds, f"{_verdict(holds)}: slopes {shown}.", convex["growth"])


_CHECKS = (_period, _quantizer, _close, _beats, _fedomd, _theorem(1), _theorem(2), _growth)


def _wins(
    name: str,
    statement: str,
    rule: str,
    results: Results,
    panels: Sequence[str],
    winner: str,
    losers: Sequence[str],
) -> Claim:
    """Whether `winner` ends better than all `losers` in all panels."""
    numbers: dict[str, Any] = {}
    for panel in panels:
        shown = results["panels"].get(panel)
        if not _complete(shown, (winner, *losers)):
            return _missing(name, statement, rule)
        methods, sign = shown["methods"], _sign(shown["metric"])
        ours = methods[winner]
        numbers[panel] = {
            "dataset": shown["dataset"],
            "metric": shown["metric"],
            winner: ours["value"],
            **{loser: methods[loser]["value"] for loser in losers},
            "wins": all(sign * (ours["value"] - methods[loser]["value"]) > 0 for loser in losers),
            "in_every_seed": all(
                sign * (mine - theirs) > 0
                for loser in losers
                for mine, theirs in zip(ours["per_seed"], methods[loser]["per_seed"], strict=False)
            ),
            "seeds": min(len(methods[label]["per_seed"]) for label in (winner, *losers)),
        }
    return _by_dataset(name, statement, rule, numbers, "wins")


def _gaps(
    name: str,
    statement: str,
    rule: str,
    results: Results,
    method: str,
    passes: Callable[[float | None, float], bool],
) -> Claim:
    """How far `method` ends behind FedOGD: points of accuracy, or a factor of MSE."""
    numbers: dict[str, Any] = {}
    for panel in AT_99:
        shown = results["panels"].get(panel)
        if not _complete(shown, ("FedOGD", method)):
            return _missing(name, statement, rule)
        best, other = (shown["methods"][label]["value"] for label in ("FedOGD", method))
        points = 100 * (best - other) if shown["metric"] == "accuracy" else None
        factor = other / best if best else float("inf")
        numbers[panel] = {
            "dataset": shown["dataset"],
            "metric": shown["metric"],
            "FedOGD": best,
            method: other,
            "points_below": points,
            "factor": factor,
            "passes": passes(points, factor),
            "seeds": min(len(shown["methods"][label]["per_seed"]) for label in ("FedOGD", method)),
        }
    return _by_dataset(name, statement, rule, numbers, "passes")


def _by_dataset(name: str, statement: str, rule: str, numbers: dict[str, Any], key: str) -> Claim:
    held, failed = (
        _datasets(row for row in numbers.values() if row[key] is wanted) for wanted in (True, False)
    )
    where = [f"on {held}"] * bool(held) + [f"not on {failed}"] * bool(failed)
    return Claim(name, statement, rule, not failed, f"{_verdict(not failed)}: {', '.join(where)}.", numbers)


def _datasets(rows: Iterable[Mapping[str, Any]]) -> str:
    """The datasets of some rows with the number of seeds behind each."""
    return ", ".join(f"{row['dataset']} ({row['seeds']} seed{'s' * (row['seeds'] > 1)})" for row in rows)


def _complete(panel: Mapping[str, Any] | None, labels: Sequence[str]) -> bool:
    """Whether every method has a value; one that diverged has none, and the claim about it cannot be decided."""
    return panel is not None and all(
        label in panel["methods"] and panel["methods"][label]["value"] is not None for label in labels
    )


def _missing(name: str, statement: str, rule: str) -> Claim:
    return Claim(name, statement, rule, None, "Not decided: its runs are missing.", {})


def _sign(metric: str) -> int:
    return 1 if metric == "accuracy" else -1


def _verdict(holds: bool) -> str:
    return "Holds here" if holds else "Does not hold here"
