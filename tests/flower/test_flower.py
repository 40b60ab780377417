"""Flower's own simulation with our mod and strategy, beside a `Swarm` of the same method.

Flower pins older versions of packages that the other tests use, so it has an environment of its own: `make flower`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.peers.environments import made

ROOT = Path(__file__).parents[2]
EXACT = ("fedogd", "ofediq", "scaffold(period=1)", "ef21_sgdm", "topk_ef", "ofediq+delta")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    python = Path(sys.executable) if importlib.util.find_spec("flwr") else made("ofediq-flower")
    if python is None:
        pytest.skip("needs Flower, which has an environment of its own: `make flower`")
    out = tmp_path_factory.mktemp("flower") / "found.json"
    away = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}  # nothing leaves this machine
    away |= {"XLA_FLAGS": ""}  # another JAX may not know those of this one, and would end
    done = subprocess.run(
        [python, "-m", "tests.flower.federation", out, *EXACT, "ofedgrid", "ofediq+delta+faults"],
        cwd=ROOT,
        env={**os.environ, **away, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


@pytest.mark.parametrize("name", EXACT)
def test_a_method_in_flower_is_the_method(found: Any, name: str) -> None:
    flower, swarm = found[name]["flower"], found[name]["swarm"]
    assert [one["ofediq-bits-wire"] for one in flower["rounds"]] == swarm["bits"]
    # The app's update is a difference of two models: its last bits are rounded.
    np.testing.assert_allclose(flower["params"], swarm["params"], atol=1e-5)


def test_bits_that_depend_on_values_are_nearly_the_same(found: Any) -> None:
    bits = [one["ofediq-bits-wire"] for one in found["ofedgrid"]["flower"]["rounds"]]
    assert sum(bits) == pytest.approx(sum(found["ofedgrid"]["swarm"]["bits"]), rel=0.1)


def test_flower_sees_frames_and_no_arrays(found: Any) -> None:
    for name in EXACT:
        for one in found[name]["flower"]["rounds"]:
            assert one.get("arrays-left", 0) == 0
            assert one["flower-bytes-up"] >= one["ofediq-bits-wire"] / 8


def test_methods_and_models_are_sent_once(found: Any) -> None:
    rounds = found["ofediq+delta"]["flower"]["rounds"]
    assert (
        [one["task"] for one in rounds] == [one["whole"] for one in rounds] == [1] + [0] * (len(rounds) - 1)
    )
    assert rounds[1]["flower-bytes-down"] < rounds[0]["flower-bytes-down"] / 2


def test_who_forgot_or_failed_is_told_everything_again(found: Any) -> None:
    rounds = found["ofediq+delta+faults"]["flower"]["rounds"]
    told = [round(one["task"] * one["ofediq-answers"]) for one in rounds]
    assert told == [3, 0, 0, 1, 1, 0]  # after client 1 forgot in round 3, and client 2 failed in round 4
    assert np.isfinite(found["ofediq+delta+faults"]["flower"]["params"]).all()
