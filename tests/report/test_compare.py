from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ofediq.errors import InputError
from ofediq.report.figures.canvas import new_figure
from ofediq.report.figures.curves import bits_panel, compare, time_panel
from ofediq.report.figures.regret import bound_panel, cost_panel, regrets, under_bounds
from ofediq.report.figures.style import looks

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    curve: Floats
    bits_wire: Floats

    @property
    def steps(self) -> int:
        return len(self.curve)


@dataclass(frozen=True)
class Measured:
    curve: Floats
    bound: Floats | None
    idle: Floats = field(default_factory=lambda: np.ones(3))


def run(*curve: float, bits: float = 100.0) -> Run:
    return Run(np.array(curve), np.full(len(curve), bits))


def test_every_method_has_its_own_look() -> None:
    names = [
        "FedOGD",
        "OFedIQ",
        "OFedAvg",
        "FedOMD",
        "OGD",
        "Local",
        "OFedGrid",
        "OFedIQ-norm",
        "mine",
        "yours",
    ]
    chosen = looks(names)
    assert len({look.colour for look in chosen.values()}) == len(names)
    assert len({look.marker for look in chosen.values()}) == len(names)
    assert looks(reversed(names))["FedOMD"] == chosen["FedOMD"]


def test_the_line_is_the_mean_and_the_band_the_range_of_the_seeds() -> None:
    _, (axes,) = new_figure()
    ends = time_panel(axes, {"OFedIQ": [run(0.2, 0.4), run(0.4, 0.8)]}, "accuracy")
    (line,) = axes.get_lines()
    assert np.asarray(line.get_xdata()).tolist() == [1, 2]
    assert np.asarray(line.get_ydata()) == pytest.approx([0.3, 0.6])
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices
    assert {0.2, 0.4, 0.8} <= set(np.asarray(heights)[:, 1].tolist())
    assert (ends[0].text, ends[0].x) == ("OFedIQ 60.0%", 2.0)


def test_bits_add_up_on_a_logarithmic_axis() -> None:
    _, (axes,) = new_figure()
    bits_panel(axes, {"OFedAvg": [run(0.1, 0.2, 0.3, bits=50), run(0.1, 0.2, 0.3, bits=150)]}, "accuracy")
    assert axes.get_xscale() == "log"
    assert np.asarray(axes.get_lines()[0].get_xdata()).tolist() == [100, 200, 300]


def test_steps_before_the_first_bit_are_left_out_and_silence_is_a_horizontal_line() -> None:
    _, (axes,) = new_figure()
    late = Run(np.array([0.1, 0.2, 0.3]), np.array([0.0, 64.0, 0.0]))
    ends = bits_panel(axes, {"FedOMD": [late], "Local": [run(0.1, 0.5, bits=0)]}, "accuracy")
    moving, silent = axes.get_lines()
    assert np.asarray(moving.get_xdata()).tolist() == [64, 64]
    assert set(np.asarray(silent.get_ydata()).tolist()) == {0.5}
    assert ends[1].text == "Local, no bits"


def test_an_interrupted_seed_does_not_shorten_the_others() -> None:
    figure = compare({"FedOGD": [run(0.1, 0.2, 0.3), run(0.5)]}, "accuracy")
    assert np.asarray(figure.axes[0].get_lines()[0].get_ydata()).tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    ("values", "scale"), [((0.5, 0.01), "log"), ((0.5, 0.4), "linear"), ((0.0, 0.0), "linear")]
)
def test_the_scale_of_an_mse_depends_on_its_span(values: tuple[float, float], scale: str) -> None:
    left, right = compare({"FedOGD": [run(*values)]}, "mse").axes
    assert (left.get_yscale(), right.get_yscale()) == (scale, scale)


def test_accuracy_never_shows_more_than_all() -> None:
    low, high = compare({"FedOGD": [run(0.0, 1.0)]}, "accuracy").axes[0].get_ylim()
    assert (low, high) == (0.0, 1.0)


def test_naive_answers_are_named_and_drawn_in_both_panels() -> None:
    figure = compare({"FedOGD": [run(0.5, 0.4)]}, "mse", naive={"last": np.array([0.3, 0.2])})
    left, right = figure.axes
    assert "last value 0.2" in [text.get_text() for text in left.texts]
    assert set(np.asarray(right.get_lines()[1].get_ydata()).tolist()) == {0.2}


