"""A wheel with compiled kernels, where no compiler is."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ofediq.simulation.native import native_status

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    not native_status().startswith("compiled") or platform.machine() not in ("x86_64", "aarch64"),
    reason=native_status(),
)


def test_kernels_of_a_wheel_need_no_compiler(tmp_path: Path) -> None:
    machine = platform.machine()
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(
        build, env={**os.environ, "OFEDIQ_WHEEL": machine}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    (wheel,) = tmp_path.glob(f"ofediq-*-py3-none-manylinux_*_{machine}.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    code = (
        "from ofediq import methods, models, streams; from ofediq.simulation import native_status, simulate;"
        "print(native_status()); stream = streams.partition(streams.load('digits'), clients=9, steps=3);"
        "method = methods.make('ofediq(rate=.5, levels=3, blocks=9)');"
        "print(simulate(method, stream, models.mlp_classifier(64, 10)).engine)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "PATH": "/nowhere"}
    environment |= {"OFEDIQ_CACHE": str(tmp_path / "cache")}
    environment.pop("CC", None)
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    status, engine = shown.stdout.splitlines()
    assert str(tmp_path / "installed") in status
    assert engine == "compiled kernels"
