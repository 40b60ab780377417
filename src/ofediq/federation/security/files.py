"""Files that appear whole or not at all, and secrets that nobody else may read at any moment."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ofediq.errors import InputError


def replace_file(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write `content` to `path` in one move; the permissions are `mode`, less what the umask forbids.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace_file(Path(folder) / "key.pem", b"secret", 0o600)
    ...     oct((Path(folder) / "key.pem").stat().st_mode & 0o777)
    '0o600'
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with writable(path.parent):
        try:
            _write(partial, content, mode)
            os.replace(partial, path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def store_folder(home: Path, public: Mapping[str, bytes], secret: Mapping[str, bytes]) -> None:
    """Make the folder `home`, or replace it, with these files in it; it never holds a part of them.

    Other files in a replaced folder stay. Secret files are for their owner alone, and so is the folder.
    """
    with writable(home.parent):
        home.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
        try:
            for name, content in public.items():
                _write(beside / name, content, 0o644)
            for name, content in secret.items():
                _write(beside / name, content, 0o600)
            _swap(beside, home)
        except OSError:
            shutil.rmtree(beside, ignore_errors=True)
            raise


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Turn what the system says about `folder` into one sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"`folder` must be a writable folder, got {str(folder)!r} ({error.strerror or error})"
        ) from None


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


def _write(path: Path, content: bytes, mode: int) -> None:
    # The permissions are there from the first moment: a chmod afterwards would come too late for a quick reader.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
