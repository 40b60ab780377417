from __future__ import annotations

import gzip
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ofediq.errors import DataError
from ofediq.streams.locate import find, read

from .made import make_source

CONTENT = b"time,value\n0,1\n1,2\n"
Places = tuple[Path, Path]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the loopback address it is served at."""
    folder = tmp_path / "site"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _zipped(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("folder/", "")
        archive.writestr(name, CONTENT)
    return buffer.getvalue()


def test_the_data_directory_comes_before_the_cache(empty_places: Places) -> None:
    data, cache = empty_places
    cache.mkdir()
    for place in (data, cache):
        (place / "readings.csv").write_bytes(CONTENT)
    found = find(make_source(CONTENT))
    assert found is not None
    assert (found.path, found.place) == (data / "readings.csv", "OFEDIQ_DATA")


def test_the_cache_is_the_second_place(empty_places: Places) -> None:
    empty_places[1].mkdir()
    (empty_places[1] / "readings.csv").write_bytes(CONTENT)
    found = find(make_source(CONTENT))
    assert found is not None
    assert found.place == "cache"
    assert read(make_source(CONTENT)) == CONTENT


def test_a_gzipped_copy_is_unpacked_and_checked(empty_places: Places) -> None:
    (empty_places[0] / "readings.csv.gz").write_bytes(gzip.compress(CONTENT))
    assert read(make_source(CONTENT)) == CONTENT


@pytest.mark.parametrize(("place", "hint"), [(0, "$"), (1, "; delete it to download it again$")])
def test_a_changed_file_is_refused_with_both_checksums(empty_places: Places, place: int, hint: str) -> None:
    empty_places[place].mkdir(exist_ok=True)
    (empty_places[place] / "readings.csv").write_bytes(b"other")
    expected, found = (hashlib.sha256(content).hexdigest() for content in (CONTENT, b"other"))
    with pytest.raises(DataError, match=f"readings.csv is not .*must be {expected}, got {found}{hint}"):
        read(make_source(CONTENT))


def test_a_broken_gzip_file_is_refused(empty_places: Places) -> None:
    (empty_places[0] / "readings.csv.gz").write_bytes(gzip.compress(CONTENT)[:-9])
    with pytest.raises(DataError, match=r"readings\.csv\.gz is not a readable gzip file"):
        read(make_source(CONTENT))


def test_a_download_lands_in_the_cache_and_is_used_again(
    empty_places: Places, site: tuple[Path, str]
) -> None:
    folder, address = site
    (folder / "readings.csv").write_bytes(CONTENT)
    source = make_source(CONTENT, f"{address}/readings.csv")
    assert read(source) == CONTENT
    (folder / "readings.csv").unlink()
    assert read(source) == CONTENT
    assert [path.name for path in empty_places[1].iterdir()] == ["readings.csv"]


def test_the_member_of_a_zip_archive_is_taken(empty_places: Places, site: tuple[Path, str]) -> None:
    folder, address = site
    (folder / "all.zip").write_bytes(_zipped("folder/readings.csv"))
    assert read(make_source(CONTENT, f"{address}/all.zip")) == CONTENT


def test_the_next_mirror_is_tried(empty_places: Places, site: tuple[Path, str]) -> None:
    folder, address = site
    (folder / "changed.csv").write_bytes(b"other")
    (folder / "readings.csv").write_bytes(CONTENT)
    urls = (f"{address}/absent.csv", f"{address}/changed.csv", f"{address}/readings.csv")
    assert read(make_source(CONTENT, *urls)) == CONTENT


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("absent.csv", None, "HTTP 404"),
        ("readings.csv", b"other", "sha256 must be"),
        ("all.zip", b"no archive", "is not a readable zip archive"),
        ("all.zip", _zipped("else.csv"), "has no member called readings.csv"),
    ],
)
def test_a_bad_download_says_why_and_keeps_nothing(
    empty_places: Places, site: tuple[Path, str], file: str, content: bytes | None, reason: str
) -> None:
    folder, address = site
    if content is not None:
        (folder / file).write_bytes(content)
    with pytest.raises(DataError, match=f"cannot download readings.csv .*{reason}"):
        read(make_source(CONTENT, f"{address}/{file}"))
    assert not empty_places[1].exists()


def test_without_a_network_the_message_says_what_to_do(empty_places: Places) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Quiet) as server:
        closed = f"http://127.0.0.1:{server.server_port}/readings.csv"
    with pytest.raises(DataError) as caught:
        read(make_source(CONTENT, closed))
    assert str(caught.value) == (
        f"cannot download readings.csv ({closed}: ConnectionError): put the file into a directory and set "
        f"OFEDIQ_DATA to it, or into {empty_places[1]}"
    )


def test_a_data_directory_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFEDIQ_DATA", "/no/such/place")
    with pytest.raises(
        DataError, match="`OFEDIQ_DATA` must name an existing directory, got '/no/such/place'"
    ):
        find(make_source(CONTENT))


def test_a_cache_that_cannot_be_written_is_named(empty_places: Places, site: tuple[Path, str]) -> None:
    folder, address = site
    (folder / "readings.csv").write_bytes(CONTENT)
    empty_places[1].write_text("a file where the directory should be")
    with pytest.raises(DataError, match=r"cannot write .*`OFEDIQ_CACHE` chooses another directory"):
        read(make_source(CONTENT, f"{address}/readings.csv"))
