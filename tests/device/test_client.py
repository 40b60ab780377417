"""The C client says what the Python client says, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq.codec import Encoded
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import ModelMessage, write_json
from ofediq.federation.protocol.task import ModelSpec
from ofediq.methods import Method, delta, fedogd, ofedgrid, ofediq
from ofediq.methods.budgets.loudness import pack
from ofediq.methods.client import Down
from ofediq.methods.participation import fixed_size
from tests.device.replay import CHECKED, broadcasts, compiled, needs_compiler, play, record, run, task_of

DIGITS = ModelSpec("softmax", (8, 8), "classification", 10)
SENSORS = ModelSpec("linear", (5,), "regression")
ROOM = ModelSpec("mlp", (14,), "classification", 4, (16, 8), 1e-3)
FLOWS = ModelSpec("mlp", (5,), "regression", None, (7,))
SINGLE = ModelSpec("linear", (1,), "regression")
DEEP = ModelSpec("dense 7, relu, dense 1, relu, dense 4, relu, dense 100", (1,), "classification", 100)

CASES: dict[str, tuple[Method, ModelSpec, float | None]] = {
    "grid": (ofedgrid(1000.0, 100), DIGITS, float(pack(0.5, 2.0))),
    "fine grid": (ofedgrid(1000.0, 100), ROOM, float(pack(1e-6))),
    "grid of its own": (ofedgrid(1000.0, 100), DIGITS, float(pack(2.0**-120, 1.0))),
    "small grid": (ofedgrid(1000.0, 100), SENSORS, float(pack(0.01))),
    "one reading": (ofedgrid(1000.0, 100), SINGLE, float(pack(0.01))),
    "deep, narrow, many labels": (ofediq(0.9, 17, 40), DEEP, None),
    "raw": (fedogd(0.1), SENSORS, None),
    "packed": (ofediq(0.6, 3, 14), DIGITS, None),
    "many levels": (ofediq(0.9, 2000, 3, period=4), ROOM, None),
    "short norms": (ofediq(0.9, 1, 40, coding="entropy", norm_bits=16), DIGITS, None),
    "few blocks": (ofediq(1.0, 7, 2, period=2, coding="entropy"), FLOWS, None),
    "floats are shorter": (ofediq(1.0, 300, 6, coding="entropy"), SENSORS, None),
    "fixed size": (replace(ofediq(1.0, 3, 2), participation=fixed_size(0.5)), SENSORS, None),
    "authors": (ofediq(0.3, 3, 5, period=3, preset="authors"), DIGITS, None),
}


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_the_same_frames_for_the_same_samples(name: str, tmp_path: Path) -> None:
    method, spec, signal = CASES[name]
    tasks = task_of(method, spec)
    rng = np.random.default_rng(2)
    rounds = broadcasts(tasks[0], 40, 7, signal, rng)
    records, said, learner = play(tasks, rounds, number=3)
    answers = run(compiled(tasks[0], tmp_path, *CHECKED), records)
    assert [answer.content for answer in answers] == said
    assert learner.sent > 5


@needs_compiler
@pytest.mark.parametrize(
    "how",
    [
        delta(7, 1),
        delta(1, 325),
        delta(3, 60, coding="packed"),
        delta(2000, 100),
        delta(30, 3, coding="packed"),
    ],
    ids=str,
)
def test_differences_of_the_model_are_added_as_in_python(how: Any, tmp_path: Path) -> None:
    tasks = task_of(replace(fedogd(0.1), broadcast=how), DIGITS)
    rng = np.random.default_rng(3)
    rounds = broadcasts(tasks[0], 25, 7, None, rng)
    copy = rounds[0][0].down.model
    for index, (opened, samples) in enumerate(rounds[1:], 1):
        step = opened.step - 1  # of the round that the difference ends
        scale = 0.0 if index == 9 else 10.0 ** -(index % 5)  # one difference of zeros
        moved = rng.normal(0, scale, copy.size) * (np.arange(copy.size) % 7 < index % 8)
        wanted = (copy + moved).astype(np.float32)
        encoded, _ = how.encode(wanted, copy, tasks[0].seed, step, step)
        copy = how.decode(encoded, True, copy, copy.size, tasks[0].seed, step)
        down = opened.down._replace(model=np.zeros(0, np.float32))
        rounds[index] = (replace(opened, down=down, difference=encoded), samples)
    records, said, learner = play(tasks, rounds, number=3)
    answers = run(compiled(tasks[0], tmp_path, *CHECKED), records)
    assert [answer.content for answer in answers] == said  # gradients at the same models
    np.testing.assert_array_equal(learner.params, copy)
    assert learner.sent > 5


@needs_compiler
@pytest.mark.parametrize("spec", [DIGITS, SENSORS], ids=lambda spec: spec.name)
@pytest.mark.parametrize("every", [0, 3])
def test_reports_on_many_predictions_are_the_same(spec: ModelSpec, every: int, tmp_path: Path) -> None:
    method = ofediq(0.4, 3, 2)
    tasks = task_of(method, spec, passes=True, report_every=every)
    rounds = broadcasts(tasks[0], 12, 7, None, np.random.default_rng(6), samples=150)
    records, said, learner = play(tasks, rounds, number=3)
    records.append(record("f"))
    said.append(b"".join(one.payload for one in learner.farewell()))
    answers = run(compiled(tasks[0], tmp_path, "-O2"), records)
    assert [answer.content for answer in answers] == said


@needs_compiler
def test_what_comes_late_twice_or_not_at_all_is_answered_as_in_python(tmp_path: Path) -> None:
    task = task_of(replace(fedogd(0.1), broadcast=delta(7, 1)), SENSORS)[0]
    learner, zeros = Learner("f", "c"), np.zeros(task.dim, np.float32)

    def model(epoch: int, step: int, **more: Any) -> bytes:
        return ModelMessage(epoch, step, 4, Down(zeros, {}, {}), **more).encode(more.get("difference"))

    missed = model(7, 9, difference=Encoded(b"of a round that it never saw"))
    arrives = [
        ("task", task.encode()),
        ("welcome", write_json(number=1)),
        ("model", b""),
        ("model", model(7, 1)),
        ("sample", b""),
        ("model", model(7, 1)),  # the server did not hear it
        ("model", model(6, 5)),  # of a server before
        ("model", model(8, 1)),  # a server that was restarted
        ("d", missed),
        ("sample", b""),  # judged, not learnt
        ("welcome", write_json(number=1, online=False)),
        ("model", model(8, 9)),
        ("sample", b""),
        ("model", model(8, 9, final=True)),
        ("sample", b""),
    ]
    records, wanted, sample = [], [], np.array([1, 0, -1, 2, 3, 1], np.float32)
    for kind, payload in arrives:
        if kind == "sample":
            records.append(record("s", sample.tobytes()))
            said = learner.learn(sample[:5], 1.0)[1]
        else:
            records.append(record({"task": "t", "welcome": "w"}.get(kind, "m"), payload))
            said = learner.receive(kind, payload)
        topics = {one.topic: len(one.payload) for one in said}
        wanted.append((1 * ("f/u/c" in topics) + 2 * ("f/here/c" in topics), topics.get("f/u/c", 0)))
    records += [record("t", b"{}"), record("m", model(9, 12)), record("p", sample[:5].tobytes())]
    answers = run(compiled(task, tmp_path, *CHECKED), records)
    assert [(answer.result, len(answer.content)) for answer in answers[:-3]] == wanted
    assert [answer.result for answer in answers[-3:]] == [-2, -2, -3]  # another task
