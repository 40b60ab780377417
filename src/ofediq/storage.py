"""Files that are whole or not there at all, and one kind of file for arrays that must outlive their process.

`replaced` (with `save_bytes` and `save_json` on top) is the one way to write a file: an interrupted or failed write
leaves the previous file as it was. `Format` is the one way to keep states: an `.npz` archive with the arrays by
their path in nested tuples and dicts, and a `meta.json` that says what they belong to.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ofediq.arrays import Numbers
from ofediq.differences import differing, short_text
from ofediq.errors import CheckpointError, extra, require
from ofediq.locks import lock

Arrays = dict[str, Numbers]
CACHE_VARIABLE = "OFEDIQ_CACHE"
"""Set this to keep downloads and compiled code elsewhere."""
_META = "meta.json"


@contextmanager
def replaced(path: Path, *, mode: int | None = None, keep: Path | None = None) -> Iterator[BinaryIO]:
    """A file beside `path` to write to; it takes the place of `path` in one move when the block ends well.

    It is on the disk by then, and so is its name: a machine that loses power finds the old file or the new one.
    A failure removes what was written; what a killed process left is removed by the next write to `path`.
    What the system refuses is raised as `OSError`.

    Args:
        path: the file; a link stays one, and what it leads to is replaced.
        mode: its permissions from the first moment, less what the umask forbids; by default those of the file before.
        keep: name under which the file before stays; a file system without second names keeps none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replaced(Path(folder) / "state", mode=0o600) as file:
    ...         _ = file.write(b"whole")
    ...     (Path(folder) / "state").read_bytes(), os.listdir(folder)
    (b'whole', ['state'])
    """
    path = Path(os.path.realpath(path))
    _sweep(path)
    partial, file = _partial(path, mode)
    try:
        with file:
            yield file
            file.flush()
            _sync(file.fileno())
            if keep is not None:  # not sooner: until then both names would be of one file, damaged together
                _keep(path, keep)
            os.replace(partial, path)  # still locked: nobody may take it for a leftover
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def save_bytes(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write `content` to `path`, in one move."""
    with replaced(path, mode=mode) as file:
        file.write(content)


