"""The compiled library: made when first needed, found again in the cache, or None with a reason."""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ofediq.errors import OFedIQError
from ofediq.streams.locate import cache_directory

SWITCH = "OFEDIQ_NATIVE"
"""Set this variable to 0 to run everything in JAX."""

_SOURCES = Path(__file__).parent / "kernels"
_MAIN = "window.c"
# No -ffast-math: linking with it turns on flush-to-zero for the whole process. No contraction: the quantiser must
# round as NumPy does; the kernels ask for multiply-adds by name.
_FLAGS = (
    "-O3",
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-fPIC",
    "-shared",
)
_TARGETS = (("-march=native",), ("-mcpu=native",), ())  # which of them a compiler knows differs
_SECONDS = 120


class UnavailableError(OFedIQError):
    """Why the kernels cannot be used here."""


def native_status() -> str:
    """Whether the simulator can use compiled kernels, in one sentence.

    >>> native_status().split(":")[0] in ("compiled kernels", "no compiled kernels")
    True
    """
    try:
        return f"compiled kernels: {load()._name}"
    except UnavailableError as error:
        return f"no compiled kernels: {error}"


def load() -> ctypes.CDLL:
    """The library. Raises `UnavailableError` with the reason when there is none; asks only once for each setting."""
    found = _load(os.environ.get(SWITCH, ""), os.environ.get("CC", ""), os.environ.get("PATH", ""))
    if isinstance(found, UnavailableError):
        raise found
    return found


def forget() -> None:
    """Look for the library anew at the next use, after a change of the environment."""
    _load.cache_clear()


@functools.cache
def _load(switch: str, chosen: str, path: str) -> ctypes.CDLL | UnavailableError:
    """`load`, with the reason as a value: a failed compilation is not repeated at every run."""
    try:
        if switch == "0":
            raise UnavailableError(f"{SWITCH} is 0")
        library = _open(_compiled(_compiler(chosen, path)))
    except UnavailableError as reason:
        logging.getLogger(__name__).debug("no compiled kernels: %s", reason)
        return reason
    return library


def _compiler(chosen: str, path: str) -> tuple[str, ...]:
    """The command of a C compiler: `$CC`, cc, gcc or clang."""
    if os.name != "posix":
        raise UnavailableError("they need a POSIX system")
    for candidate in (shlex.split(chosen),) if chosen else (["cc"], ["gcc"], ["clang"]):
        program = shutil.which(candidate[0], path=path) if candidate else None
        if program:
            return (program, *candidate[1:])
    raise UnavailableError(f"no C compiler found ({chosen or 'cc, gcc, clang'})")


def _compiled(compiler: tuple[str, ...]) -> Path:
    """The library's file, compiled unless it is there."""
    name = f"kernels-{_fingerprint(compiler)}.so"
    for directory in _directories():
        if (directory / name).is_file():
            return directory / name
        try:
            with tempfile.TemporaryDirectory(dir=directory) as workshop:
                made = _compile(compiler, Path(workshop) / name)
                # In one step: another process sees no file, or a whole one.
                return made.replace(directory / name)
        except OSError:  # such as a full disk
            continue
    raise UnavailableError("no directory to write them to")


def _directories() -> Iterator[Path]:
    """Where the library may lie: the cache, else a directory of this process alone."""
    for directory in (cache_directory() / "native", None):
        try:
            if directory is None:
                yield _own_directory()
                return
            directory.mkdir(parents=True, exist_ok=True)
            if os.access(directory, os.W_OK | os.X_OK) and directory.stat().st_uid == os.getuid():
                yield directory
        except OSError:
            continue


@functools.cache
def _own_directory() -> Path:
    directory = tempfile.mkdtemp(prefix="ofediq-native-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def _compile(compiler: tuple[str, ...], output: Path) -> Path:
    message = ""
    for target in _TARGETS:
        command = [*compiler, *_FLAGS, *target, "-o", str(output), str(_SOURCES / _MAIN), "-pthread", "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"the C compiler does not run: {error}") from error
        if done.returncode == 0 and output.is_file():
            return output
        message = (done.stderr.strip().splitlines() or ["no message"])[0]
    raise UnavailableError(f"the C compiler {compiler[0]} failed: {message}")


def _fingerprint(compiler: tuple[str, ...]) -> str:
    """Changes with the source, the compiler, the flags and the processor that the code is made for."""
    digest = hashlib.blake2b(digest_size=12)
    for source in sorted(_SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    digest.update(repr((compiler, _FLAGS, _TARGETS, _processor())).encode())
    return digest.hexdigest()


def _processor() -> str:
    """What `-march=native` depends on, as far as the system tells."""
    parts = [platform.system(), platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0].splitlines()
        parts += [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    except OSError:
        pass
    return "|".join(parts)


def _open(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise UnavailableError(f"cannot load {path}: {error}") from error
