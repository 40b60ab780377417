"""The C client on a Cortex-M4, emulated: the same bytes again, and in the memory that it promises."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ofediq.device import header
from tests.device.replay import ARM, BOARD, CORTEX_M4, SOURCES, broadcasts, compiled, play, run, task_of
from tests.device.test_client import CASES

needs_arm = pytest.mark.skipif(
    shutil.which(ARM) is None, reason=f"no {ARM} here (Debian: gcc-arm-none-eabi libnewlib-arm-none-eabi)"
)
needs_qemu = pytest.mark.skipif(
    shutil.which("qemu-system-arm") is None, reason="no qemu-system-arm here (Debian: qemu-system-arm)"
)


@needs_arm
@needs_qemu
@pytest.mark.parametrize("name", ["grid", "fine grid", "many levels", "short norms", "small grid"])
def test_a_cortex_m4_says_the_same_bytes(name: str, tmp_path: Path) -> None:
    method, spec, signal = CASES[name]
    tasks = task_of(method, spec)
    records, said, learner = play(tasks, broadcasts(tasks[0], 20, 7, signal, np.random.default_rng(4)), 3)
    program = compiled(tasks[0], tmp_path, *CORTEX_M4, *BOARD, compiler=ARM)
    assert [answer.content for answer in run(program, records, board=True)] == said
    assert learner.sent > 3


@needs_arm
@pytest.mark.parametrize("name", ["grid", "packed", "short norms"])
def test_code_and_memory_stay_below_64_kb_for_650_parameters(name: str, tmp_path: Path) -> None:
    method, spec, _ = CASES[name]
    task = task_of(method, spec)[0]
    assert task.dim == 650
    (tmp_path / "ofediq_config.h").write_text(header(task))
    (tmp_path / "all.c").write_text('#include "ofediq.c"\nofediq_client client;\n')
    command = [
        ARM,
        "-std=c99",
        *CORTEX_M4,
        "-Os",
        f"-I{tmp_path}",
        f"-I{SOURCES}",
        "-c",
        "all.c",
        "-o",
        "all.o",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    sizes = subprocess.run(
        ["arm-none-eabi-size", "all.o"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    text, data, bss = map(int, sizes.stdout.splitlines()[1].split()[:3])
    assert bss > 4 * 650  # the client is in there
    assert (
        text + data + bss < 24 * 1024
    )  # 64 kB with the compiler's and the C library's parts, stack and network
