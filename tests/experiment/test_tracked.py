from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ofediq import methods, models, streams
from ofediq.experiment import Config, track
from ofediq.experiment.tracked import POINTS
from ofediq.report import Comparison
from ofediq.simulation import Result, simulate
from ofediq.tracking.base import Parameter

CONFIG = Config(
    dataset="synthetic", options={"features": 2}, methods=("ofediq",), clients=5, steps=2300, seeds=2
)


@dataclass
class Run:
    name: str
    parameters: dict[str, Parameter]
    points: dict[int, dict[str, float]] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)


class Memory:
    """A tracker that keeps everything."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def start(self, name: str, parameters: Mapping[str, Parameter]) -> None:
        self.runs.append(Run(name, dict(parameters)))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.runs[-1].points[step] = dict(values)

    def finish(self, figures: Mapping[str, float]) -> None:
        self.runs[-1].figures = dict(figures)


@pytest.fixture(scope="module")
def results() -> list[Result]:
    method = methods.ofediq(rate=0.5, levels=3, blocks=1)
    return [
        simulate(
            method, streams.synthetic(clients=5, steps=2300, features=2, seed=seed), models.linear(2), seed
        )
        for seed in (0, 1)
    ]


def tracked(results: list[Result], regret: bool = False) -> list[Run]:
    regrets = {"ofediq": {results[0].seed: results[0].regret()}} if regret else {}
    memory = Memory()
    track(CONFIG, Comparison({"ofediq": results}, {}, regrets), memory, "synthetic-paper")
    return memory.runs


def test_one_run_per_method_and_seed(results: list[Result]) -> None:
    first, second = tracked(results)
    assert (first.name, second.name) == ("synthetic-paper/ofediq-0", "synthetic-paper/ofediq-1")
    assert first.parameters["method"] == "ofediq"
    assert (first.parameters["seed"], second.parameters["seed"]) == (0, 1)
    assert first.parameters["method.compress"] == str(results[0].method.describe()["compress"])
    assert (first.parameters["features"], first.parameters["dim"], first.parameters["budget"]) == (2, 3, 0.01)
    assert "server" not in first.parameters  # not chosen


def test_curves_are_thinned_and_lose_nothing(results: list[Result]) -> None:
    run, result = tracked(results)[0], results[0]
    steps = np.array(list(run.points))
    widths = np.diff(steps, prepend=0)
    assert len(steps) == POINTS
    assert steps[-1] == 2300
    assert set(widths) == {4, 5}  # 2300 / 500, to the nearest step
    senders = np.array([point["senders"] for point in run.points.values()])
    losses = np.array([point["loss"] for point in run.points.values()])
    assert (senders * widths).sum() == pytest.approx(result.senders.sum())
    assert (losses * widths * 5).sum() == pytest.approx(result.loss.sum())
    for step in (steps[0], 2300):
        assert run.points[step]["mse"] == result.mse[step - 1]
        assert run.points[step]["bits_wire"] == result.bits_wire[:step].sum()


def with_curves(result: Result, curve: Callable[[npt.NDArray[np.float64]], object]) -> Result:
    names = ("loss", "error", "present", "senders", "bits_formula", "bits_wire", "bits_downlink")
    changed: dict[str, Any] = {name: curve(getattr(result, name)) for name in names}
    return replace(result, **changed)


def test_a_short_run_keeps_every_step(results: list[Result]) -> None:
    short = with_curves(results[0], lambda curve: curve[:7])
    assert list(tracked([short])[0].points) == [1, 2, 3, 4, 5, 6, 7]


def test_a_step_without_samples_has_no_loss(results: list[Result]) -> None:
    points = tracked([with_curves(results[0], lambda _: np.array([1.0, 0.0]))])[0].points
    assert points[1]["loss"] == 1.0
    assert "loss" not in points[2]


def test_figures_are_the_summary_and_the_regret(results: list[Result]) -> None:
    first, second = tracked(results, regret=True)
    regret = results[0].regret()
    assert first.figures.pop("regret") == pytest.approx(regret.curve[-1])
    shown = results[0].summary().items()
    numbers = {name: one for name, one in shown if one is not None and not isinstance(one, str)}
    assert first.figures == {name: float(value) for name, value in numbers.items()}
    assert first.points[2300]["regret"] == pytest.approx(regret.curve[-1])
    assert "regret" not in second.figures
    assert "regret" not in second.points[2300]
