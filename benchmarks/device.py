"""What the C client takes on a Cortex-M4: code, memory, stack, and instructions for each call, counted under qemu.

Needs Debian's gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm. Code is that of `device/ofediq.c` (-Os)
with all that it draws from the compiler's and the C library's arithmetic; memory is one client; stack is the sum
of the eight largest frames, as the compiler reports them: no call is deeper. Instructions (-O2) are no cycles: qemu
does not know the pipeline, wait states of the flash or divisions of many cycles.

Before that: how often a Python client with the built-in model, whose products round as NumPy's library likes, says
the same bytes as the C client. With the arithmetic of `tests/device/rounding.py` it is always.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from tests.device.replay import ARM, BOARD, CORTEX_M4, SOURCES, broadcasts, compiled, on_board, play, run

from ofediq.device import header
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.methods import Method, at_budget, fedogd, mixed, ofedgrid, ofediq, untuned
from ofediq.methods.budgets.loudness import pack
from ofediq.streams.features import pipeline_for

DIGITS = ModelSpec("softmax", (8, 8), "classification", 10)
ROOM = ModelSpec("mlp", (14,), "classification", 4, (64, 64))
PM25 = ModelSpec("linear", (25,), "regression")
SMALL = ModelSpec("mlp", (25,), "regression", None, (16, 16))

SENSORS = ModelSpec("auto", (6,), "regression", pipeline=pipeline_for(tuple("abcdef")))
STATES = ModelSpec("auto", (6,), "classification", 4, pipeline=pipeline_for(tuple("abcdef"), classes=4))


def auto(key: str, spec: ModelSpec) -> Method:
    """What preset auto makes of a method."""
    dim, outputs = spec.build().dim, spec.classes or 1
    return mixed(untuned(at_budget(key, 0.5, dim, 10, steps=1000)), dim, 10, outputs)


CONFIGURATIONS: dict[str, tuple[Method, ModelSpec]] = {
    "OFedGrid, softmax": (ofedgrid(1000.0), DIGITS),
    "OFedIQ, softmax, packed": (ofediq(0.5, 3, 14), DIGITS),
    "OFedIQ, softmax, entropy": (ofediq(0.5, 3, 14, coding="entropy", norm_bits=16), DIGITS),
    "OFedIQ, softmax, period 5": (ofediq(0.5, 3, 14, period=5), DIGITS),
    "FedOGD, softmax": (fedogd(), DIGITS),
    "OFedGrid, linear": (ofedgrid(1000.0), PM25),
    "OFedGrid, mlp 16 x 16": (ofedgrid(1000.0), SMALL),
    "OFedGrid, mlp 64 x 64": (ofedgrid(1000.0), ROOM),
    "auto, 6 readings": (auto("ofediq", SENSORS), SENSORS),
    "auto, 6 readings, grid": (auto("ofedgrid", SENSORS), SENSORS),
    "auto, 6 readings, 4 labels": (auto("ofediq", STATES), STATES),
}
LIMIT = 64 * 1024


def main() -> None:
    """Print a table, a row for each configuration."""
    if shutil.which("cc") is not None:
        for name in ("OFedGrid, softmax", "OFedIQ, softmax, packed"):
            same, sent = _same_messages(*CONFIGURATIONS[name])
            print(
                f"{name}: {same} of {sent} messages have the bytes of a Python client with the built-in model"
            )
    if shutil.which(ARM) is None or shutil.which("qemu-system-arm") is None:
        print(f"skipped: it needs {ARM} and qemu-system-arm")
        return
    columns = ("D", "code", "memory", "stack", "together", "model", "learn", "with sending", "bytes sent")
    print(f"{'':27s}" + "".join(f"{name:>13s}" for name in columns))
    for name, (method, spec) in CONFIGURATIONS.items():
        task = Task.of(method, spec, seed=0)
        with tempfile.TemporaryDirectory() as folder:
            code, client, stack = _sizes(task, Path(folder))
            counted = _instructions(task, Path(folder))
        together = code + client + stack
        numbers = [task.dim, code, client, stack, together]
        numbers += [counted.get(key, 0) for key in ("model", "learn", "learn_and_send", "bytes")]
        print(f"{name:27s}" + "".join(f"{number:13,d}" for number in numbers), flush=True)
        assert task.dim > 650 or together < LIMIT, f"{name}: {together} bytes are more than 64 kB"


def _same_messages(method: Method, spec: ModelSpec) -> tuple[int, int]:
    """Messages of the C client that a Python client with the built-in model says too, of how many."""
    task, signal = Task.of(method, spec, seed=0), float(pack(0.5)) if method.server.scalars else None
    records, said, _ = play(
        (task, task), broadcasts(task, 300, 7, signal, np.random.default_rng(0)), number=3
    )
    with tempfile.TemporaryDirectory() as folder:
        made = [answer.content for answer in run(compiled(task, Path(folder)), records)]
    spoken = [pair for pair in zip(made, said, strict=True) if pair[0]]
    return sum(one == other for one, other in spoken), len(spoken)


def _compile(task: Task, folder: Path, *arguments: str) -> None:
    (folder / "ofediq_config.h").write_text(header(task))
    command = [ARM, "-std=c99", *CORTEX_M4, f"-I{folder}", f"-I{SOURCES}", *arguments]
    subprocess.run(command, cwd=folder, check=True, timeout=120)


def _sizes(task: Task, folder: Path) -> tuple[int, int, int]:
    """Bytes of code, of a client and of the deepest stack."""
    calls = ("start", "task", "welcome", "model", "predict", "learn", "skip", "farewell")
    kept = [f"-Wl,-u,ofediq_{call}" for call in calls]
    (folder / "alone.c").write_text(
        '#include "ofediq.c"\nofediq_client client;\nint main(void) { return 0; }\n'
    )
    sections = (
        "-Os",
        "-ffunction-sections",
        "-fdata-sections",
        "-fstack-usage",
        "-nostartfiles",
        "-Wl,--gc-sections",
    )
    _compile(
        task, folder, *sections, *kept, "-Wl,-u,client", "-Wl,-e,main", "alone.c", "-lm", "-o", "alone.elf"
    )
    listed = subprocess.run(
        ["arm-none-eabi-size", "alone.elf"], cwd=folder, check=True, capture_output=True, text=True
    )
    text, data, bss = map(int, listed.stdout.splitlines()[1].split()[:3])
    usage = next(folder.glob("*.su")).read_text().splitlines()
    frames = sorted((int(line.split("\t")[1]) for line in usage), reverse=True)
    return text + data, bss, sum(frames[:8])


def _instructions(task: Task, folder: Path) -> dict[str, int]:
    """Mean instructions of each call, and bytes of a message."""
    files = [str(SOURCES / "ofediq.c"), str(SOURCES / "arm/measure.c")]
    _compile(task, folder, "-O2", *files, *BOARD, "-lm", "-o", "measure.elf")
    command = [*on_board(folder / "measure.elf"), "-icount", "shift=0"]
    printed = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout
    return {line.split()[0]: int(line.split()[1]) for line in printed.splitlines() if line.strip()}


if __name__ == "__main__":
    main()
