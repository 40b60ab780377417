import json
from pathlib import Path
from typing import Any

import pytest

from ofediq.errors import DataError, InputError
from ofediq.experiment import Config


@pytest.mark.parametrize(
    ("choices", "partition"),
    [
        ({}, "random"),
        ({"preset": "authors"}, "passes"),
        ({"preset": "authors", "partition": "label"}, "label"),
        ({"dataset": "synthetic"}, "column"),
        ({"data": "a.csv", "target": "y"}, None),  # decided when the file is read
        ({"data": "a.csv", "target": "y", "preset": "paper"}, "random"),
        ({"data": "a.csv", "target": "y", "preset": "paper", "time_column": "t"}, "sequential"),
        ({"data": "a.csv", "target": "y", "preset": "paper", "client_column": "k"}, "column"),
    ],
)
def test_the_partition_that_fits_the_data(choices: dict[str, Any], partition: str | None) -> None:
    assert Config(**choices).partition == partition


def test_clients_and_steps_are_those_of_the_data_where_it_has_them() -> None:
    assert (Config().clients, Config().steps) == (1000, 300)
    assert (Config(dataset="synthetic").clients, Config(dataset="synthetic").steps) == (1000, 300)
    own = Config(data="a.csv", target="y", client_column="k")
    assert (own.clients, own.steps) == (None, None)


def test_a_file_leads_back_to_the_same_choices(tmp_path: Path) -> None:
    config = Config(dataset="room", options={"subset": "balanced"}, hidden=(8,), seeds=3, regret=False)
    for content in (config.to_dict(), {"config": config.to_dict(), "versions": {}}):
        (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
        assert Config.read(tmp_path / "config.json") == config


def test_the_seeds_follow_each_other() -> None:
    assert list(Config(seed=7, seeds=3).all_seeds) == [7, 8, 9]


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"budget": 0}, r"`budget` must lie in \(0, 1\], got 0"),
        ({"budget": "many"}, r"`budget` must lie in \(0, 1\], got 'many'"),
        ({"dataset": "cifar"}, r"`dataset` must be one of digits, .*, got 'cifar'"),
        ({"methods": ("adam",)}, r"`methods` must be one of fedogd, .*, got 'adam'"),
        ({"methods": ("ogd", "ogd")}, r"`methods` must differ, got 'ogd,ogd'"),
        ({"clients": 0}, r"`clients` must be an integer from 1 to 10000000, got 0"),
        ({"steps": 1.5}, r"`steps` must be an integer from 1 to 100000000, got 1.5"),
        ({"step_size": -1}, r"`step_size` must be a finite number > 0, got -1"),
        ({"seed": 2**32}, r"`seed` must be an integer from 0 to 4294967295, got 4294967296"),
        ({"seeds": 0}, r"`seeds` must be an integer from 1 to 1000000, got 0"),
        ({"hidden": (0,)}, r"`hidden` must be a list of at most 64 integers from 1 to 1000000, got \(0,\)"),
        ({"server": "sgd"}, r"`server` must be one of descend, adam, averaged, coin, adaptive, got 'sgd'"),
        ({"preset": "mine"}, r"`preset` must be one of auto, paper, authors, got 'mine'"),
        ({"baseline": "last"}, r"`baseline` needs preset auto, got 'last'"),
        (
            {"preset": "auto", "baseline": "season(0)"},
            r"`baseline` must be auto, last, mean, none or season\(ROWS\), such as season\(24\), got 'season\(0\)'",
        ),
        ({"preset": "auto", "baseline": f"season({10**20})"}, r"`baseline` must be .*"),
        ({"partition": "odd"}, r"`partition` must be one of random, .*, got 'odd'"),
        ({"target": "y"}, r"`target` needs `data`, a file, got 'y'"),
        ({"data": "a.csv"}, r"`target` must name the column of `data` to predict, got nothing"),
        (
            {"data": "a.csv", "dataset": "room", "target": "y"},
            r"`data` and `dataset` exclude each other, got 'a.csv' and 'room'",
        ),
    ],
)
def test_a_bad_choice_is_one_sentence(choices: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=f"^{sentence}$"):
        Config(**choices)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", r"`config` must be a readable JSON file, got "),
        ("[1]", r"`config` must hold a JSON object, got "),
        ('{"config": 3}', r"`config` must hold a JSON object, got "),
        ('{"bugdet": 1}', r"`bugdet` is not known in the configuration: did you mean 'budget'\?"),
        ('{"methods": "ogd"}', r"`methods` must be a list of texts, got 'ogd'"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=f"^{sentence}"):
        Config.read(tmp_path / "config.json")
    with pytest.raises(DataError, match=r"^`config` must be a readable JSON file"):
        Config.read(tmp_path / "missing.json")
