"""Things given in each other's place, as they are by whoever tries ofediq for the first time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ofediq
from ofediq import methods, models
from ofediq.errors import InputError
from ofediq.federation import Client

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
    ],
)
def test_what_is_no_such_thing_is_named(call: Callable[..., Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(*parts())
