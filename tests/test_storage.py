"""Files that are whole or not there, and states that come back as they were or are refused."""

from __future__ import annotations

import fcntl
import os
import pickle
import resource
import signal
import stat
import subprocess
import sys
import threading
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.errors import CheckpointError
from ofediq.storage import Format, leaves, replaced, save_bytes, save_json

NOTES = Format("notebook", 3)


class Moments(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Held:
    moments: Any
    rate: float


# Writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "umask"), [(0o600, 0o022), (0o644, 0o022), (0o666, 0o002), (0o666, 0o077)])
def test_permissions_are_the_mode_less_the_umask(tmp_path: Path, mode: int, umask: int) -> None:
    before = os.umask(umask)
    try:
        with replaced(tmp_path / "file", mode=mode) as file:
            partial = next(tmp_path.iterdir())
            assert stat.S_IMODE(partial.stat().st_mode) == mode & ~umask  # from the first moment
            file.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode & ~umask


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    save_bytes(tmp_path / "file", b"old")

    def write() -> None:
        with replaced(tmp_path / "file") as file:
            file.write(b"half of the ne")
            raise error

    with pytest.raises(error):
        write()
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_disk_that_takes_no_more_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    save_bytes(tmp_path / "file", b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_bytes(tmp_path / "file", bytes(5000))
        with pytest.raises(CheckpointError, match=r"^cannot write notebook .*: File too large$"):
            NOTES.write(tmp_path / "file", {"x": np.zeros(5000)}, identity={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.parametrize("knows", [True, False])
def test_a_mac_is_asked_to_empty_the_cache_of_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    asked: list[int] = []
    plain: list[int] = []

    def control(descriptor: int, request: int) -> None:
        asked.append(request)
        if not knows:
            raise OSError(45, "Operation not supported")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", plain.append)
    save_bytes(tmp_path / "file", b"content")
    assert asked == [51, 51]  # the file and its folder
    assert len(plain) == (0 if knows else 2)


def test_the_next_write_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys\n"
        "from ofediq.storage import replaced\n"
        "with replaced(pathlib.Path(sys.argv[1])) as file:\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1
    save_bytes(tmp_path / "other", b"x")
    assert len(os.listdir(tmp_path)) == 2  # not its business
    save_bytes(tmp_path / "file", b"whole")
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


def test_writers_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def write(letter: bytes) -> None:
        try:
            for _ in range(50):
                save_bytes(tmp_path / "file", letter * 100_000)
                assert len(set((tmp_path / "file").read_bytes())) == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert os.listdir(tmp_path) == ["file"]


def test_json_that_is_none_touches_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_json(tmp_path / "file", {"loss": float("nan")})
    assert os.listdir(tmp_path) == []


# States ---------------------------------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.floats(width=32, allow_nan=False).map(np.float32),
    st.lists(st.integers(-5, 5), max_size=4).map(lambda values: np.array(values, np.int64)),
    st.booleans(),
)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\x00"), min_size=1, max_size=5)
STATES = st.recursive(
    LEAVES | st.none(),
    lambda below: st.one_of(
        st.lists(below, max_size=3).map(tuple),
        st.lists(below, max_size=3),
        st.dictionaries(NAMES, below, max_size=3),
        st.dictionaries(NAMES, below, max_size=3).map(OrderedDict),
        st.tuples(below, below).map(lambda pair: Moments(*pair)),
        below.map(lambda one: Held(one, 0.5)),
    ),
)


def same(a: Any, b: Any) -> bool:
    """Whether two states have the same structure, types and numbers."""
    if isinstance(a, Held):
        return isinstance(b, Held) and same(a.moments, b.moments)
    if isinstance(a, dict):
        return type(a) is type(b) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if a is None:
        return b is None
    one, other = np.asarray(a), np.asarray(b)
    return one.dtype == other.dtype and np.array_equal(one, other)


@given(state=STATES, compress=st.booleans())
def test_any_nested_state_comes_back(
    state: Any, compress: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("states") / "state.npz"
    NOTES.write(path, {"state": state}, identity={"seed": 1}, meta={"step": 2}, compress=compress)
    stored = NOTES.read(path, identity={"seed": 1})
    assert same(stored.tree("state", like=state), state)
    assert stored.meta == {"step": 2}


def test_types_of_other_packages_come_back(tmp_path: Path) -> None:
    state = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    NOTES.write(tmp_path / "n.npz", {"state": state}, identity={})
    assert same(NOTES.read(tmp_path / "n.npz").tree("state", like=state), state)


@pytest.mark.parametrize(
    ("like", "sentence"),
    [
        ({"m": np.zeros(2)}, "it has state/v"),
        ({"m": np.zeros(2), "v": 0.0, "w": 0.0}, "it has no state/w"),
        ((np.zeros(2), 0.0), "it has no state/0"),
        ({"m": np.zeros(3), "v": 0.0}, r"state/m has shape \(2,\), not \(3,\)"),
    ],
)
def test_a_state_of_another_structure_is_refused(tmp_path: Path, like: Any, sentence: str) -> None:
    NOTES.write(tmp_path / "n.npz", {"state": {"m": np.ones(2), "v": 1.0}}, identity={})
    stored = NOTES.read(tmp_path / "n.npz")
    with pytest.raises(CheckpointError, match=rf"^notebook .*n\.npz does not fit: {sentence}$"):
        stored.tree("state", like=like)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"seed": 1, "method": {"levels": 3, "rate": 0.5}}, "seed is 0, not 1"),
        ({"seed": 0, "method": {"levels": 7, "rate": 0.5}}, "method.levels is 3, not 7"),
        ({"seed": 0, "method": {"levels": 3}}, "method.rate is 0.5, not missing"),
        ({"seed": 0, "method": {"levels": 3, "rate": 0.5}, "devices": 2}, "devices is missing, not 2"),
        ({"seed": 0, "method": "x" * 1000}, r"method is .{20,60}, not x{50} \.\.\. x{25}"),
    ],
)
def test_the_first_difference_is_named_shortly(tmp_path: Path, other: dict[str, Any], sentence: str) -> None:
    NOTES.write(tmp_path / "n.npz", {}, identity={"seed": 0, "method": {"levels": 3, "rate": 0.5}})
    with pytest.raises(CheckpointError, match=rf"^notebook .* belongs to another run: its {sentence}$"):
        NOTES.read(tmp_path / "n.npz", identity=other)


