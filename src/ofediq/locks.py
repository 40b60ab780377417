"""Locks on files and folders that the system lets go of with the process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ofediq.errors import InputError

LOCK_FILE = ".lock"
"""What `held` puts into a folder while it lasts."""


@contextmanager
def held(folder: Path, name: str = "out") -> Iterator[None]:
    """Keep an existing `folder` for one while the context lasts; `InputError` if another one has it.

    The system lets go of it with the process: a killed one leaves nothing that is in the way. Where there are no
    locks, nothing is kept.

    Args:
        folder: whose files only one may write.
        name: what the user calls it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, held(Path(folder)):
    ...     require_free(Path(folder))
    Traceback (most recent call last):
    ofediq.errors.InputError: `out` must be free, got ..., in which another process is at work
    """
    path = folder / LOCK_FILE
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _keep(descriptor, folder, name)
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                break  # else the one before has removed it meanwhile
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def require_free(folder: Path, name: str = "out") -> None:
    """Raise `InputError` if somebody is in a `held` context of this folder."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR)
    except OSError:
        return
    try:
        _keep(descriptor, folder, name)
    finally:
        os.close(descriptor)


def lock(descriptor: int, *, wait: bool) -> bool:
    """Lock a file, and say whether that worked.

    A writer holds a lock on its temporary file, so that others can tell one at work from one that was killed: the
    system lets go of it with the process. A process number could not: the next one in a container has it too.
    """
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody else's, or a file system without locks
        return False
    return True


def _keep(descriptor: int, folder: Path, name: str) -> None:
    """Lock a file or raise `InputError`; a system without locks does neither."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError):  # of a file system without locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"`{name}` must be free, got {str(folder)!r}, in which another process is at work"
                ) from None