def save_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` to `path`, in one move."""
    save_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def sync_folder(folder: Path) -> None:
    """Put the names in `folder` on the disk, where the system can."""
    with suppress(OSError):  # some systems do not open folders, some file systems do not sync them
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)


def _sync(descriptor: int) -> None:
    """Put a file or folder on the disk; on a Mac `fsync` alone leaves it in the drive's cache."""
    if sys.platform == "darwin":
        import fcntl

        with suppress(OSError):  # file systems that know only the other
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def require_folder(name: str, path: Path) -> None:
    """Raise `InputError` about the argument `name` unless `path` is a folder, or may become one."""
    there = path
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    require(there.is_dir(), name, "must be a folder, not a file or below one", str(path))


def read_arrays(path: Path) -> Numbers | Arrays:
    """The array of an .npy file, or those of an .npz by name; else `OSError`, or `ValueError` that says why."""
    with path.open("rb") as file:
        begins = file.read(len(np.lib.format.MAGIC_PREFIX))
    if begins != np.lib.format.MAGIC_PREFIX and not zipfile.is_zipfile(path):
        raise ValueError("it is not a file of numpy, or only the beginning of one")
    name = ""
    try:
        found: Any = np.load(path, allow_pickle=False)  # a pickle could run anything
        if isinstance(found, np.ndarray):
            return found
        arrays = {}
        with found:
            for name in found.files:
                arrays[name] = found[name]
        return arrays
    except (EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" not in str(error):
            raise ValueError(str(error)) from None
        which = f"array {name!r}" if name else "it"
        raise ValueError(f"{which} holds Python objects, which must be numbers or texts") from None


@dataclass(frozen=True)
class Format:
    """A kind of file with arrays, what they belong to, and anything else that is JSON.

    Args:
        name: what such a file is, for sentences.
        number: of the present form; files of another one are refused.

    >>> import tempfile
    >>> notes = Format("notebook", 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "notes.npz"
    ...     notes.write(path, {"state": (np.zeros(2), {"count": 3})}, identity={"seed": 0}, meta={"step": 7})
    ...     found = notes.read(path, identity={"seed": 0})
    ...     found.meta, found.tree("state", like=(np.zeros(2), {"count": 0}))
    ({'step': 7}, (array([0., 0.]), {'count': array(3)}))
    """

    name: str
    number: int

    def write(
        self,
        path: Path,
        tree: Mapping[str, Any],
        *,
        identity: Mapping[str, Any],
        meta: Mapping[str, Any] | None = None,
        compress: bool = False,
        keep: Path | None = None,
    ) -> None:
        """Replace `path` by a file with these arrays, or raise `CheckpointError`.

        Args:
            path: the file; its folder is made where it is missing.
            tree: arrays and numbers by name, or tuples, NamedTuples, lists, dicts and dataclasses of them.
            identity: what the file belongs to.
            meta: more that is kept with the arrays.
            compress: whether to spend time on a smaller file.
            keep: name under which the file before stays.
        """
        about = {"kind": self.name, "format": self.number, "identity": identity, "meta": meta or {}}
        try:
            arrays = leaves(tree)
            text = json.dumps(about)
            path.parent.mkdir(parents=True, exist_ok=True)
            with replaced(path, keep=keep) as file:
                _pack(file, text, arrays, zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED)
        except (OSError, TypeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CheckpointError(f"cannot write {self.name} {path}: {reason}") from error

    def read(self, path: Path, *, identity: Mapping[str, Any] | None = None) -> Stored:
        """What `path` holds, or `CheckpointError`.

        Args:
            path: a file that `write` made.
            identity: what it must belong to; None to look at it later with `Stored.require`.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                about = json.loads(archive.read(_META))
                if (about["kind"], about["format"]) != (self.name, self.number):
                    found = f"{about['kind']} {about['format']}"
                    raise ValueError(f"format {found}, this version reads {self.name} {self.number}")
                names = [name for name in archive.namelist() if name != _META]
                arrays = {name.removesuffix(".npy"): _unpack(archive, name) for name in names}
            stored = Stored(f"{self.name} {path}", dict(about["meta"]), dict(about["identity"]), arrays)
        except (
            Exception
        ) as error:  # damaged bytes make zipfile, zlib, json, tokenize and numpy raise all kinds
            raise CheckpointError(f"cannot read {self.name} {path}: {error}") from error
        if identity is not None:
            stored.require(identity)
        return stored


@dataclass(frozen=True, eq=False)
class Stored:
    """What was in a file.

    Attributes:
        source: the file, for sentences.
        meta: what was kept with the arrays.
        identity: what they belong to.
        arrays: by path, such as "server/momentum/0".
    """

    source: str
    meta: dict[str, Any]
    identity: dict[str, Any]
    arrays: Arrays = field(repr=False)

    def require(self, identity: Mapping[str, Any]) -> None:
        """Raise `CheckpointError` with the first difference unless this belongs to `identity`.

        >>> Stored("notebook n.npz", {}, {"seed": 0, "rule": {"rate": 1}}, {}).require({"seed": 0, "rule": {}})
        Traceback (most recent call last):
        ofediq.errors.CheckpointError: notebook n.npz belongs to another run: its rule.rate is 1, not missing
        """
        for path, found, wanted in differing(self.identity, json.loads(json.dumps(identity))):
            difference = f"its {path} is {short_text(found)}, not {short_text(wanted)}"
            raise CheckpointError(f"{self.source} belongs to another run: {difference}")

    def array(self, name: str) -> Numbers:
        """The array `name`, or `CheckpointError`."""
        if name not in self.arrays:
            raise CheckpointError(f"{self.source} does not hold {name}")
        return self.arrays[name]

    def tree(self, name: str, like: Any) -> Any:
        """The arrays under `name` in the structure of `like`, with its types and shapes."""
        wanted = leaves({name: like})
        below = {path for path in self.arrays if path == name or path.startswith(f"{name}/")}
        for path in sorted(below ^ wanted.keys()):
            raise CheckpointError(
                f"{self.source} does not fit: it has {'no ' if path in wanted else ''}{path}"
            )
        return _rebuild(like, name, self._fitted(wanted))

    def _fitted(self, wanted: Arrays) -> Arrays:
        fitted = {}
        for path, like in wanted.items():
            array = self.arrays[path]
            if array.shape != like.shape:
                sizes = f"{path} has shape {array.shape}, not {like.shape}"
                raise CheckpointError(f"{self.source} does not fit: {sizes}")
            # numpy's files know no types of other packages (bfloat16): they come back as plain bytes.
            raw = array.dtype.kind == "V" and array.itemsize == like.itemsize
            fitted[path] = array.view(like.dtype) if raw else array.astype(like.dtype)
        return fitted


def leaves(tree: Any) -> Arrays:
    """The arrays in nested tuples, lists, dicts and dataclasses, by path; None and () have none.

    >>> leaves({"server": ({"m": 1, "v": 2}, None), "step": 3}).keys()
    dict_keys(['server/0/m', 'server/0/v', 'step'])
    """
    found: Arrays = {}
    for path, leaf in _walk(tree, ""):
        array = np.asarray(leaf)
        if array.dtype.hasobject:
            raise TypeError(f"{path} is a {type(leaf).__name__}, which is no array of numbers")
        if path in found:
            raise ValueError(f"two keys are both written {path}")
        found[path] = array
    return found


def _parts(tree: Any) -> dict[Any, Any] | None:
    """The named parts of a node; None for a leaf."""
    if tree is None:
        return {}
    if isinstance(tree, Mapping):
        return dict(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return dict(zip(tree._fields, tree, strict=True))
    if isinstance(tree, (tuple, list)):
        return dict(enumerate(tree))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return {one.name: getattr(tree, one.name) for one in dataclasses.fields(tree) if one.init}
    return None


def _below(path: str, key: Any) -> str:
    return f"{path}/{key}" if path else str(key)


def _walk(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    parts = _parts(tree)
    if parts is None:
        yield path, tree
    for key, part in (parts or {}).items():
        yield from _walk(part, _below(path, key))


def _rebuild(like: Any, path: str, arrays: Arrays) -> Any:
    parts = _parts(like)
    if parts is None:
        return arrays[path]
    if like is None:
        return None
    built = {key: _rebuild(part, _below(path, key), arrays) for key, part in parts.items()}
    if isinstance(like, Mapping):
        return type(like)(built)  # type: ignore[call-arg]  # mappings are made from mappings
    if isinstance(like, (tuple, list)) and not hasattr(like, "_fields"):
        return type(like)(built.values())
    return type(like)(**built)


def _pack(file: BinaryIO, text: str, arrays: Arrays, compression: int) -> None:
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr(zipfile.ZipInfo(_META), text)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _unpack(archive: zipfile.ZipFile, name: str) -> Numbers:
    with archive.open(name) as entry:
        array: Numbers = np.lib.format.read_array(entry, allow_pickle=False)
        if entry.read(1):  # the checksum is compared at the end
            raise ValueError(f"{name} goes on after its array")
    return array


def _partial(path: Path, mode: int | None) -> tuple[Path, BinaryIO]:
    """A new temporary file for `path` that is ours; without a `mode` with the permissions of `path`."""
    before = None
    if mode is None:
        with suppress(OSError):
            before = stat.S_IMODE(path.stat().st_mode)
        mode = 0o666 if before is None else before
    while True:
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        if before is not None and hasattr(os, "fchmod"):  # the umask is for new files
            os.fchmod(descriptor, before)
        lock(descriptor, wait=True)
        if partial.exists():  # else another writer took it for a leftover before it was locked
            return partial, os.fdopen(descriptor, "wb")
        os.close(descriptor)


def _keep(path: Path, name: Path) -> None:
    """A second name for `path`, in one move."""
    partial = name.with_name(f".{name.name}.partial")
    with suppress(OSError):
        partial.unlink(missing_ok=True)
        os.link(path, partial)
        os.replace(partial, name)


def _sweep(path: Path) -> None:
    """Remove what killed writers of `path` left behind."""
    with suppress(OSError):
        for name in os.listdir(path.parent):
            if name.startswith(f".{path.name}.") and name.endswith(".partial"):
                _sweep_one(path.with_name(name))


def _sweep_one(partial: Path) -> None:
    with suppress(OSError):  # gone meanwhile, or not ours to remove
        descriptor = os.open(partial, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            if lock(descriptor, wait=False):
                partial.unlink()
        finally:
            os.close(descriptor)


def cache_directory() -> Path:
    """Where downloads and compiled code go: `$OFEDIQ_CACHE`, or the platform's cache directory for ofediq."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path(extra("pooch", "sim").os_cache("ofediq"))
