import json
from pathlib import Path

import pytest

from ofediq.errors import InputError
from ofediq.experiment import Config, Folder, free_folder, unfinished_folder

CONFIG = Config(clients=20, steps=10)


def opened(path: Path, interrupted: bool | None = None) -> Folder:
    """A folder with a run that has not written a summary, or one that says whether it was interrupted."""
    folder = Folder(path)
    folder.open(CONFIG)
    if interrupted is not None:
        folder.summary.write_text(json.dumps({"interrupted": interrupted}), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("interrupted", "finished"), [(None, False), (True, False), (False, True)])
def test_a_run_is_finished_when_its_summary_says_so(
    tmp_path: Path, interrupted: bool | None, finished: bool
) -> None:
    assert opened(tmp_path / "run", interrupted).finished is finished


def test_a_run_is_not_overwritten_unasked(tmp_path: Path) -> None:
    folder = opened(tmp_path / "run", interrupted=False)
    with pytest.raises(InputError, match=r"^`out` must be free, .*, which holds a finished run; --force"):
        folder.check(CONFIG)
    folder.check(CONFIG, force=True)
    folder.open(CONFIG)
    assert not folder.summary.exists()


def test_an_unfinished_run_can_be_resumed(tmp_path: Path) -> None:
    folder = opened(tmp_path / "run")
    with pytest.raises(InputError, match=r"which holds an unfinished run \(--resume continues it\)"):
        folder.check(CONFIG)
    kept = folder.archive("fedogd", 0)
    kept.write_bytes(b"result")
    folder.check(CONFIG, resume=True)
    folder.open(CONFIG, resume=True)
    assert kept.read_bytes() == b"result"


def test_only_the_same_run_is_resumed(tmp_path: Path) -> None:
    folder = opened(tmp_path / "run")
    with pytest.raises(InputError, match=r"is another one: its clients is 20, not 30$"):
        folder.check(Config(clients=30, steps=10), resume=True)
    with pytest.raises(InputError, match=r"^`out` must hold a run to resume, got "):
        Folder(tmp_path / "other").check(CONFIG, resume=True)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"^`out` must be a new or empty folder, .*, which holds other files$"
    ):
        Folder(tmp_path).check(CONFIG, force=True)
    folder = opened(tmp_path / "run", interrupted=False)
    (folder.path / "notes.txt").write_text("mine", encoding="utf-8")
    folder.open(CONFIG)
    folder.close()
    assert sorted(path.name for path in folder.path.iterdir()) == ["config.json", "notes.txt"]


def test_a_file_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file", encoding="utf-8")
    with pytest.raises(InputError, match=r"^`out` must be a writable folder, got '.*run' \("):
        Folder(tmp_path / "runs" / "run").open(CONFIG)
    with pytest.raises(InputError, match=r"^`out` must be a writable folder, got '.*run' \("):
        free_folder(tmp_path / "runs", "run")


def test_new_folders_are_numbered(tmp_path: Path) -> None:
    names = [free_folder(tmp_path / "runs", "digits-paper").path.name for _ in range(3)]
    assert names == ["digits-paper", "digits-paper-2", "digits-paper-3"]


def test_the_newest_unfinished_run_of_the_same_choices_is_found(tmp_path: Path) -> None:
    for name, interrupted in (("x", True), ("x-2", True), ("x-10", None), ("x-11", False), ("xy", True)):
        opened(tmp_path / name, interrupted)
    assert unfinished_folder(tmp_path, "x", CONFIG).path.name == "x-10"
    with pytest.raises(InputError, match=r"^no unfinished run of this configuration in "):
        unfinished_folder(tmp_path, "x", Config(clients=30))
    with pytest.raises(InputError, match=r"^no unfinished run of this configuration in "):
        unfinished_folder(tmp_path / "nowhere", "x", CONFIG)
