"""What is not installed is named, with the extra that brings it; importing the adapters needs none of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ofediq import models
from ofediq.errors import MissingExtraError


@pytest.mark.parametrize(
    ("library", "extra", "call"),
    [
        ("jax", "sim", lambda: models.from_loss(max, [0.0], task="regression")),
        ("flax.linen", "flax", lambda: models.from_flax(None, (3,), "regression")),
        ("equinox", "equinox", lambda: models.from_equinox(None, "regression")),
        ("torch", "torch", lambda: models.from_torch(None, "regression")),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    library: str, extra: str, call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # an import of it fails from here on
    name = library.split(".")[0]
    with pytest.raises(MissingExtraError, match=rf"^{name} is not installed.*ofediq\[{extra}\]"):
        call()


def test_importing_models_imports_no_framework() -> None:
    code = "import sys, ofediq.models; print(*{'jax', 'flax', 'equinox', 'torch'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
