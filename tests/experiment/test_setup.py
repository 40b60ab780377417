from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.experiment import Config, Experiment
from ofediq.methods import coin
from ofediq.methods.privacy import promise_of


def small(**choices: Any) -> Config:
    return Config(**{"clients": 20, "steps": 10, "methods": ("fedogd",), **choices})


def test_every_seed_deals_anew_and_the_same_seed_alike() -> None:
    experiment = Experiment.set_up(small(seeds=2))
    first, second = experiment.deal(0), experiment.deal(1)
    assert first.order.shape == second.order.shape == (10, 20)
    assert not np.array_equal(first.order, second.order)
    assert np.array_equal(first.order, Experiment.set_up(small()).deal(0).order)


def test_synthetic_data_are_new_for_every_seed() -> None:
    experiment = Experiment.set_up(small(dataset="synthetic", options={"features": 4, "heterogeneity": 0.5}))
    first, second = experiment.deal(0), experiment.deal(1)
    assert first.x.shape == (200, 4)
    assert not np.array_equal(first.x, second.x)
    assert np.array_equal(first.order, np.arange(200).reshape(10, 20))


def test_a_file_brings_its_own_clients(tmp_path: Path) -> None:
    (tmp_path / "plant.csv").write_text("sensor,a,b,y\nA,1,0,0.5\nB,2,,0.7\nA,3,1,0.9\n", encoding="utf-8")
    config = Config(
        data=str(tmp_path / "plant.csv"),
        target="y",
        client_column="sensor",
        preset="paper",
        options={"missing": "drop", "features": "a,b"},
    )
    stream = Experiment.set_up(config).deal(0)
    assert stream.order.tolist() == [[0], [1]]
    assert (config.name, stream.dataset.feature_names) == ("plant", ("a", "b"))


def test_the_budget_gives_each_method_its_parameters() -> None:
    keys = ("fedogd", "ofedavg", "fedomd", "ofediq")
    methods = Experiment.set_up(small(methods=keys, budget=0.1)).methods
    assert methods["ofedavg"].participation.rates(20)[0] == np.float32(0.1)
    assert methods["fedomd"].period == 10
    assert methods["ofediq"].compress.formula_bits(650) < 32 * 650


def test_a_period_longer_than_the_run_is_said() -> None:
    assert Experiment.set_up(small(methods=("fedomd",), budget=0.1)).notes == ()
    (note,) = Experiment.set_up(small(methods=("fedomd",), budget=0.09)).notes
    assert note.startswith("FedOMD never sends: its period of 12 steps is longer than the run of 10")


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_sampling_so_rare_that_hardly_anyone_sends_is_said(preset: str) -> None:
    assert Experiment.set_up(small(methods=("ofedavg",), preset=preset)).notes == ()  # 20 x 10 x 0.01
    (note,) = Experiment.set_up(small(methods=("ofedavg",), preset=preset, budget=0.001)).notes
    assert note == "OFedAvg will hardly send: 0.2 messages are expected in the whole run."


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"options": {"split": "test"}}, "dataset 'digits' takes no options, got `split`"),
        (
            {"dataset": "synthetic", "options": {"clients": 3}},
            "`options` must be among task, .*, got 'clients'",
        ),
        ({"dataset": "synthetic", "options": {"noise": "much"}}, "`noise` must be a number, got 'much'"),
        (
            {"dataset": "synthetic", "scaling": "minmax"},
            "`scaling` must be auto or none for synthetic data, .*",
        ),
        (
            {"model": "linear"},
            "`model` must be softmax, mlp, cnn, random_features or lvq for a classification task, got 'linear'",
        ),
        ({"partition": "column"}, "dataset 'digits' does not say which client a sample belongs to"),
        ({"data": "none.csv", "target": "y", "dataset": None}, "`path` must be a file, got 'none.csv'"),
    ],
)
def test_what_does_not_fit_is_one_sentence(choices: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=f"^{sentence}$"):
        Experiment.set_up(small(**choices))


def test_server_rule_by_name() -> None:
    chosen = Experiment.set_up(small(methods=("fedogd", "ofediq"), server="coin")).methods
    assert {one.server for one in chosen.values()} == {coin()}
    assert chosen["fedogd"].client == Experiment.set_up(small()).methods["fedogd"].client


def test_epsilon_reaches_the_methods_that_promise_it() -> None:
    experiment = Experiment.set_up(small(methods=(), epsilon=2.0, delta=1e-6))
    assert list(experiment.methods) == ["fedogd", "private"]
    promise = promise_of(experiment.methods["private"])
    assert promise is not None
    assert (promise.epsilon, promise.delta) == (2.0, 1e-6)
    assert promise_of(experiment.methods["fedogd"]) is None


def test_epsilon_needs_a_method_that_promises_it() -> None:
    with pytest.raises(InputError, match="`epsilon` must go with a method that promises it"):
        Experiment.set_up(small(epsilon=2.0))


def test_variants_of_one_method_are_told_apart() -> None:
    texts = ("fedogd", "fedomd", "fedomd(period=2)", "fedomd(period=5, step_size=0.1)")
    experiment = Experiment.set_up(Config(clients=4, steps=10, methods=texts))
    names = [one.name for one in experiment.methods.values()]
    assert names == ["FedOGD", "FedOMD", "FedOMD (period=2)", "FedOMD (period=5, step_size=0.1)"]
