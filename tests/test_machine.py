"""Cores and memory, with and without a container around."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ofediq import machine


@pytest.mark.parametrize(
    ("cpu", "expected"), [("max 100000", None), ("50000 100000", 1), ("100000 100000", 1), ("odd", None)]
)
def test_a_container_may_give_fewer_cores(
    cpu: str, expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_CONTAINER", tmp_path / "none")
    free = machine.cores()
    monkeypatch.setattr(machine, "_CONTAINER", tmp_path)
    (tmp_path / "cpu.max").write_text(cpu + "\n")
    assert machine.cores() == (free if expected is None else expected)


@pytest.mark.parametrize(("limit", "expected"), [("max", None), ("67108864", 2**26), (str(2**60), None)])
def test_a_container_may_give_less_memory(
    limit: str, expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_CONTAINER", tmp_path / "none")
    free = machine.memory()
    monkeypatch.setattr(machine, "_CONTAINER", tmp_path)
    (tmp_path / "memory.max").write_text(limit + "\n")
    assert machine.memory() == (free if expected is None else expected)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_memory_is_kept_where_it_is_needed_again_and_again() -> None:
    program = """
import resource
import numpy as np
from ofediq.machine import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        rows = [np.ones(500_000) for _ in range(6)]
        del rows
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
keep_freed_memory()
faults()
print(before, faults())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 10_000  # 24 MB, ten times, in pages of 4 kB
    assert after < 0.1 * before
