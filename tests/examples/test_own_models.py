"""The examples that bring a model of their own run, learn, and send what they say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, **sizes: int) -> Any:
    return runpy.run_path(str(EXAMPLES / name))["main"](**sizes)


def test_own_jax_model(capsys: pytest.CaptureFixture[str]) -> None:
    results = run("own_jax_model.py", clients=20, steps=60)
    assert results["FedOGD"].accuracy[-1] > 0.6  # a guess scores 0.1
    assert results["OFedIQ"].bits_wire.sum() < 0.1 * results["FedOGD"].bits_wire.sum()  # 5 % on average
    assert capsys.readouterr().out.count("accuracy") == 2


@pytest.mark.parametrize(
    ("name", "library"), [("own_flax_model.py", "flax"), ("own_torch_model.py", "torch")]
)
def test_own_module(name: str, library: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(library, reason=f"needs the extra ofediq[{library}]")
    result = run(name, clients=20, steps=60)
    assert result.accuracy[-1] > 0.3
    assert result.model.dim == 10 * 8 + (8 * 8 * 8 + 1) * 10  # eight 3x3 filters, one dense layer
    assert "5210 parameters" in capsys.readouterr().out
