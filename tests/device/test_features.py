"""A device that makes its own features (preset auto) sends what the Python client sends, and predicts as it does."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq.device import header
from ofediq.errors import InputError
from ofediq.federation.config import FederationConfig
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import ModelMessage, write_json
from ofediq.federation.protocol.reports import REPORT_BYTES, Report
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.federation.setup import assemble
from ofediq.methods.budgets.loudness import pack
from ofediq.methods.client import Down
from tests.device.replay import ARM, BOARD, CHECKED, CORTEX_M4, Answer, compiled, needs_compiler, record, run
from tests.device.rounding import device_model
from tests.device.test_cortex_m4 import needs_arm, needs_qemu

ROUNDS = 120
CASES = {
    "numbers": ("", "", "ofediq"),
    "on the grid": ("", "", "ofedgrid"),
    "gaps, flags, outliers": ("", 'flags = ["x1"]\ngaps = ["x0", "x2"]\nscaling = "robust"', "ofediq"),
    "a season": ("", 'baseline = "season(6)"\nlags = 2', "ofediq"),
    "the mean": ("", 'baseline = "mean"\nlags = 0', "ofediq"),
    "targets as they are": ("", 'baseline = "none"', "ofediq"),
    "dates": ("", "calendar = true", "ofediq"),
    "labels": ("classes = 3", "", "ofediq"),
    "labels on the grid": ("classes = 3", 'gaps = ["x1"]', "ofedgrid"),
    "labels of a season": ("classes = 4", 'baseline = "season(5)"\nlags = 1', "ofediq"),
    "the last label": ("classes = 3", 'baseline = "last"', "ofediq"),
    "labels as they are": ("classes = 3", 'baseline = "none"', "ofediq"),
    "a network": ('name = "mlp"\nhidden = [6]', "", "ofediq"),
    "a network of labels": ('name = "mlp"\nhidden = [6]\nclasses = 3', "", "ofediq"),
}


def server_of(folder: Path, model: str, features: str, method: str) -> Coordinator:
    """That of a federation.toml."""
    name = "" if "name" in model else 'name = "auto"\n'
    text = f"""
        name = "f"
        folder = "{folder}"
        [model]
        {name}features = 3
        {model}
        [features]
        {features}
        [method]
        key = "{method}"
        budget = 0.5
        """
    (folder / "federation.toml").write_text("\n".join(line.strip() for line in text.splitlines()))
    return assemble(FederationConfig.read(folder / "federation.toml"))


def task_of(folder: Path, model: str, features: str, method: str) -> Task:
    """What the server of such a federation.toml announces."""
    return server_of(folder, model, features, method).task


def samples(spec: ModelSpec, rng: np.random.Generator) -> Any:
    """Readings and labels that have to do with each other, with gaps, flags, jumps and spikes."""
    assert spec.pipeline is not None
    level, label = 1000.0, 0
    while True:
        x = rng.normal(0, [1.0, 100.0, 1e-3]).astype(np.float32)
        for place, name in enumerate(spec.pipeline.readings.names):
            if name in spec.pipeline.readings.flags:
                x[place] = rng.integers(2)
            if name in spec.pipeline.readings.gaps and rng.random() < 0.2:
                x[place] = rng.choice([np.nan, 9.97e36, -3e38])  # which all stand for no number
        level += rng.normal() * (50 if rng.random() < 0.02 else 1) + 0.3 * (x[0] if abs(x[0]) < 1e36 else 0.0)
        if rng.random() < 0.3:
            label = int(rng.integers(spec.classes or 2))
        spike = rng.normal(0, 100) if rng.random() < 0.05 else 0.0
        yield x, float(np.float32(level + spike)) if spec.classes is None else label


def played(task: Task, rng: np.random.Generator) -> tuple[list[bytes], list[Any], Learner]:
    """Records of a run, and what the Python client answers to each: bytes to say, or a prediction."""
    assert task.model is not None
    assert task.model.pipeline is not None
    learner, welcome = Learner("f", "c"), write_json(number=3)
    learner.receive("task", task.encode())
    learner.model = device_model(task.model.build())  # which rounds as devices do
    learner.receive("welcome", welcome)
    records = [record("t", task.encode()), record("w", welcome)]
    said: list[Any] = [b"", b""]
    model, source = learner.model.initial(0), samples(task.model, rng)
    scalars = {"grid_step": np.float32(pack(0.1, 1.0))} if task.method.server.scalars else {}
    for number in range(1, ROUNDS + 1):
        model = (model + rng.normal(0, 0.02, task.dim)).astype(np.float32)
        data = ModelMessage(7, number, 5, Down(model, {}, scalars)).encode(None)
        records.append(record("m", data))
        said.append(b"".join(one.payload for one in learner.receive("model", data)))
        (x, y), time = next(source), 1.7e9 + 3700.0 * number
        if task.model.pipeline.calendar:
            records.append(record("c", struct.pack("<d", time)))
            said.append(b"")
        if number % 3:  # a prediction whose label comes later, or a label alone
            records.append(record("p", x.tobytes()))
            said.append(float(learner.predict(x, time=time)))
        records.append(record("s", np.array([*x, y], np.float32).tobytes()))
        said.append(b"".join(one.payload for one in learner.learn(x, y, time=time)[1]))
    return records, said, learner


def parts(said: bytes) -> tuple[bytes, Report]:
    """A message without its report, which depends on predictions; and the report."""
    reported = len(said) > 1 and said[1] & 0x80
    end = 2 + REPORT_BYTES if reported else 2
    return said[:2] + said[end:], Report.decode(said[2:end]) if reported else Report()


def held_against(answers: list[Answer], said: list[Any]) -> None:
    """The updates bit for bit, predictions and what is reported of them about."""
    errors = np.zeros(2)  # a report is rounded down, and the rest waits for the next: sums are compared
    for answer, wanted in zip(answers, said, strict=True):
        if isinstance(wanted, float):
            assert struct.unpack("<f", answer.content)[0] == pytest.approx(wanted, rel=1e-6, abs=1e-5)
            continue
        (update, report), (wanted_update, wanted_report) = parts(answer.content), parts(wanted)
        assert update == wanted_update  # bit for bit
        assert (report.samples, report.naive) == (wanted_report.samples, wanted_report.naive)
        errors += report.error, wanted_report.error
    assert errors[0] == pytest.approx(errors[1], rel=0.03)


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_the_same_updates_from_the_same_readings(name: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, *CASES[name])
    records, said, learner = played(task, np.random.default_rng(4))
    held_against(run(compiled(task, tmp_path, *CHECKED), records), said)
    assert learner.sent > 5


@needs_arm
@needs_qemu
@pytest.mark.parametrize("name", ["gaps, flags, outliers", "dates", "labels on the grid"])
def test_a_cortex_m4_makes_the_same_features(name: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, *CASES[name])
    records, said, _ = played(task, np.random.default_rng(5))
    held_against(run(compiled(task, tmp_path, *CORTEX_M4, *BOARD, compiler=ARM), records, board=True), said)


def test_what_devices_cannot_predict_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`horizon`"):
        header(task_of(tmp_path, "", "horizon = 3", "ofediq"))
