"""The compiled library: brought by the wheel, found in the cache, made when first needed, or none with a reason.

Code from a cache runs with all rights of its user. It is loaded only from a folder and a file that nobody else can
write to, and only if it has the digest that its name promises: a part of a library would end the process.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import importlib.util
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from ofediq.errors import OFedIQError
from ofediq.storage import cache_directory, save_bytes

SWITCH = "OFEDIQ_NATIVE"
"""Set this variable to 0 to run everything in JAX."""

SOURCES = Path(__file__).parent / "source"
_MAIN = "window.c"
_HEADER = "xla/ffi/api/c_api.h"  # of the installed JAX, into whose programs the kernels are called
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
_FOLDER = "native"  # of the cache
_TARGETS = (("-march=native",), ("-mcpu=native",), ())  # which of them a compiler knows differs
_SECONDS = 600  # sanitizers take minutes on a busy machine
_LEVELS = {  # what the kernel calls the instructions of each level of x86-64
    "x86-64-v2": "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3",
    "x86-64-v3": "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
    "x86-64-v4": "avx512bw avx512cd avx512dq avx512f avx512vl",
}


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


def find() -> ctypes.CDLL | None:
    """The library if it is there already, in the package or the cache; nothing is compiled for it."""
    return _find(os.environ.get(SWITCH, ""))


def prepare() -> None:
    """Make the library in the background, where it is not there: `find` has it when it is done."""

    def make() -> None:
        with suppress(UnavailableError):
            load()
            _find.cache_clear()

    if find() is None:
        threading.Thread(target=make, name="kernels", daemon=True).start()


def forget() -> None:
    """Look for the library anew at the next use, after a change of the environment."""
    _load.cache_clear()
    _find.cache_clear()


@functools.cache
def _find(switch: str) -> ctypes.CDLL | None:
    if switch == "0" or os.name != "posix":
        return None
    try:
        path = _prebuilt() or _cached(f"kernels-{_fingerprint()}-")
        return None if path is None else _open(path)
    except (OFedIQError, OSError):
        return None


@functools.cache
def _load(switch: str, chosen: str, path: str) -> ctypes.CDLL | UnavailableError:
    """`load`, with the reason as a value: a failed compilation is not repeated at every run."""
    try:
        if switch == "0":
            raise UnavailableError(f"{SWITCH} is 0")
        if os.name != "posix":
            raise UnavailableError("they need a POSIX system")
        library = _open((None if chosen else _prebuilt()) or _found_or_made(chosen, path))
    except UnavailableError as reason:
        logging.getLogger(__name__).debug("no compiled kernels: %s", reason)
        return reason
    return library


def _prebuilt() -> Path | None:
    """The library that the package brought for this processor, if it brought one."""
    found = (Path(__file__).parent / "prebuilt" / f"kernels-{level}.so" for level in _levels())
    return next((path for path in found if path.is_file()), None)


def _levels() -> list[str]:
    """The names of what this processor can run, best first."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return [platform.machine()] if platform.system() == "Linux" else []
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return []
    flags = set(next((line for line in lines if line.startswith("flags")), "").split())
    levels: list[str] = []
    known = True
    for level, wanted in _LEVELS.items():
        known = known and set(wanted.split()) <= flags
        if known:
            levels.insert(0, level)
    return levels


def _compiler(chosen: str, path: str) -> tuple[str, ...]:
    """The command of a C compiler: `$CC`, cc, gcc or clang."""
    try:
        candidates = [shlex.split(chosen)] if chosen else [["cc"], ["gcc"], ["clang"]]
    except ValueError as error:  # a quotation without an end
        raise UnavailableError(f"$CC must be a command, got {chosen!r} ({error})") from None
    for candidate in candidates:
        program = shutil.which(candidate[0], path=path) if candidate else None
        if program:
            return (program, *candidate[1:])
    raise UnavailableError(f"no C compiler found ({chosen or 'cc, gcc, clang'})")


