"""Cores and memory, with and without a container around."""

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