@pytest.mark.parametrize("state", [{"a": object()}, {"a": {1, 2}}, {"1": 0, 1: 0}])
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, state: Any) -> None:
    with pytest.raises(CheckpointError, match=r"^cannot write notebook "):
        NOTES.write(tmp_path / "n.npz", {"state": state}, identity={})
    assert os.listdir(tmp_path) == []


def test_another_kind_or_format_is_refused(tmp_path: Path) -> None:
    NOTES.write(tmp_path / "n.npz", {}, identity={})
    for other in (Format("notebook", 4), Format("diary", 3)):
        with pytest.raises(CheckpointError, match=f"notebook 3, this version reads {other.name}"):
            other.read(tmp_path / "n.npz")


class Harmful:
    """What a pickle could do."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("harm",)


def test_pickles_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "n.npz"
    NOTES.write(path, {"a": 1}, identity={})
    with zipfile.ZipFile(path, "a") as archive, archive.open("b.npy", "w") as entry:
        np.lib.format.write_array(entry, np.array([Harmful()]), allow_pickle=True)
    with pytest.raises(CheckpointError, match="Object arrays cannot be loaded"):
        NOTES.read(path)
    path.write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(CheckpointError, match="cannot read notebook"):
        NOTES.read(path)
    assert os.listdir(tmp_path) == ["n.npz"]


@pytest.mark.parametrize("compress", [False, True])
def test_a_truncated_or_damaged_file_is_refused_or_the_same(tmp_path: Path, compress: bool) -> None:
    path = tmp_path / "n.npz"
    # Larger than a buffer: what an array's header says is believed before the checksum at its end is seen.
    wanted = {"a": np.arange(9000.0), "b": np.ones((2, 3), np.float32)}
    NOTES.write(path, wanted, identity={"seed": 0}, compress=compress)
    whole = path.read_bytes()
    chance = np.random.default_rng(0)
    for turn in range(400):
        path.write_bytes(whole[: chance.integers(len(whole))])
        with pytest.raises(CheckpointError):
            NOTES.read(path, identity={"seed": 0})
        damaged = bytearray(whole)
        damaged[chance.integers(600 if turn % 2 else len(whole))] ^= 1 << chance.integers(8)
        path.write_bytes(damaged)
        try:
            found = NOTES.read(path, identity={"seed": 0})
            arrays = {name: found.array(name) for name in wanted}
        except CheckpointError:
            continue
        assert all(same(arrays[name], wanted[name]) for name in wanted)


def test_leaves_are_those_that_jax_knows() -> None:
    jax = pytest.importorskip("jax")
    optax = pytest.importorskip("optax")
    state = optax.chain(optax.clip(1.0), optax.adam(0.1)).init({"w": np.ones(3), "b": np.ones(1)})
    assert len(leaves(state)) == len(jax.tree.leaves(state))


def test_a_file_keeps_its_permissions_and_a_link_what_it_leads_to(tmp_path: Path) -> None:
    real, link = tmp_path / "elsewhere" / "state", tmp_path / "state"
    real.parent.mkdir()
    save_bytes(real, b"old")
    real.chmod(0o600)
    link.symlink_to(real)
    save_bytes(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert real.stat().st_mode & 0o777 == 0o600  # whoever closed it to others finds it closed
    save_bytes(real, b"newer", mode=0o644)
    assert real.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in real.parent.iterdir()] == ["state"]
