from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ofediq.cli import programs

RUN = [
    *("run", "--dataset", "synthetic", "--clients", "3", "--steps", "20", "--json"),
    "--methods",
    "topk_ef",
]

# However fast it was compiled: what takes 0.2 seconds differs from run to run on a busy machine.
EVERY_PROGRAM = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def _run(tmp_path: Path, out: str) -> dict[str, Any]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    done = subprocess.run(
        [sys.executable, "-m", "ofediq", *RUN, "--out", str(tmp_path / out)],
        env={**plain, "OFEDIQ_CACHE": str(tmp_path / "cache"), **EVERY_PROGRAM},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return dict(json.loads(done.stdout)["methods"]["topk_ef"])


def test_a_second_run_finds_the_programs_of_the_first_and_the_same_numbers(tmp_path: Path) -> None:
    first = _run(tmp_path, "first")
    (folder,) = (tmp_path / "cache").glob("programs-*")
    made = {one.name for one in folder.iterdir() if one.name.endswith("-cache")}
    assert made
    assert folder.stat().st_mode & 0o077 == 0
    second = _run(tmp_path, "second")
    assert {one.name for one in folder.iterdir() if one.name.endswith("-cache")} == made
    assert {key: first[key] for key in ("loss", "bits_wire")} == {
        key: second[key] for key in ("loss", "bits_wire")
    }


@pytest.mark.parametrize("cache", ["/dev/null/nowhere", "/proc/nowhere"])
def test_without_a_place_to_write_there_are_none(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFEDIQ_CACHE", cache)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    programs.keep_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_a_folder_that_has_grown_too_large_loses_its_oldest_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_MOST", 1000)
    for age in range(12):
        (tmp_path / f"{age}").write_bytes(b"x" * 100)
        os.utime(tmp_path / f"{age}", (10_000 - age, 10_000 - age))
    programs._prune(tmp_path)
    assert sorted(int(one.name) for one in tmp_path.iterdir()) == [0, 1, 2, 3, 4]
    programs._prune(tmp_path)
    assert len(list(tmp_path.iterdir())) == 5
