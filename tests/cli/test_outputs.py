from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

METHODS = [sys.executable, "-m", "ofediq", "methods"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_is_full_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            METHODS, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert (done.returncode, done.stderr) == (
        2,
        "ofediq: error: the system refuses: No space left on device\n",
    )


def test_a_pipe_that_nobody_reads_ends_a_command_in_silence() -> None:
    process = subprocess.Popen(METHODS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=120), said) == (1, "")
