"""Files that appear whole or not at all: an interrupted or failed write leaves the previous one as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` to write to; it takes the place of `path` in one move when the block ends well.

    What the system refuses is raised as `OSError`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replaced(Path(folder) / "state") as file:
    ...         _ = file.write(b"whole")
    ...     (Path(folder) / "state").read_bytes()
    b'whole'
    """
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def save_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` to `path`, in one move."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    with replaced(path) as file:
        file.write(text.encode())
