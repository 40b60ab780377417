"""What federation.toml and client.toml may say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ofediq.errors import InputError
from ofediq.federation import Broker, ClientConfig, FederationConfig, Rules, assemble
from ofediq.federation.choices import (
    FeatureChoice,
    MemoryChoice,
    MethodChoice,
    ModelChoice,
    PageChoice,
    PredictionChoice,
    SourceChoice,
)
from ofediq.methods.budgets.steered import budget_of
from ofediq.methods.robust.guard import CLIP
from ofediq.settings import declared
from ofediq.tracking import TrackerChoice

FEDERATION = """
name = "greenhouse"
seed = 3
folder = "kept"

[model]
features = 5

[method]
key = "ofedavg"
budget = 0.5
step_size = 0.1

[rounds]
pace = "interval"
interval = 2
count = 100
clip = 0

[clients]
roster = ["pi-1", "pi-2"]

[page]
port = 0
"""
CLIENT = """
name = "pi-1"
federation = "greenhouse"

[broker]
address = "mqtt://localhost:1883"
insecure = true

[source]
kind = "csv"
path = "rows.csv"
target = "y"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


def test_a_federation_is_read_whole(tmp_path: Path) -> None:
    config = FederationConfig.read(write(tmp_path, FEDERATION))
    assert config.folder == tmp_path / "kept"
    assert config.broker is None
    assert config.model.task == "regression"
    assert config.rules.roster == ("pi-1", "pi-2")
    assert not config.rules.open
    assert (config.rules.interval, config.rules.rounds, config.rules.clip) == (2, 100, None)
    coordinator = assemble(config)
    assert coordinator.method.name == "OFedAvg"
    assert coordinator.monitor.parameters["rate"] == 0.5


def test_the_usual_method_has_a_budget_for_each_client_where_nobody_says_how_many(tmp_path: Path) -> None:
    """A federation that is open began with the bits of one client, and shared them out among all who came."""
    text = 'name = "plant"\n[model]\nnames = ["heat", "light"]\n'
    config = FederationConfig.read(write(tmp_path, text))
    assert config.method.key == "ofedgrid"
    model = config.spec().build()
    alone, told = (
        budget_of(choice.build(model, 0)) for choice in (config.method, replace(config.method, clients=50))
    )
    assert alone is not None
    assert told is not None
    assert (alone.each, told.each) == (True, False)
    assert alone.bits_per_step == pytest.approx(told.bits_per_step / 50)
    assert told.bits_per_step == pytest.approx(0.1 * 32 * model.dim * 50)


def test_a_client_is_read_whole(tmp_path: Path) -> None:
    config = ClientConfig.read(write(tmp_path, CLIENT))
    assert config.source.path == str(tmp_path / "rows.csv")
    assert config.broker.port == 1883


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"greenhouse"', '"green/house"', "`name` must have 1 to 64 letters"),
        (
            'folder = "kept"',
            'folder = "config.toml"',
            "`folder` must be a folder, not a file or below one, got ",
        ),
        ('folder = "kept"', 'folder = "config.toml/x"', "`folder` must be a folder, not a file or below one"),
        ("count = 100", "min_clients = 3", "`min_clients` must be at most 2, the roster's length, when"),
        ("seed = 3", "seed = -1", "`seed` must be an integer from 0 to 4294967295, got -1"),
        ("features = 5", "feature = 5", r"`feature` is not known in \[model\]: did you mean 'features'\?"),
        ("features = 5", 'name = "softmax"', r"`shape` \(or `features`\) must be given in \[model\]"),
        (
            "features = 5",
            'features = 5\nname = "cnn"',
            "`model` must be linear, mlp, .* for a regression task",
        ),
        ('key = "ofedavg"', 'key = "sgd"', r"`key` in \[method\] must be one of"),
        ("budget = 0.5", "budget = 1.5", r"`budget` in \[method\] must lie in \(0, 1\], got 1.5"),
        ("budget = 0.5", 'budget = "all"', r"`budget` in \[method\] must lie in \(0, 1\], got 'all'"),
        ("step_size", "stepsize", r"`stepsize` is not known in \[method\]: did you mean 'step_size'\?"),
        ('pace = "interval"', 'pace = "slow"', r"`pace` in \[rounds\] must be one of asap, interval"),
        (
            "interval = 2",
            "interval = 0",
            r"`interval` in \[rounds\] must be a number > 0 and <= 10000000, got 0",
        ),
        ("count = 100", "count = -1", r"`count` in \[rounds\] must be an integer from 0 to"),
        ('"pi-2"]', '"pi-1"]', "`roster` must not repeat a name"),
        (
            '"pi-2"]',
            '"pi 2"]',
            r"`roster` in \[clients\] must be a list of .*names, each of which must have 1 to 64 letters",
        ),
        ("port = 0", "port = true", r"`port` in \[page\] must be an integer from 0 to 65535, got True"),
        ("[page]", "[pages]", "`pages` is not known in the configuration: did you mean 'page'"),
        ("[page]", "[broken", "`config` must be TOML"),
        ("[page]", '[broker]\naddress = "ftp://x"\n[page]', "must look like mqtts://host:port"),
        ("[page]", "[broker]\n[page]", r"`address` in \[broker\] must be given"),
        (
            "[page]",
            '[broker]\naddress = "mqtts://x"\nca = "no.pem"\n[page]',
            "`ca` must be a file that exists",
        ),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in FEDERATION
    with pytest.raises(InputError, match=message):
        assemble(FederationConfig.read(write(tmp_path, FEDERATION.replace(old, new))))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "csv"', 'kind = "kafka"', r"`kind` in \[source\] must be one of lines, csv, replay"),
        ('path = "rows.csv"\n', "", "`path` must be given for a source of kind csv"),
        ('target = "y"\n', "", "`target` must name the column to predict"),
        ('federation = "greenhouse"\n', "", "`federation` must be given: it must have 1 to 64 letters"),
    ],
)
def test_a_clients_mistake_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ClientConfig.read(write(tmp_path, CLIENT.replace(old, new)))


