"""Find a data file: in `$OFEDIQ_DATA`, then in the user's cache, else download it there.

Whatever the place, the content must have the checksum of the upstream file.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ofediq.errors import DataError, extra
from ofediq.storage import CACHE_VARIABLE, cache_directory, save_bytes

DATA_VARIABLE = "OFEDIQ_DATA"
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Upstream:
    """One upstream file.

    Attributes:
        name: its upstream name. A local copy may also be called `name + ".gz"`.
        sha256: checksum of the file (of the unpacked content for such a gzipped copy).
        size: bytes.
        urls: where to download it, tried in turn; a `.zip` address holds the file as a member.
    """

    name: str
    sha256: str
    size: int
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """A local copy: its path, and which place it is in ("OFEDIQ_DATA" or "cache")."""

    path: Path
    place: str


def find(source: Upstream) -> Found | None:
    """The local copy of `source`, unchecked, or None.

    >>> find(Upstream("no-such-file.csv", "", 0, ())) is None
    True
    """
    for place, directory in _places():
        for name in (source.name, source.name + ".gz"):
            if (directory / name).is_file():
                return Found(directory / name, place)
    return None


def read(source: Upstream) -> bytes:
    """The checked content of `source`, downloaded to the cache if no local copy exists."""
    found = find(source)
    if found is None:
        return _download(source)
    content = found.path.read_bytes()
    if found.path.name != source.name:
        content = _gunzip(content, str(found.path))
    hint = "; delete it to download it again" if found.place == "cache" else ""
    return _verified(content, source, str(found.path), hint)


def _places() -> list[tuple[str, Path]]:
    places = [("cache", cache_directory())]
    chosen = os.environ.get(DATA_VARIABLE)
    if not chosen:
        return places
    if not Path(chosen).is_dir():
        raise DataError(f"`{DATA_VARIABLE}` must name an existing directory, got {chosen!r}")
    return [(DATA_VARIABLE, Path(chosen)), *places]


def _verified(content: bytes, source: Upstream, where: str, hint: str = "") -> bytes:
    digest = hashlib.sha256(content).hexdigest()
    if digest != source.sha256:
        raise DataError(
            f"{where} is not the upstream {source.name}: sha256 must be {source.sha256}, got {digest}{hint}"
        )
    return content


def _download(source: Upstream) -> bytes:
    reasons = []
    for url in source.urls:
        try:
            content = _verified(_fetch(url, source.name), source, url)
        except DataError as error:
            reasons.append(str(error))
            continue
        except OSError as error:  # every error of the network is one
            reasons.append(f"{url}: {_reason(error)}")
            continue
        _store(content, cache_directory() / source.name)
        return content
    raise DataError(
        f"cannot download {source.name} ({'; '.join(reasons) or 'no address known'}): put the file into a directory "
        f"and set {DATA_VARIABLE} to it, or into {cache_directory()}"
    )


def _fetch(url: str, name: str) -> bytes:
    """What is behind `url`; the member `name` if that is a zip archive."""
    downloader = extra("pooch", "sim").HTTPDownloader(timeout=_TIMEOUT_SECONDS)
    buffer = io.BytesIO()
    downloader(url, buffer, None)
    if not url.endswith(".zip"):
        return buffer.getvalue()
    try:
        with zipfile.ZipFile(buffer) as archive:
            for member in archive.namelist():
                if PurePosixPath(member).name == name:
                    return archive.read(member)
    except (zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{url} is not a readable zip archive: {error}") from error
    raise DataError(f"{url} has no member called {name}")


def _reason(error: OSError) -> str:
    """The kind of a network error in a word or two; the full text is a page of connection pools and retries."""
    response = getattr(error, "response", None)
    return type(error).__name__ if response is None else f"HTTP {response.status_code}"


def _store(content: bytes, path: Path) -> None:
    """Write `content` to `path` in one move, so that no other process ever sees half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_bytes(path, content)
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error}; `{CACHE_VARIABLE}` chooses another directory"
        ) from error


def _gunzip(content: bytes, where: str) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{where} is not a readable gzip file: {error}") from error
