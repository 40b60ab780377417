import dataclasses
import json
import statistics

import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.report import Comparison, method_rows, missing_bounds, regret_rows, summarize
from ofediq.simulation import Result

PROMISED = {"accuracy", "loss", "bits_formula", "bits_wire", "ccr", "senders_per_step", "seconds"}


def shortened(result: Result, steps: int) -> Result:
    """`result` as if it had been interrupted after `steps`."""
    arrays = ("loss", "error", "present", "senders", "bits_formula", "bits_wire", "bits_downlink")
    cut = {name: getattr(result, name)[:steps] for name in arrays}
    return dataclasses.replace(result, stream=result.stream.head(steps), **cut)


def test_every_number_is_mean_spread_and_values(comparison: Comparison) -> None:
    summary = summarize(comparison)
    one = summary["methods"]["ofediq"]
    assert set(one) >= PROMISED | {f"{name}_std" for name in PROMISED}
    last = [float(result.accuracy[-1]) for result in comparison.runs["ofediq"]]
    assert one["per_seed"]["accuracy"] == last
    assert one["accuracy"] == pytest.approx(sum(last) / 2)
    assert one["accuracy_std"] == pytest.approx(statistics.stdev(last))
    assert (one["name"], one["seeds"], one["steps"]) == ("OFedIQ", [3, 4], 12)
    assert (one["interrupted"], one["diverged"]) == (False, False)


def test_the_summary_is_json(comparison: Comparison) -> None:
    summary = summarize(comparison)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_naive_references_are_means_over_seeds(comparison: Comparison) -> None:
    expected = np.mean([curve[-1] for curve in comparison.naive["majority"]])
    assert summarize(comparison)["naive"]["majority"] == pytest.approx(expected)


def test_regret_comes_with_its_bound_or_the_reason(comparison: Comparison) -> None:
    methods = summarize(comparison)["methods"]
    losses = [result.loss.sum() for result in comparison.runs["fedogd"]]
    best = [comparison.regrets["fedogd"][seed].comparator.losses.sum() for seed in (3, 4)]
    assert methods["fedogd"]["regret"] == pytest.approx(np.mean(losses) - np.mean(best))
    assert methods["fedogd"]["regret"] < methods["fedogd"]["regret_bound"]
    assert methods["fedogd"]["regret_bound_missing"] is None
    assert methods["ofediq"]["regret_bound"] is None
    assert methods["ofediq"]["regret_bound_missing"].startswith("`step_size` must be below")
    assert not methods["fedogd"]["regret_is_estimate"]


def test_one_seed_has_no_spread(comparison: Comparison) -> None:
    single = Comparison({"fedogd": comparison.runs["fedogd"][:1]})
    one = summarize(single)["methods"]["fedogd"]
    assert one["accuracy_std"] is None
    assert "regret" not in one


def test_a_diverged_loss_is_null(comparison: Comparison) -> None:
    first, second = comparison.runs["fedogd"]
    gone = dataclasses.replace(first, loss=np.full_like(first.loss, np.inf))
    one = summarize(Comparison({"fedogd": [gone, second]}))["methods"]["fedogd"]
    assert (one["loss"], one["loss_std"], one["diverged"]) == (None, None, True)
    assert one["per_seed"]["loss"][0] is None


def test_an_interrupted_seed_is_marked_but_not_averaged(comparison: Comparison) -> None:
    first, second = comparison.runs["fedogd"]
    mixed = summarize(Comparison({"fedogd": [first, shortened(second, 5)]}))["methods"]["fedogd"]
    assert (mixed["interrupted"], mixed["seeds"], mixed["steps"]) == (True, [3], 12)
    assert mixed["accuracy"] == first.accuracy[-1]


def test_a_method_that_only_began_is_shown_as_far_as_it_came(comparison: Comparison) -> None:
    partial = Comparison({"fedogd": [shortened(comparison.runs["fedogd"][0], 5)], "local": []}, steps=12)
    summary = summarize(partial)
    assert list(summary["methods"]) == ["fedogd"]
    assert (summary["methods"]["fedogd"]["interrupted"], summary["methods"]["fedogd"]["steps"]) == (True, 5)
    assert method_rows(summary).rows[0][0] == "FedOGD, 5 steps"


def test_the_table_shows_methods_and_what_they_must_beat(comparison: Comparison) -> None:
    summary = summarize(comparison)
    header, rows = method_rows(summary)
    assert all(len(row) == len(header) for row in rows)
    assert [row[0] for row in rows] == [
        "FedOGD",
        "OFedIQ",
        "majority class",
        "best constant",
        "own majority",
        "last value",
    ]
    one = summary["methods"]["fedogd"]
    assert rows[0][1] == f"{100 * one['accuracy']:.1f}% ± {100 * one['accuracy_std']:.1f}"
    best = 1 - max(summary["naive"]["own majority"], summary["naive"]["last"])
    assert one["skill"] == pytest.approx(1 - (1 - one["accuracy"]) / best)
    assert rows[0][2] == f"{100 * one['skill']:+.1f}%"
    assert rows[0][3] == f"{32 * 15 * 10 * 12 / 1e3:.3g} kbit"


def test_the_regret_table_and_its_reasons(comparison: Comparison) -> None:
    summary = summarize(comparison)
    header, rows = regret_rows(summary)
    assert header[2] == "regret"
    assert [row[0] for row in rows] == ["FedOGD", "OFedIQ"]
    assert rows[1][3] == "none"
    (reason,) = missing_bounds(summary)
    assert reason.startswith("No bound for OFedIQ: `step_size` must be below p_min / (4 beta L R)")


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(InputError, match=r"^`runs` must hold at least one result, got none$"):
        Comparison({"fedogd": []})


def test_who_does_worse_on_as_many_bits_is_named(comparison: Comparison) -> None:
    """Errors and bits are made up; only federated methods count, and only who sent no more."""
    model = comparison.runs["ofediq"][0]

    def spent(error: float, bits: float) -> list[Result]:
        share = np.full(model.steps, error) * model.present
        return [dataclasses.replace(model, error=share, bits_wire=np.full(model.steps, bits))]

    found = Comparison(
        {"dear": spent(0.1, 9.0), "noisy": spent(0.3, 1.0), "even": spent(0.2, 1.05)}
    ).outdone()
    assert list(found) == ["noisy"]
    assert (found["noisy"][0], round(found["noisy"][1], 6)) == ("even", 1.5)
    assert Comparison({"noisy": spent(0.21, 1.0), "even": spent(0.2, 1.0)}).outdone() == {}
    assert Comparison({"noisy": spent(float("nan"), 1.0), "even": spent(0.2, 1.0)}).outdone() == {}
