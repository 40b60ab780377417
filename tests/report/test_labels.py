import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from ofediq.report.figures.canvas import new_figure
from ofediq.report.figures.labels import End, label_ends, spread

positions = st.lists(st.floats(-100, 100), min_size=1, max_size=12)


def test_what_does_not_overlap_stays() -> None:
    assert spread([9.0, 1.0, 5.0], gap=2.0, low=0.0, high=10.0).tolist() == [9.0, 1.0, 5.0]


def test_two_at_one_place_move_half_a_gap_each() -> None:
    assert spread([5.0, 5.0], gap=2.0, low=0.0, high=10.0).tolist() == [4.0, 6.0]


def test_the_range_is_respected_where_it_is_long_enough() -> None:
    assert spread([10.0, 10.0, 10.0], gap=1.0, low=0.0, high=10.0).tolist() == [8.0, 9.0, 10.0]
    assert spread([0.0, 0.0], gap=1.0, low=0.0, high=10.0).tolist() == [0.0, 1.0]


@given(positions, st.floats(0.1, 20))
def test_order_and_gap(wanted: list[float], gap: float) -> None:
    placed = spread(wanted, gap, low=-1e4, high=1e4)
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(placed[order]) >= gap - 1e-9).all()
    assert placed.mean() == pytest.approx(np.mean(wanted), abs=1e-9)  # least squares moves nothing as a whole


def test_labels_at_one_point_do_not_overlap() -> None:
    _, (axes,) = new_figure()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    written = label_ends(axes, [End(f"line {index}", 1.0, 0.5, "#000000") for index in range(6)])
    boxes = [
        Text.get_window_extent(label) for label in written
    ]  # of the text, without the stroke to its line
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_labels_far_apart_stay_at_the_height_of_their_lines() -> None:
    _, (axes,) = new_figure()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    written = label_ends(axes, [End("a", 1.0, 0.2, "#000000"), End("b", 1.0, 0.8, "#000000")])
    assert [label.get_position()[1] for label in written] == [0.0, 0.0]


def test_a_label_stands_clear_of_a_line_that_goes_on() -> None:
    _, (axes,) = new_figure()
    axes.plot([0.0, 1.0], [0.0, 1.0])
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    (label,) = label_ends(axes, [End("short", 0.45, 0.5, "#000000")])
    box = Text.get_window_extent(label)
    corners = axes.transData.inverted().transform([(box.x0, box.y1), (box.x1, box.y0)])
    assert (corners[:, 1] < corners[:, 0]).all() or (corners[:, 1] > corners[:, 0]).all()


def test_a_line_without_an_end_gets_no_label() -> None:
    _, (axes,) = new_figure()
    assert label_ends(axes, [End("diverged", float("nan"), float("nan"), "#000000")]) == []


def test_a_long_title_shrinks_to_the_width_of_the_figure() -> None:
    figure, _ = new_figure(title="a title " * 20)
    assert figure.texts[0].get_window_extent().x1 <= figure.bbox.x1
    short, _ = new_figure(title="short")
    assert float(short.texts[0].get_fontsize()) > float(figure.texts[0].get_fontsize())