def test_a_diverged_run_is_said_to_be_one(tmp_path: Path) -> None:
    gone = Run(np.array([0.5, np.inf, np.nan]), np.full(3, 10.0))
    figure = compare({"FedOGD": [gone], "OFedIQ": [run(0.5, 0.4, 0.3)]}, "mse", tmp_path / "figure.png")
    assert "FedOGD diverged" in [text.get_text() for text in figure.axes[0].texts]


def test_one_step_can_be_drawn(tmp_path: Path) -> None:
    compare({"FedOGD": [run(0.5)]}, "accuracy", tmp_path / "figure.png", naive={"constant": np.array([0.5])})
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_equal_figures_are_equal_files(tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        compare({"FedOGD": [run(0.5, 0.6)]}, "accuracy", tmp_path / name, title="digits")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_bad_arguments_are_one_sentence(tmp_path: Path) -> None:
    runs = {"FedOGD": [run(0.5)]}
    with pytest.raises(InputError, match=r"^`metric` must be one of accuracy, mse, got 'f1'$"):
        compare(runs, "f1")
    with pytest.raises(InputError, match=r"^`curves` must hold at least one method, got none$"):
        compare({}, "mse")
    with pytest.raises(InputError, match=r"^`curves` must hold at least one run of each method"):
        compare({"FedOGD": []}, "mse")
    with pytest.raises(InputError, match=r"^`path` must end in .png, .pdf or .svg, got '.*figure.gif'$"):
        compare(runs, "mse", tmp_path / "figure.gif")
    with pytest.raises(InputError, match=r"^`path` must be writable, got "):
        compare(runs, "mse", tmp_path / "nowhere" / "figure.png")
    with pytest.raises(InputError, match=r"^`curves` must hold at least one regret, got none$"):
        regrets({"FedOGD": []})


def test_regret_and_bound_are_drawn_per_step(tmp_path: Path) -> None:
    _, (axes,) = new_figure()
    steps = np.arange(1.0, 5.0)
    measured = {"FedOGD": [Measured(2 * steps, 10 * steps)], "OFedAvg": [Measured(3 * steps, None)]}
    ends = bound_panel(axes, measured)
    heights = [set(np.asarray(line.get_ydata()).tolist()) for line in axes.get_lines()]
    assert heights == [{2.0}, {10.0}, {3.0}]
    assert [end.text for end in ends] == ["FedOGD", "bound for FedOGD", "OFedAvg"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    figure = under_bounds({"FedOGD": [Measured(np.array([-1.0, 4.0]), None)]}, tmp_path / "regret.png")
    assert np.asarray(figure.axes[0].get_lines()[0].get_ydata())[1] == 2.0  # below zero is left out


def test_regret_is_drawn_below_that_of_not_learning_and_beside_fedogd(tmp_path: Path) -> None:
    steps = np.arange(1.0, 5.0)
    measured = {
        "OFedAvg": [Measured(3 * steps, 12 * steps, 5 * steps)],
        "FedOGD": [Measured(2 * steps, 1000 * steps, 5 * steps)],
    }
    figure = regrets(measured, tmp_path / "regret.png", estimate=True)
    left, right = figure.axes
    heights = [np.asarray(line.get_ydata()).tolist() for line in left.get_lines()]
    assert heights == [(n * steps).tolist() for n in (3, 12, 2, 5)]  # FedOGD's bound would hide all else
    assert [text.get_text() for text in figure.texts] == [
        "Above the picture: the theorems' bound, 500 times FedOGD's regret."
    ]
    assert "an estimate" in left.get_title(loc="left")
    costs = [np.asarray(line.get_ydata()).tolist() for line in right.get_lines()]
    assert costs == [steps.tolist(), [0.0] * 4]
    assert {text.get_text() for text in right.texts} == {"OFedAvg +4", "FedOGD"}


def test_regrets_are_compared_with_the_smallest_where_fedogd_is_missing(tmp_path: Path) -> None:
    _, (axes,) = new_figure()
    curves = {
        "mine": [Measured(np.array([-1.0, 1.0, 2.0]), None)],
        "yours": [Measured(np.full(3, 2e4), None)],
    }
    ends = cost_panel(axes, curves)
    assert [end.text for end in ends] == ["mine", "yours +20 k"]
    np.testing.assert_equal(np.asarray(axes.get_lines()[1].get_ydata()), [20001.0, 19999.0, 19998.0])
    never = {name: [Measured(np.full(3, np.nan), None)] for name in ("mine", "yours")}
    assert len(regrets(never, path=tmp_path / "regret.png").axes) == 2  # nothing to see, and no error
    assert len(regrets({"mine": curves["mine"]}).axes) == 1  # nothing to compare with
