"""Folders that appear whole or not at all, with secrets that nobody else may read at any moment."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ofediq.errors import refusing
from ofediq.storage import save_bytes, sync_folder


def store_folder(home: Path, public: Mapping[str, bytes], secret: Mapping[str, bytes]) -> None:
    """Make the folder `home`, or replace it, with these files in it; it never holds a part of them.

    Other files in a replaced folder stay. Secret files are for their owner alone, and so is the folder.
    """
    with refusing("folder", "a writable folder", home.parent):
        home.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
        try:
            for name, content in public.items():
                save_bytes(beside / name, content, mode=0o644)
            for name, content in secret.items():
                save_bytes(beside / name, content, mode=0o600)
            _swap(beside, home)
            sync_folder(home.parent)
        except OSError:
            shutil.rmtree(beside, ignore_errors=True)
            raise


def _swap(beside: Path, home: Path) -> None:
    if not home.exists():
        beside.rename(home)
        return
    for other in home.iterdir():
        if other.is_file() and not (beside / other.name).exists():
            shutil.copy2(other, beside / other.name)
    old = beside.with_name(beside.name + ".old")
    home.rename(old)
    beside.rename(home)
    shutil.rmtree(old)
