"""A package that is not ours brings a method in one file: every command knows it by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging

SOURCE = '''
"""Gradients with a momentum that every client keeps for itself."""

from dataclasses import dataclass

import numpy as np

from ofediq.arrays import namespace
from ofediq.methods import Method, bernoulli, descend, method, named
from ofediq.methods.client import ClientRule
from ofediq.methods.pieces import piece


@piece
@dataclass(frozen=True)
class HeavyClient(ClientRule):
    """m <- decay m + u; sends m."""

    decay: float
    idle = False

    def memory(self, params):
        return {"momentum": namespace(params).zeros_like(params)}

    def finish(self, window, down, memory):
        return {"update": np.float32(self.decay) * memory["momentum"] + window.gradients}

    def settle(self, memory, window, outcome, down):
        return {"momentum": np.float32(self.decay) * memory["momentum"] + window.gradients}


@named("heavy_client", source="a stranger", memory="a momentum of D numbers")
def heavy_client(decay: float = 0.5, rate: float = 1.0, step_size: float = 0.01) -> Method:
    """Every client sends a momentum of its own gradients.

    Args:
        decay: of the momentum.
        rate: probability of sending.
        step_size: eta.
    """
    return method(HeavyClient(decay), descend(step_size), bernoulli(rate), name="Heavy client")
'''

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "heavy-client"
version = "1.0"

[project.entry-points."ofediq.methods"]
heavy_client = "heavy_client:heavy_client"

[tool.hatch.build.targets.wheel]
include = ["heavy_client.py"]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds the package."""
    project, target = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("installed")
    (project / "heavy_client.py").write_text(SOURCE)
    (project / "pyproject.toml").write_text(PROJECT)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(target), str(project)], check=True, timeout=120)
    path = os.pathsep.join([str(target), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "120"}


def run(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_has_a_page(installed: dict[str, str]) -> None:
    (found,) = [
        one
        for one in json.loads(run(installed, "-m", "ofediq", "methods", "--json"))
        if one["name"] == "heavy_client"
    ]
    assert (found["memory"], found["source"]) == ("a momentum of D numbers", "a stranger")
    assert [one["name"] for one in found["parameters"]] == ["decay", "rate", "step_size"]
    assert "decay" in run(installed, "-m", "ofediq", "methods", "heavy_client")


def test_it_keeps_every_contract(installed: dict[str, str]) -> None:
    code = (
        "from ofediq import methods, testing; "
        "print(testing.check_method(methods.make('heavy_client(rate=0.5, step_size=0.1)')).ok)"
    )
    assert run(installed, "-c", code) == "True\n"


def test_run_and_frontier_take_it(installed: dict[str, str], tmp_path: Path) -> None:
    small = ["--clients", "5", "--steps", "12", "--json"]
    chosen = ["--methods", "fedogd,heavy_client(decay=0.9)"]
    ran = run(
        installed, "-m", "ofediq", "run", *chosen, *small, "--no-regret", "--out", str(tmp_path / "run")
    )
    assert "heavy_client(decay=0.9)" in ran
    assert json.loads(ran)["methods"]["heavy_client(decay=0.9)"]["senders_per_step"] == 5
    swept = run(
        installed,
        "-m",
        "ofediq",
        "frontier",
        "--methods",
        "ofediq,heavy_client(decay=0.9)",  # one that has a budget, and one that costs what it costs
        *small,
        "--budgets",
        "0.1",
        "--out",
        str(tmp_path / "f"),
    )
    assert "heavy_client(decay=0.9)" in swept


def test_a_live_federation_takes_it(installed: dict[str, str], tmp_path: Path) -> None:
    arguments = ["--method", "heavy_client", "--clients", "2", "--rounds", "3", "--no-page", "--json"]
    said = run(installed, "-m", "ofediq", "up", *arguments, "--out", str(tmp_path / "up"))
    assert json.loads(said)["totals"]["updates"] == 6
