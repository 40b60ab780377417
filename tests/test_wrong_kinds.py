"""Things given in each other's place, as they are by whoever tries ofediq for the first time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ofediq
from ofediq import methods, models, streams, theory
from ofediq.drift import DriftTest
from ofediq.errors import InputError
from ofediq.federation import Client
from ofediq.swarm import Swarm

ANY: Any = ofediq


def parts() -> tuple[Any, Any, Any]:
    stream = ofediq.synthetic(task="regression", clients=2, steps=3, features=2, seed=0)
    return methods.fedogd(0.1), stream, models.linear(features=2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda method, stream, model: ANY.simulate("fedogd", stream, model), "`method` must be a Method"),
        (lambda method, stream, model: ANY.simulate(stream, method, model), "`method` must be a Method"),
        (lambda method, stream, model: ANY.simulate(method, stream.dataset, model), "`stream` must be a St"),
        (lambda method, stream, model: ANY.simulate(method, stream, "linear"), "`model` must be a Model"),
        (lambda method, stream, model: ANY.partition("digits", clients=2), "`dataset` must be a Dataset"),
        (lambda method, stream, model: ANY.report.draw([]), "`results` must be a Result"),
        (lambda method, stream, model: ANY.methods.make(3), "`method` must be a name"),
        (lambda method, stream, model: ANY.methods.ofediq("a", 7, 1, 1, 0.1), r"`rate` must lie in \(0, 1\]"),
        (lambda method, stream, model: Client(ANY, "garden", "pi"), "`broker` must be a Broker"),
        (
            lambda method, stream, model: ANY.simulate(method, stream, model, checkpoint=3),
            "`checkpoint` must",
        ),
        (
            lambda method, stream, model: ANY.simulate(method, stream, model, checkpoint_every="often"),
            "`checkpoint_every` must be an integer >= 1, got 'often'",
        ),
        (lambda method, stream, model: ANY.simulate(method, stream, model, initial="zero"), "`initial` must"),
        (lambda method, stream, model: ANY.simulate(method, stream, model, mesh=2), "`mesh` must be a Mesh"),
        (lambda method, stream, model: ANY.simulate(method, stream, model, progress=1), "`progress` must be"),
        (lambda method, stream, model: ANY.simulation.hindsight(stream, model), "`model` must be a Model"),
        (lambda method, stream, model: ANY.naive_references(stream.dataset), "`stream` must be a Stream"),
        (lambda method, stream, model: ANY.streams.drift(None, at=1), "`stream` must be a Stream, got None"),
        (lambda method, stream, model: streams.availability(stream, join="late"), "`join` must be a share"),
        (
            lambda method, stream, model: streams.availability(stream, join=[[1], [2, 3]]),
            "`join` must be 2 s",
        ),
        (
            lambda method, stream, model: ANY.streams.availability(stream, pause=None),
            "`pause` must be a finite",
        ),
        (
            lambda method, stream, model: ANY.synthetic(clients=2, steps=2, noise="much"),
            "`noise` must be a f",
        ),
        (
            lambda method, stream, model: ANY.synthetic(clients=2, steps=2, task=np.ones(2)),
            "`task` must be o",
        ),
        (lambda method, stream, model: ANY.load(["digits", "room"]), "`name` must be one of"),
        (lambda method, stream, model: ANY.load_file(None, target="y"), "`path` must be the path of a file"),
        (lambda method, stream, model: DriftTest(ANY), r"`doubt` must be a finite number > 0"),
        (lambda method, stream, model: Swarm(method, stream, 2), "`model` must be a Model"),
        (lambda method, stream, model: Swarm(method, model, 2, seed=ANY), "`seed` must be an integer"),
        (lambda method, stream, model: ANY.codec.Eden(bits="b"), "`bits` must be a"),
        (
            lambda method, stream, model: theory.regret_bound_curve(
                0.1, 0.5, distance=1.0, gradients="many", clients=10, smoothness=1.0
            ),
            "`gradients` must be one finite number",
        ),
        (lambda method, stream, model: ANY.models.build(None, (4,), "regression"), "`model` must be a str"),
        (lambda method, stream, model: ANY.models.cnn(height="28"), "`height` must be an integer"),
        (lambda method, stream, model: ANY.models.mlp_regressor(3, hidden=8), "`hidden` must name at least"),
        (
            lambda method, stream, model: ANY.models.network(
                "dense", shape=(2,), task="classification", classes="two"
            ),
            "`classes` must be an integer >= 0, got 'two'",
        ),
        (lambda method, stream, model: ANY.models.network(3, shape=(2,), task="regression"), "`layers` must"),
        (
            lambda method, stream, model: replace(method, server=None),
            "`server` must be a ServerRule, got None",
        ),
        (lambda method, stream, model: ANY.methods.grid("wide"), "`spread` must be a finite number > 0"),
        (
            lambda method, stream, model: ANY.methods.bernoulli(["often"]),
            "`rate` must be a finite number >= 0",
        ),
        (
            lambda method, stream, model: ANY.methods.additive(9, 1.0, senders=1.5),
            "`senders` must be an integer",
        ),
        (
            lambda method, stream, model: ANY.methods.ofedgrid(100.0, extra_bits=None),
            "`extra_bits` must be a finite number >= 0, got None",
        ),
    ],
)
def test_what_is_no_such_thing_is_named(call: Callable[..., Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(*parts())


@pytest.mark.parametrize("argument", ["target", "client_column", "time_column", "features"])
def test_a_column_is_named_by_a_text(tmp_path: Path, argument: str) -> None:
    (tmp_path / "plant.csv").write_text("a,y\n1,2\n2,3\n3,4\n")
    named: dict[str, Any] = {"target": "y", argument: 3}
    with pytest.raises(InputError, match=f"^`{argument}` must be"):
        ofediq.load_file(tmp_path / "plant.csv", **named)
