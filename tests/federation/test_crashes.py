"""A process that is killed anywhere while it saves leaves what was there before, or what it was about to write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.federation.crashes import CASES

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
@pytest.mark.parametrize("case", CASES)
def test_whoever_is_killed_while_it_saves_loses_nothing(case: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.federation.crashes", case, str(tmp_path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert not found.returncode, found.stderr
    assert int(found.stdout) > 20  # places at which it was killed
