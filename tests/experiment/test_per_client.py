"""Each client's part of a run adds up to the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.experiment import Config, Experiment
from ofediq.experiment.per_client import per_client
from ofediq.streams import Dataset, Stream, naive_references

CLIENTS, STEPS = 4, 60


@pytest.mark.parametrize("initial", [None, 0.5])
@pytest.mark.parametrize("method", ["ofediq", "ofedgrid", "fedomd"])
def test_the_rows_add_up_to_what_was_simulated(tmp_path: Path, method: str, initial: float | None) -> None:
    rng = np.random.default_rng(4)  # no draw of this stream is so near an edge that rounding decides
    lines = [
        f"{name},{rng.normal():.4f},{np.sin(t / 5) + 0.1 * k:.4f}"
        for t in range(STEPS)
        for k, name in enumerate("abcd")
    ]
    file = tmp_path / "plant.csv"
    file.write_text("\n".join(["sensor,heat,load", *lines]))
    config = Config(data=str(file), target="load", client_column="sensor", methods=(method,))
    experiment = Experiment.set_up(config)
    stream, one = experiment.deal(0), experiment.methods[method]
    start = None if initial is None else np.full(experiment.model.dim, initial, np.float32)
    experiment = replace(experiment, initial=start)
    result = experiment.simulate(method, stream, 0)
    rows = per_client(one, experiment.model, stream, initial=experiment.initial)
    assert sorted(row.name for row in rows) == list("abcd")
    assert sum(row.bits for row in rows) == pytest.approx(result.bits_wire.sum())
    # The first sample of a client starts its past and is not predicted.
    assert sum(row.error * row.samples for row in rows) == pytest.approx(result.error.sum(), rel=1e-4)
    last = naive_references(stream)["last"]
    expected = last[-1] * CLIENTS * (STEPS - 1)
    assert sum(row.naive * row.samples for row in rows) == pytest.approx(expected, rel=1e-6)


def test_a_constant_target_has_no_skill() -> None:
    data = Dataset("flat", x=np.zeros((4, 1)), y=np.ones(4), task="regression")
    (row,) = per_client(methods.fedogd(0.1), models.linear(features=1), Stream(data, np.arange(4)[:, None]))
    assert (row.samples, row.naive, row.skill) == (3, 0.0, None)


def test_every_step_is_told() -> None:
    data = Dataset("flat", x=np.zeros((4, 1)), y=np.ones(4), task="regression")
    stream, told = Stream(data, np.arange(4)[:, None]), list[int]()
    per_client(methods.fedogd(0.1), models.linear(features=1), stream, progress=told.append)
    assert told == [1, 2, 3, 4]
