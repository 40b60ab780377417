from __future__ import annotations

import os
from pathlib import Path

import pytest

from ofediq.streams.locate import find
from ofediq.streams.sources import ABOUT


@pytest.fixture
def real_data(request: pytest.FixtureRequest) -> str:
    """The dataset name in `request.param`; skips the test when its files are not here."""
    name: str = request.param
    for source in ABOUT[name].sources:
        if "OFEDIQ_DATA" not in os.environ or find(source) is None:
            pytest.skip(f"{source.name} is not here: set OFEDIQ_DATA to a directory that holds it")
    return name


@pytest.fixture
def empty_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Fresh directories for OFEDIQ_DATA and OFEDIQ_CACHE; the cache does not exist yet."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("OFEDIQ_DATA", str(data))
    monkeypatch.setenv("OFEDIQ_CACHE", str(cache))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return data, cache