@pytest.mark.parametrize(
    ("chosen", "made"), [("", None), ("enabled = true", True), ("enabled = false", False)]
)
def test_features_that_would_be_ignored_are_named(tmp_path: Path, chosen: str, made: bool | None) -> None:
    text = (
        'name = "plant"\n[model]\nnames = ["heat"]\n[method]\nstep_size = 0.1\n'
        f'[features]\ngaps = ["heat"]\n{chosen}\n[broker]\naddress = "mqtt://localhost"\ninsecure = true\n'
    )
    config = FederationConfig.read(write(tmp_path, text))
    if made is None:
        with pytest.raises(
            InputError, match=r"`enabled` in \[features\] must be true or false without preset"
        ):
            config.spec()
    else:
        assert (config.spec().pipeline is not None) == made


def test_the_documentation_shows_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "federation.md").read_text(encoding="utf-8")
    server, client = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    tables = {"": FederationConfig, "model": ModelChoice, "method": MethodChoice, "rounds": Rules}
    more = {"clients": Rules, "broker": Broker, "page": PageChoice, "tracker": TrackerChoice}
    more |= {"features": FeatureChoice, "rollout": Rules}
    assert shown_keys(server) == {
        key for table, kind in {**tables, **more}.items() for key in keys(table, kind)
    }
    own = {"": ClientConfig, "broker": Broker, "source": SourceChoice, "memory": MemoryChoice}
    own["predictions"] = PredictionChoice
    assert shown_keys(client) == {key for table, kind in own.items() for key in keys(table, kind)}


def keys(table: str, kind: type[Any]) -> set[tuple[str, str]]:
    return {(table, one.key) for one in declared(kind, table or None)}


def shown_keys(text: str) -> set[tuple[str, str]]:
    """Every key of a TOML example with its table, those in comments too."""
    table, found = "", set()
    for line in text.splitlines():
        if line.startswith("["):
            table = line[1 : line.index("]")]
        elif match := re.match(r"(?:# )?(\w+) = ", line):
            found.add((table, match[1]))
    return found


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`config` must be a file that can be read"):
        FederationConfig.read(tmp_path / "nothing.toml")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[memory]\npath = "folder"', r"`path` in \[memory\] must be a file, got the folder"),
        ('[predictions]\npath = "folder"', r"`path` in \[predictions\] must be a file, got the folder"),
        ('[source]\npath = "rows.csv"', "`path` must go with a source of kind csv or replay"),
    ],
)
def test_files_of_a_client_that_cannot_be_are_named(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    about = 'name = "a"\nfederation = "b"\n[broker]\naddress = "mqtt://localhost:1"\ninsecure = true\n'
    (tmp_path / "client.toml").write_text(about + text)
    with pytest.raises(InputError, match=sentence):
        ClientConfig.read(tmp_path / "client.toml")


def test_the_guard_of_a_server_is_that_of_the_simulator() -> None:
    assert Rules().clip == CLIP
