from __future__ import annotations

from typing import Any

import pytest

from ofediq.reproduction import PANELS, check_claims


def panel(metric: str, **values: float) -> dict[str, Any]:
    methods = {name: {"value": value, "per_seed": [value, value]} for name, value in values.items()}
    return {"dataset": "data", "metric": metric, "methods": methods}


def bound_row(theorem: int, regret: float, bound: float | None) -> dict[str, Any]:
    return {"theorem": theorem, "regret": regret, "bound": bound, "method": "any", "seed": 0}


def authors_results() -> dict[str, Any]:
    """The authors' own values: every claim of theirs must hold on them."""
    panels = {name: panel(one.problem.metric, **one.authors) for name, one in PANELS.items() if one.authors}
    convex = {
        "bounds": [bound_row(1, 10.0, 20.0), bound_row(2, 15.0, 40.0)],
        "growth": {"FedOGD": {"slope": 0.52}, "OFedIQ": {"slope": 0.45}},
    }
    return {"panels": panels, "convex": convex}


def verdicts(results: dict[str, Any]) -> dict[str, bool | None]:
    return {claim.name: claim.holds for claim in check_claims(results)}


def change(results: dict[str, Any], name: str, method: str, value: float | None) -> dict[str, Any]:
    results["panels"][name]["methods"][method] = {"value": value, "per_seed": [value, value]}
    return results


def test_all_claims_hold_on_the_authors_own_values() -> None:
    assert set(verdicts(authors_results()).values()) == {True}


@pytest.mark.parametrize(
    ("claim", "name", "method", "value"),
    [
        ("period", "fig2", "OFedIQ L=8", 0.99),
        ("quantizer", "fig3", "OFedIQ s=7 b=1", 0.9690),
        ("close", "fig4e", "OFedIQ", 0.9841 - 0.0251),
        ("close", "fig4d", "OFedIQ", 0.00257 * 1.051),
        ("beats", "fig4f", "OFedAvg", 0.02),
        ("beats", "fig4b", "FedOMD", 0.97),
        ("fedomd", "fig4b", "FedOMD", 0.95),
        ("fedomd", "fig4d", "FedOMD", 0.003),
    ],
)
def test_a_claim_fails_when_the_numbers_say_so(claim: str, name: str, method: str, value: float) -> None:
    assert verdicts(change(authors_results(), name, method, value))[claim] is False


def test_a_tie_is_no_win() -> None:
    assert verdicts(change(authors_results(), "fig3", "OFedAvg", 0.9686))["quantizer"] is False


@pytest.mark.parametrize(
    "row", [bound_row(1, 21.0, 20.0), bound_row(1, 1.0, None)], ids=["above", "no bound"]
)
def test_theorem_1_fails_above_its_bound_or_without_one(row: dict[str, Any]) -> None:
    results = authors_results()
    results["convex"]["bounds"].append(row)
    assert verdicts(results)["theorem1"] is False
    assert verdicts(results)["theorem2"] is True


@pytest.mark.parametrize("slope", [0.61, 0.39, 1.0, None])
def test_growth_fails_off_the_root(slope: float | None) -> None:
    results = authors_results()
    results["convex"]["growth"]["FedOGD"]["slope"] = slope
    assert verdicts(results)["growth"] is False


def test_what_was_not_run_is_not_decided() -> None:
    assert set(verdicts({"panels": {}, "convex": None}).values()) == {None}


def test_a_method_that_diverged_leaves_its_claims_open() -> None:
    assert verdicts(change(authors_results(), "fig4b", "OFedAvg", None))["beats"] is None


def test_a_verdict_names_the_datasets_it_fails_on() -> None:
    results = change(authors_results(), "fig4f", "OFedAvg", 0.02)
    results["panels"]["fig4f"]["dataset"] = "energy"
    sentence = next(claim.sentence for claim in check_claims(results) if claim.name == "beats")
    assert sentence.endswith("not on energy (2 seeds).")