def _found_or_made(chosen: str, path: str) -> Path:
    """The library's file: of the compiler that would be used, or made by it; of any other if it cannot."""
    prefix = f"kernels-{_fingerprint()}-"
    try:
        compiler = _compiler(chosen, path)
        name = prefix + hashlib.blake2b(repr(compiler).encode(), digest_size=4).hexdigest()
        return _cached(name) or _made(compiler, name)
    except UnavailableError:
        found = _cached(prefix)
        if found is None:
            raise
        return found


def _cached(prefix: str) -> Path | None:
    """A library in the cache that is whole and nobody else's; None if there is none."""
    directory = private_directory(_FOLDER)
    try:
        candidates = [] if directory is None else sorted(directory.glob(f"{prefix}*.so"))
        return next((one for one in candidates if _private(one) and one.stem.endswith(_digest(one))), None)
    except OSError:
        return None


def _made(compiler: tuple[str, ...], name: str) -> Path:
    """A new library, in the cache or else in a directory of this process alone."""
    for place in (functools.partial(private_directory, _FOLDER), _own_directory):
        with suppress(OSError):  # such as a full disk
            directory = place()
            if directory is not None:
                with tempfile.TemporaryDirectory(dir=directory) as workshop:
                    made = _compile(compiler, Path(workshop) / "kernels.so")
                    path = directory / f"{name}-{_digest(made)}.so"
                    if path.is_symlink():  # it would stay one
                        path.unlink()
                    save_bytes(path, made.read_bytes(), mode=0o700)
                return path
    raise UnavailableError("no directory to write them to")


def private_directory(name: str) -> Path | None:
    """The cache's folder of this name for compiled code, if nobody else can write to it; None if there is none."""
    try:
        directory = cache_directory() / name
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_mode & 0o022:  # files that others wrote here before are refused one by one
            directory.chmod(0o700)
        return directory if _private(directory) else None
    except (OSError, OFedIQError):  # also where what knows the user's cache is not installed
        return None


def _private(path: Path) -> bool:
    """Whether only this user, or root, can write to `path`."""
    facts = path.lstat()
    return not stat.S_ISLNK(facts.st_mode) and facts.st_uid in (0, os.getuid()) and not facts.st_mode & 0o022


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


@functools.cache
def _own_directory() -> Path:
    directory = tempfile.mkdtemp(prefix="ofediq-native-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def command(compiler: tuple[str, ...], target: tuple[str, ...], output: Path) -> list[str]:
    """What makes the library, for a `target` in the compiler's words; options of `$CC` come last, and win."""
    headers = _headers()
    sources = [*([] if headers is None else [f"-I{headers}"]), str(SOURCES / _MAIN)]
    flags = (*_FLAGS, *target, *compiler[1:])
    return [compiler[0], *flags, "-o", str(output), *sources, "-pthread", "-lm"]


def _compile(compiler: tuple[str, ...], output: Path) -> Path:
    message = ""
    for target in _TARGETS:
        words = command(compiler, target, output)
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"the C compiler does not run: {error}") from error
        if done.returncode == 0 and output.is_file():
            return output
        message = (done.stderr.strip().splitlines() or ["no message"])[0]
    raise UnavailableError(f"the C compiler {compiler[0]} failed: {message}")


def _fingerprint() -> str:
    """Changes with the source, the flags and the processor that the code is made for."""
    digest = hashlib.blake2b(digest_size=12)
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    headers = _headers()
    digest.update(b"" if headers is None else (headers / _HEADER).read_bytes())
    digest.update(repr((_FLAGS, _TARGETS, processor())).encode())
    return digest.hexdigest()


def _headers() -> Path | None:
    """Where the installed JAX has its headers; found without loading it."""
    found = importlib.util.find_spec("jaxlib")
    folder = Path(found.origin).parent / "include" if found is not None and found.origin else None
    return folder if folder is not None and (folder / _HEADER).is_file() else None


def processor() -> str:
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
