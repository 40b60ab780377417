"""Coverage-guided fuzzing of the C client (libFuzzer, with the address and undefined behaviour sanitizers).

Every configuration starts from real conversations: broadcasts, samples, predictions. Needs Debian's clang.
`OFEDIQ_FUZZ_SECONDS` is for each of them; a finding ends the run, and its input is kept.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.device.replay import SOURCES
from tests.device.test_damage import SMALL

from ofediq.device import header
from ofediq.federation.protocol.messages import ModelMessage
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.methods import at_budget, delta, mixed, ofediq, untuned
from ofediq.methods.client import Down
from ofediq.streams.features import pipeline_for

SECONDS = int(os.environ.get("OFEDIQ_FUZZ_SECONDS", "60"))
FLAGS = ("-std=c99", "-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined")
PREDICT, LEARN, MODEL = 5, 6, 3  # calls of device/fuzz.c
SENSORS = ModelSpec(
    "auto", (3,), "regression", pipeline=pipeline_for(tuple("abc"), flags=("b",), gaps=("a", "c"))
)
STATES = ModelSpec("auto", (3,), "classification", 3, pipeline=pipeline_for(tuple("abc"), classes=3))


def tasks() -> dict[str, Task]:
    """What is fuzzed."""
    coded = ofediq(0.9, 3, 4, coding="entropy", norm_bits=16)
    found = {
        name: Task.of(replace(coded, broadcast=how), SMALL, seed=5)
        for name, how in (
            ("differences", delta(7, 1)),
            ("in blocks", delta(3, 15)),
            ("packed", delta(2, 10, coding="packed")),
        )
    }
    for name, key, spec in (("readings", "ofedgrid", SENSORS), ("labels", "ofediq", STATES)):
        dim, outputs = spec.build().dim, spec.classes or 1
        method = mixed(untuned(at_budget(key, 0.5, dim, 5, steps=1000)), dim, 5, outputs)
        found[name] = Task.of(method, spec, seed=5)
    return found


def conversation(task: Task, rng: np.random.Generator) -> bytes:
    """Three rounds, as `device/fuzz.c` reads them."""
    assert task.model is not None
    scalars = {name: np.float32(0.1) for name in task.method.server.scalars}
    broadcast: Any = task.method.broadcast
    model, inputs = np.zeros(task.dim, np.float32), int(np.prod(task.model.shape))
    made = _call(MODEL, ModelMessage(0, 1, 4, Down(model, {}, scalars)).encode())
    for step in range(1, 4):
        made += _call(PREDICT, rng.normal(size=inputs).astype(np.float32).tobytes())
        made += _call(
            LEARN + 9 * int(rng.integers(3)), rng.normal(size=inputs + 1).astype(np.float32).tobytes()
        )
        sealed = None
        if hasattr(broadcast, "quantizer"):
            moved = (rng.normal(size=task.dim) * (rng.random(task.dim) < rng.random())).astype(np.float32)
            sealed = broadcast.encode(moved, model, 5, step, step)[0]
        made += _call(MODEL, ModelMessage(0, step + 1, 4, Down(model, {}, scalars)).encode(sealed))
    return made


def _call(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + struct.pack("<H", len(content)) + content


def main() -> None:
    """Fuzz every configuration for a while."""
    if shutil.which("clang") is None:
        print("skipped: it needs clang")
        return
    for name, task in tasks().items():
        folder, rng = Path(tempfile.mkdtemp(prefix="ofediq-fuzz-")), np.random.default_rng(0)
        (folder / "ofediq_config.h").write_text(header(task))
        (folder / "corpus").mkdir()
        for number in range(12):
            (folder / "corpus" / str(number)).write_bytes(conversation(task, rng))
        command = [
            "clang",
            *FLAGS,
            f"-I{folder}",
            f"-I{SOURCES}",
            str(SOURCES / "fuzz.c"),
            "-lm",
            "-o",
            "fuzz",
        ]
        subprocess.run(command, cwd=folder, check=True, timeout=300)
        options = [f"-max_total_time={SECONDS}", "-max_len=4000", "-timeout=30"]
        done = subprocess.run(
            ["./fuzz", *options, "corpus"], cwd=folder, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{name}: a finding, see {folder}\n{done.stderr[-3000:]}")
        last = next(line for line in reversed(done.stderr.splitlines()) if "DONE" in line)
        print(
            f"{name}: {last.split('#')[1].split()[0]} inputs, {last.split('cov: ')[1].split()[0]} edges, no finding"
        )
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
