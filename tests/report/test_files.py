from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from ofediq.errors import InputError
from ofediq.report import Comparison, draw, draw_comparison, draw_regrets, write_metrics


def test_a_row_per_method_seed_and_step(comparison: Comparison, tmp_path: Path) -> None:
    write_metrics(comparison, tmp_path / "metrics.parquet")
    frame = parquet.read_table(tmp_path / "metrics.parquet").to_pandas()
    assert len(frame) == 2 * 2 * 12
    assert frame.groupby(["method", "seed"])["step"].apply(list).tolist() == [list(range(1, 13))] * 4
    first = frame[(frame["method"] == "ofediq") & (frame["seed"] == 4)]
    result = comparison.runs["ofediq"][1]
    assert first["accuracy"].tolist() == result.accuracy.tolist()
    assert first["bits_wire"].tolist() == result.bits_wire.tolist()
    assert first["regret"].tolist() == comparison.regrets["ofediq"][4].curve.tolist()
    assert first["regret_bound"].isna().all()


def test_without_regrets_there_is_no_such_column(comparison: Comparison, tmp_path: Path) -> None:
    write_metrics(Comparison(comparison.runs), tmp_path / "metrics.parquet")
    assert "regret" not in parquet.read_table(tmp_path / "metrics.parquet").column_names


def test_an_unwritable_place_is_one_sentence(comparison: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^`path` must be writable, got '.*metrics.parquet'"):
        write_metrics(comparison, tmp_path / "nowhere" / "metrics.parquet")


def test_the_picture_has_methods_and_naive_references(comparison: Comparison, tmp_path: Path) -> None:
    figure = draw_comparison(comparison, path=tmp_path / "figure.png", title="digits")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    words = " ".join(text.get_text() for text in figure.axes[0].texts)
    for name in ("FedOGD", "OFedIQ", "majority class", "best constant", "last value"):
        assert name in words


def test_results_alone_make_a_picture(comparison: Comparison, tmp_path: Path) -> None:
    one, other = comparison.runs["fedogd"]
    figure = draw(one, other, comparison.runs["ofediq"][0], path=tmp_path / "figure.png")
    assert (tmp_path / "figure.png").exists()
    fedogd, ofediq = figure.axes[0].get_lines()
    assert np.asarray(fedogd.get_ydata()) == pytest.approx((one.curve + other.curve) / 2)
    assert np.asarray(ofediq.get_ydata()) == pytest.approx(comparison.runs["ofediq"][0].curve)


def test_the_regret_picture_has_methods_and_what_not_learning_costs(
    comparison: Comparison, tmp_path: Path
) -> None:
    figure = draw_regrets(comparison, path=tmp_path / "regret.png")
    words = [text.get_text() for text in figure.axes[0].texts]
    assert {"FedOGD", "OFedIQ", "not learning"} <= set(words)
    drawn = np.asarray(figure.axes[0].get_lines()[0].get_ydata())
    curves = [regret.curve for regret in comparison.regrets["fedogd"].values()]
    assert drawn == pytest.approx(np.mean(curves, axis=0))
