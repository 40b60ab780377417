"""Preset auto: a stranger's file is learnt with nothing tuned, and what was assumed is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from ofediq import methods, simulate
from ofediq.errors import DataError, InputError
from ofediq.experiment import Config, Experiment
from ofediq.methods.registry import entries
from ofediq.methods.server.adaptive import Adaptive
from ofediq.streams import APART, naive_references


def write(tmp_path: Path, **columns: Any) -> str:
    pandas.DataFrame(columns).to_csv(tmp_path / "own.csv", index=False)
    return str(tmp_path / "own.csv")


def skill_of(config: Config, key: str) -> tuple[float, float]:
    """Skill against the best naive forecast: at the end, and the lowest after ten steps."""
    experiment = Experiment.set_up(config)
    stream = experiment.deal(0)
    result = simulate(experiment.methods[key], stream, experiment.model)
    curves = naive_references(stream)
    curves = {name: curve for name, curve in curves.items() if name not in APART}
    errors = [1 - curve if stream.task == "classification" else curve for curve in curves.values()]
    best = min(errors, key=lambda curve: float(curve[-1]))
    curve = 1 - result.running_error / best
    return float(curve[-1]), float(curve[10:].min())


def series(scale: float, seed: int = 0, size: int = 4000) -> dict[str, Any]:
    """A target that follows itself and two readings, one in thousandths with gaps, beside a constant and a text."""
    rng = np.random.default_rng(seed)
    readings = rng.normal(size=(size, 2))
    y = np.zeros(size)
    for t in range(1, size):
        y[t] = 0.95 * y[t - 1] + 0.3 * readings[t, 0] + 0.1 * rng.normal()
    small = np.where(rng.random(size) < 0.05, np.nan, 1e-3 * readings[:, 0])
    mode = np.where(readings[:, 1] > 0, "eco", "full")
    return {"small": small, "flat": 7.0, "mode": mode, "y": scale * (50 + y)}


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("method", ["fedogd", "ofediq"])
def test_a_series_in_any_unit_beats_the_last_value(tmp_path: Path, scale: float, method: str) -> None:
    config = Config(data=write(tmp_path, **series(scale)), target="y", methods=(method,))
    final, lowest = skill_of(config, method)
    assert final > 0.5  # nine tenths of the variance of a change are known from the reading
    assert lowest > -0.02


def test_labels_in_text_with_drift_beat_the_last_label(tmp_path: Path) -> None:
    """A sticky label that follows a reading, whose meaning turns round in the middle of every stretch."""
    rng, size = np.random.default_rng(1), 6000
    x = rng.normal(size=size)
    turned = np.where(np.arange(size) % 600 < 300, 1.0, -1.0)
    labels = ["low"]
    for t in range(1, size):
        move = 2.5 * turned[t] * x[t] + rng.logistic() * 0.3
        labels.append("high" if move > 1.5 else "low" if move < -1.5 else labels[-1])
    config = Config(data=write(tmp_path, x=x, state=labels), target="state", methods=("fedogd",))
    final, lowest = skill_of(config, "fedogd")
    assert final > 0.1
    assert lowest > -0.05


def test_what_was_assumed_is_said_first(tmp_path: Path) -> None:
    when = pandas.date_range("2024-01-01", periods=500, freq="h")
    rng = np.random.default_rng(0)
    path = write(
        tmp_path,
        when=when,
        who=[f"id{i}" for i in range(500)],
        x=rng.normal(size=500),
        y=rng.normal(size=500),
    )
    experiment = Experiment.set_up(Config(data=path, target="y", methods=("fedogd",)))
    said = experiment.notes[0]
    for words in (
        "Assumed: the order in time is when (--time-column)",
        "who left out",
        "5 clients, each a stretch of about 100 rows",
        "one pass of 100 steps (--steps)",
        "the value 24 rows ago (--baseline)",
        "10% of FedOGD's bits",
    ):
        assert words in said
    assert experiment.config.budget == 0.1
    given = Config(
        data=path, target="y", time_column="when", clients=4, steps=50, baseline="last", budget=0.5,
        options={"features": "x"}, methods=("fedogd",),
    )  # fmt: skip
    assert Experiment.set_up(given).notes == ()


def test_nothing_looks_into_the_future(tmp_path: Path) -> None:
    """Other values in the second half of every client's rows leave its first half as it was, up to the unit."""
    rng, size = np.random.default_rng(0), 400
    x, y, who = rng.normal(size=size), np.cumsum(rng.normal(size=size)), np.arange(size) % 4
    later = np.arange(size) >= size // 2
    streams = []
    for factor in (1.0, -3.0):
        columns = {"who": who, "x": np.where(later, factor * x, x), "y": np.where(later, factor * y, y)}
        config = Config(data=write(tmp_path, **columns), target="y", client_column="who", scaling="none")
        streams.append(Experiment.set_up(config).deal(0))
    first, second = (stream.x[stream.order[1:50]] for stream in streams)  # at step 1 nobody knows a target
    np.testing.assert_array_equal(first, second)


