"""Damaged and hostile input, under the sanitizers: refused, and nothing is harmed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from ofediq.codec import Encoded
from ofediq.federation.protocol.messages import ModelMessage, write_json
from ofediq.federation.protocol.task import ModelSpec
from ofediq.methods import delta, fedogd
from ofediq.methods.client import Down
from tests.device.replay import CHECKED, compiled, needs_compiler, record, run, task_of

SMALL = ModelSpec("softmax", (9,), "classification", 3)
WELCOME = write_json(number=0)
COUNT = int(os.environ.get("OFEDIQ_FUZZ_FRAMES", "1500"))


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """`data` with a few bytes changed, cut off or more of them."""
    kind, copy = rng.integers(4), bytearray(data)
    if kind == 0:
        return bytes(copy[: rng.integers(len(copy) + 1)])
    if kind == 1:
        return bytes(copy) + rng.bytes(int(rng.integers(1, 9)))
    for place in rng.integers(0, max(len(copy), 1), int(rng.integers(1, 4))).tolist():
        copy[place] = int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))]))
    return bytes(copy)


@needs_compiler
def test_damaged_messages_are_refused_and_the_next_whole_model_helps(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for case, how in enumerate((delta(7, 1), delta(3, 15), delta(2, 10, coding="packed"))):
        task = task_of(replace(fedogd(0.1), broadcast=how), SMALL)[0]
        model = np.zeros(task.dim, np.float32)
        whole = ModelMessage(7, 1, 4, Down(model, {}, {})).encode()
        sample = record("s", np.array([*np.arange(9), 1], np.float32).tobytes())
        records = [record("t", task.encode()), record("w", WELCOME)]
        for number in range(COUNT // 3):
            encoded, _ = how.encode(rng.normal(size=task.dim).astype(np.float32), model, 5, 1, 1)
            sealed = Encoded(damaged(encoded.payload, rng), int(encoded.tail))
            difference = ModelMessage(7, 2, 4, Down(model, {}, {})).encode(sealed)
            what = [sample, record("t", damaged(task.encode(), rng)), record("w", damaged(WELCOME, rng))]
            what += [
                record("m", damaged(whole, rng)),
                record("m", damaged(difference, rng)),
                record("m", difference),
            ]
            fresh = ModelMessage(8 + number, 1, 4, Down(model, {}, {})).encode()
            records += [
                record("t", task.encode()),
                record("m", fresh),
                *(what[i] for i in rng.integers(0, 6, 4)),
            ]
        opened = ModelMessage(10**9, 1, 4, Down(model, {}, {})).encode()
        records += [record("t", task.encode()), record("w", WELCOME), record("m", opened), sample]
        answers = run(compiled(task, tmp_path / str(case), *CHECKED), records)
        assert len(answers) == len(records)
        assert {-1, -2, 0, 1} <= {answer.result for answer in answers}
        assert answers[-1].result == 1
        assert len(answers[-1].content) == 2 + 4 + 7 + 4 * task.dim  # low bits of the step, report, frame
