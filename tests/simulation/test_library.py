"""The compiled library: found, made, verified before it is loaded, and done without."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ofediq import methods, models
from ofediq.errors import InputError
from ofediq.kernels import library
from ofediq.simulation import simulate
from ofediq.simulation.native import layout, native_status, native_sums
from ofediq.simulation.native.window import thread_count
from ofediq.simulation.window import Setting
from tests.simulation.test_native import needs_compiler, patchy_stream


@pytest.fixture(autouse=True)
def forget_libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test finds the library for its own environment; what is made here need not be fast."""
    monkeypatch.setenv("CC", f"{os.environ.get('CC') or 'cc'} -O0")
    library.forget()
    yield
    library.forget()


@pytest.mark.parametrize(
    "setting", [("CC", "no-such-compiler"), ("CC", "'cc"), ("PATH", "/nowhere"), ("CC", "false")]
)
def test_without_a_compiler(
    setting: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OFEDIQ_CACHE", str(tmp_path))
    monkeypatch.setenv(*setting)
    assert native_status().startswith("no compiled kernels: ")
    result = simulate(methods.ofediq(0.5, 3, 20), patchy_stream("mlp-regressor"), models.mlp_regressor(5))
    assert np.isfinite(result.loss).all()


@needs_compiler
@pytest.mark.parametrize("blocker", ["file", "read-only"])
def test_cache_that_cannot_be_written(blocker: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    if blocker == "file":
        cache.write_text("not a directory")
    else:
        if os.getuid() == 0:
            pytest.skip("root can write anywhere")
        cache.mkdir(mode=0o500)
    monkeypatch.setenv("OFEDIQ_CACHE", str(cache))
    assert native_status().startswith("compiled kernels: ")
    assert str(cache) not in native_status()


@needs_compiler
def test_processes_compile_at_the_same_time(tmp_path: Path) -> None:
    code = "from ofediq.simulation.native import native_status; print(native_status())"
    command, environment = [sys.executable, "-c", code], {**os.environ, "OFEDIQ_CACHE": str(tmp_path)}
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = {process.communicate(timeout=120)[0] for process in started}
    assert len(said) == 1
    assert said.pop().startswith("compiled kernels: ")
    assert len(list((tmp_path / "native").iterdir())) == 1


def status(cache: Path, **environment: str) -> str:
    """`native_status` with another cache, asked anew."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**environment, "OFEDIQ_CACHE": str(cache)}.items():
            patch.setenv(name, value)
        library.forget()
        return native_status()


def cached(cache: Path) -> Path:
    """The one library in the cache."""
    (found,) = (cache / "native").glob("*.so")
    return found


@needs_compiler
def test_a_truncated_or_changed_library_is_made_again(tmp_path: Path) -> None:
    first = status(tmp_path)
    whole = cached(tmp_path).read_bytes()
    for damaged in (b"", whole[:100], whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1])):
        library_file = cached(tmp_path)
        library_file.unlink()  # it is in use: a new file, not another content of the same
        library_file.write_bytes(damaged)
        # A process of its own: half a library ends the one that loads it.
        code = "from ofediq.simulation.native import native_status; print(native_status())"
        environment = {**os.environ, "OFEDIQ_CACHE": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout.strip()) == (0, first)
        assert cached(tmp_path).read_bytes() == whole


@needs_compiler
def test_nobody_else_may_write_to_what_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "native").mkdir()
    (tmp_path / "native").chmod(0o777)
    before = os.umask(0)
    try:
        status(tmp_path)
    finally:
        os.umask(before)
    for path in (tmp_path / "native", cached(tmp_path)):
        assert not path.stat().st_mode & 0o022
    made = cached(tmp_path).stat().st_ino
    cached(tmp_path).chmod(0o777)
    status(tmp_path)
    assert cached(tmp_path).stat().st_ino != made


@needs_compiler
@pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of somebody else")
@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_a_library_of_somebody_else_is_not_loaded(what: str, tmp_path: Path) -> None:
    first = status(tmp_path)
    theirs = cached(tmp_path)
    if what == "folder":
        os.chown(tmp_path / "native", 12345, 12345)
        assert str(tmp_path) not in status(tmp_path)
        return
    if what == "link":
        elsewhere = theirs.rename(tmp_path / "elsewhere.so")
        theirs.symlink_to(elsewhere)
    else:
        os.chown(theirs, 12345, 12345)
    assert status(tmp_path) == first
    assert (cached(tmp_path).lstat().st_uid, cached(tmp_path).is_symlink()) == (0, False)


@needs_compiler
@pytest.mark.parametrize("setting", [("PATH", "/nowhere"), ("CC", "no-such-compiler"), ("CC", "false")])
def test_a_library_in_the_cache_needs_no_compiler(setting: tuple[str, str], tmp_path: Path) -> None:
    first = status(tmp_path)
    assert status(tmp_path, **dict([setting])) == first


@needs_compiler
def test_library_of_another_layout_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    longer = type("Longer", (layout.WindowLayout,), {"_fields_": [("another", ctypes.c_void_p)]})
    monkeypatch.setattr(layout, "WindowLayout", longer)
    assert isinstance(native_sums(Setting(methods.fedogd(0.1), models.cnn(13, 14, 3), 3, None)), str)


def test_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFEDIQ_THREADS", "3")
    assert thread_count() == 3
    for wrong in ("0", "many", "1000"):
        monkeypatch.setenv("OFEDIQ_THREADS", wrong)
        with pytest.raises(InputError, match="OFEDIQ_THREADS"):
            thread_count()
    monkeypatch.delenv("OFEDIQ_THREADS")
    assert thread_count() >= 1
