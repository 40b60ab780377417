"""Compile the C client for a task and run it on recorded input, beside the Python client."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ofediq.device import header
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import ModelMessage, write_json
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.methods import Method
from ofediq.methods.client import Down
from tests.device.rounding import DeviceModel

SOURCES = Path(__file__).resolve().parents[2] / "device"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")
CHECKED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")

ARM = "arm-none-eabi-gcc"
CORTEX_M4 = ("-O2", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
BOARD = ("--specs=rdimon.specs", str(SOURCES / "arm/startup.c"), f"-T{SOURCES / 'arm/mps2.ld'}")
MACHINE = ("qemu-system-arm", "-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none")

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) here")


class Answer(NamedTuple):
    """What a call of the C client returned."""

    result: int
    content: bytes


def compiled(task: Task, folder: Path, *flags: str, compiler: str = "cc", main: str = "replay.c") -> Path:
    """The program `main` for `task`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ofediq_config.h").write_text(header(task))
    program = folder / "replay"
    files = [str(SOURCES / "ofediq.c"), str(SOURCES / main)]
    command = [compiler, *STRICT, f"-I{folder}", f"-I{SOURCES}", *files, *flags, "-o", str(program), "-lm"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
    return program


def record(kind: str, content: bytes = b"") -> bytes:
    """One record of the input."""
    return kind.encode() + struct.pack("<I", len(content)) + content


def on_board(program: Path, *arguments: object) -> list[str]:
    """The command that runs a program of the Cortex-M4, which reads and writes files of this machine."""
    given = "".join(f",arg={one}" for one in (program.name, *arguments))
    return [*MACHINE, "-semihosting-config", f"enable=on,target=native{given}", "-kernel", str(program)]


def run(program: Path, records: Iterable[bytes], board: bool = False) -> list[Answer]:
    """The answers to `records`."""
    given, taken = program.with_suffix(".in"), program.with_suffix(".out")
    given.write_bytes(b"".join(records))
    command = on_board(program, given, taken) if board else [str(program), str(given), str(taken)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return answers(taken.read_bytes())


def answers(data: bytes) -> list[Answer]:
    """The answers in what the program wrote."""
    found = []
    while data:
        result, size = struct.unpack_from("<bI", data)
        found.append(Answer(result, data[5 : 5 + size]))
        data = data[5 + size :]
    return found


def task_of(method: Method, spec: ModelSpec, seed: int = 5, **more: Any) -> tuple[Task, Task]:
    """The task as a server announces it, and the same for a Python client that rounds as devices do."""
    return Task.of(method, spec, seed, **more), Task.of(method, DeviceModel(spec.build()), seed, **more)


def play(
    tasks: tuple[Task, Task], rounds: list[tuple[ModelMessage, list[Any]]], number: int
) -> tuple[list[bytes], list[bytes], Learner]:
    """Records of `rounds` (a broadcast and samples, None for none), and what the Python client says to each."""
    announced, pinned = tasks
    assert announced.model is not None
    given = DeviceModel(announced.model.build()) if pinned.model is None else None
    learner = Learner("f", "c", model=given)
    welcome = write_json(number=number)
    learner.receive("task", pinned.encode())
    learner.receive("welcome", welcome)
    records, said = [record("t", announced.encode()), record("w", welcome)], [b"", b""]
    for opened, samples in rounds:
        data = opened.encode(opened.difference)
        records.append(record("m", data))
        said.append(b"".join(one.payload for one in learner.receive("model", data)))
        for sample in samples:
            if sample is None:
                records.append(record("k"))
                said.append(b"".join(one.payload for one in learner.skip()))
                continue
            x, y = sample
            records.append(record("s", np.array([*np.ravel(x), y], np.float32).tobytes()))
            said.append(b"".join(one.payload for one in learner.learn(x, y)[1]))
    return records, said, learner


def broadcasts(
    task: Task, count: int, clients: int, signal: float | None, rng: np.random.Generator, samples: int = 1
) -> list[tuple[ModelMessage, list[Any]]]:
    """Rounds with a model that wanders, and `samples` of normal numbers in each; now and then one is missing."""
    assert task.model is not None
    period, features = task.method.period, int(np.prod(task.model.shape))
    model = task.model.build().initial(1)
    rounds: list[tuple[ModelMessage, list[Any]]] = []
    for number in range(1, count + 1):
        model = (model + rng.normal(0, 0.1, task.dim)).astype(np.float32)
        scalars = {} if signal is None else {"grid_step": np.float32(signal)}
        opened = ModelMessage(7, number * period, clients, Down(model, {}, scalars))
        given: list[Any] = []
        for _ in range(max(samples, period)):
            x = rng.normal(0, 1, features).astype(np.float32).reshape(task.model.shape)
            y = float(rng.normal()) if task.model.classes is None else int(rng.integers(task.model.classes))
            given.append(None if rng.random() < 0.1 else (x, y))
        rounds.append((opened, given))
    return rounds