def test_a_horizon_sees_nothing_of_the_rows_between(tmp_path: Path) -> None:
    """A reading that *is* the target of noise helps at its own row only; a ramp is known at any distance."""
    rng, size = np.random.default_rng(5), 3000
    noise, ramp = rng.normal(size=size), 0.5 * (np.arange(size) % 300) + 0.1 * rng.normal(size=size)
    for horizon in (None, 2, 7):
        config = Config(
            data=write(tmp_path, x=noise, y=noise), target="y", methods=("ofediq",), horizon=horizon
        )
        final, _ = skill_of(config, "ofediq")
        assert (final > 0.8) if horizon is None else (-0.3 < final < 0.05)
    config = Config(data=write(tmp_path, x=noise, y=ramp), target="y", methods=("ofediq",), horizon=7)
    experiment = Experiment.set_up(config)
    stream = experiment.deal(0)
    assert stream.steps == 300 - 6
    far = 7 * 0.5 / (ramp.max() - ramp.min())  # seven rows, in the file's scale
    np.testing.assert_allclose(naive_references(stream)["last"][-1], far**2, rtol=0.05)
    assert skill_of(config, "ofediq")[0] > 0.5


def test_a_horizon_needs_an_order_in_time(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`horizon` needs preset auto"):
        Config(dataset="digits", horizon=3)
    with pytest.raises(InputError, match="`horizon` must be 1 for images and data without a time order"):
        Experiment.set_up(Config(dataset="digits", preset="auto", clients=10, horizon=3))
    own = write(tmp_path, x=np.arange(50.0), y=np.arange(50.0))
    with pytest.raises(DataError, match="`horizon` must be at most the 50 rows of a client, got 51"):
        Experiment.set_up(Config(data=own, target="y", clients=1, horizon=51))


def test_images_and_data_without_time_have_no_pipeline() -> None:
    experiment = Experiment.set_up(Config(preset="auto", clients=10, steps=20, methods=("fedogd",)))
    assert (experiment.model.name, experiment.deal(0).x.shape[1:]) == ("softmax", (8, 8))
    assert experiment.methods["fedogd"].server.name.startswith("adaptive")


def test_first_moves_are_larger_for_labels_and_for_few_features(tmp_path: Path) -> None:
    """With those of many features, streams were up to 15 % above a tuned step size (docs/own-data.md)."""
    steps = np.arange(400.0)
    number, label = np.sin(steps), np.where(steps % 7 > 3, "on", "off")
    colours, readings = (
        np.array([f"c{one % 30}" for one in range(400)]),
        np.random.default_rng(0).random((60, 400)),
    )
    many = {f"r{place}": one for place, one in enumerate(readings)}

    def first(y: Any, model: str = "auto", **x: Any) -> float:
        config = Config(data=write(tmp_path, **x, y=y), target="y", methods=("fedogd",), model=model)
        rule = Experiment.set_up(config).methods["fedogd"].server
        assert isinstance(rule, Adaptive)
        return rule.first

    usual = first(number, **many)  # 126 features or so: as it is for any number of them
    assert first(label, x=steps) == pytest.approx(12 * usual)
    assert first(label, "mlp", x=steps) == first(number, "mlp", x=steps) < usual
    features = 2 + 6  # a level and its change, and the target's past
    assert first(number, x=steps) == pytest.approx(0.07 / features)
    assert first(number, x=steps, colour=colours) == pytest.approx(0.07 / (features + 1))  # one of 30 at once


def test_the_model_and_the_server_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, **series(1.0, size=300))
    config = Config(data=path, target="y", model="mlp", hidden=(8,), server="coin", methods=("ofediq",))
    experiment = Experiment.set_up(config)
    assert experiment.model.name == "mlp"
    assert experiment.methods["ofediq"].server.name == "coin(0.1)"
    with pytest.raises(InputError, match="'season' needs the rows per season"):
        Experiment.set_up(Config(data=path, target="y", baseline="season"))


def test_every_named_method_can_be_set_up_on_an_own_file(tmp_path: Path) -> None:
    """Seven of them were refused for a server that nobody had asked for."""
    data = write(tmp_path, **series(1.0, size=200))
    for key in entries():
        epsilon = 4.0 if key == "private" else None
        experiment = Experiment.set_up(Config(data=data, target="y", methods=(key,), epsilon=epsilon))
        said = "with the server and step size of the method (--step-size)" in experiment.notes[0]
        assert said == (
            experiment.methods[key].topology == "federated" and methods.own_server(experiment.methods[key])
        )


def test_a_target_alone_is_learnt_from_its_own_past(tmp_path: Path) -> None:
    rng, y = np.random.default_rng(0), np.zeros(3000)
    for t in range(2, len(y)):
        y[t] = 1.6 * y[t - 1] - 0.7 * y[t - 2] + rng.normal()
    final, lowest = skill_of(Config(data=write(tmp_path, y=y), target="y", methods=("ofediq",)), "ofediq")
    assert final > 0.25  # least squares knows 50 %
    assert lowest > -0.02


def test_a_budget_is_a_share_of_what_is_there_to_send(tmp_path: Path) -> None:
    """Most clients have few rows: FedOGD sends nothing for those that are away, and a budget is a share of that."""
    rng, size = np.random.default_rng(3), 1500
    visitors = rng.permutation(np.repeat([f"v{one}" for one in range(100)], 5))
    regulars = rng.choice(["a", "b"], size - len(visitors))
    who = rng.permutation(np.concatenate([visitors, regulars]))
    x = rng.normal(size=(size, 2))
    path = write(tmp_path, who=who, a=x[:, 0], b=x[:, 1], y=x[:, 0] + 0.2 * rng.normal(size=size))
    config = Config(data=path, target="y", client_column="who", methods=("ofedgrid",))
    experiment = Experiment.set_up(config)
    stream = experiment.deal(0)
    assert stream.present.mean() < 0.1
    result = simulate(experiment.methods["ofedgrid"], stream, experiment.model)
    all_bits = 32 * experiment.model.dim * np.count_nonzero(stream.present)  # FedOGD's
    assert 0.07 < float(result.bits_wire.sum()) / all_bits < 0.11
