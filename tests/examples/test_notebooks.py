"""The notebooks run from top to bottom, and lie in the repository as they ran, with small outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def test_there_are_two() -> None:
    assert NAMES == ["fleet", "researcher"]


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_kept_and_small(name: str) -> None:
    path = FOLDER / f"{name}.ipynb"
    assert path.stat().st_size < 100_000
    cells = [
        cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"
    ]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


@pytest.mark.parametrize("name", NAMES)
def test_runs(name: str) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the notebooks need nbformat, nbclient and ipykernel")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    before = _shown(notebook)
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3"
    ).execute()  # a cell that fails raises
    assert _shown(notebook) == before


def _shown(notebook: Any) -> list[int]:
    """How many kinds of output each cell has, beside what a slow machine may say in its log."""
    kinds = (
        {(one["output_type"], one.get("name")) for one in cell.get("outputs", ())} for cell in notebook.cells
    )
    return [len(some - {("stream", "stderr")}) for some in kinds]
