"""Compiled programs that outlive a command: JAX keeps them in the user's cache, and the next run starts fast."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_FOLDER, _SECONDS = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
_WORTH = "0.2"  # seconds that a program took to compile
_MOST = 256 << 20  # bytes; of more the oldest half goes


def keep_programs() -> None:
    """Tell JAX, before it is loaded, where to keep what it compiles.

    A folder that only this user can write to, one for each kind of processor: programs are code, and made for it.
    Whoever has set JAX's own variable is left alone; so is a machine without a place to write to.
    """
    if _FOLDER in os.environ:
        return
    from ofediq.kernels.library import private_directory, processor

    kind = hashlib.blake2b(processor().encode(), digest_size=6).hexdigest()
    directory = private_directory(f"programs-{kind}")
    if directory is None:
        return
    _prune(directory)
    os.environ[_FOLDER] = str(directory)
    os.environ.setdefault(_SECONDS, _WORTH)


def _prune(directory: Path) -> None:
    """Delete the oldest half of a folder that has grown too large."""
    try:
        files = sorted(
            ((one.stat().st_mtime, one.stat().st_size, one) for one in directory.iterdir()), reverse=True
        )
        kept = 0
        if sum(size for _, size, _ in files) <= _MOST:
            return
        for _, size, one in files:
            kept += size
            if kept > _MOST // 2:
                one.unlink(missing_ok=True)
    except OSError:  # another command is at it
        return
