"""Kills a process before each of its calls into the system, one after another, and looks at what it leaves behind.

`python -m tests.federation.crashes CASE FOLDER`, in a process of its own: it forks, and must have no threads.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ofediq.federation.protocol.memory import Memory, MemoryFile, Owner
from ofediq.federation.protocol.state import ServerState
from ofediq.federation.rollout import KEPT, Versions

POINT = dict.fromkeys(("samples", "seconds", "senders", "expected", "error", "naive", "bits_wire"), 1.0)
OWNER = Owner("f", "c", {"pipeline": {}}, {"dim": 1})


def killed_before(place: int, action: Callable[[], None]) -> bool:
    """Whether `action`, in a child, was killed before so many calls into the system; else it ended well."""
    child = os.fork()
    if not child:
        left = [place]

        def watch(frame: Any, event: str, called: Any) -> None:
            if event == "c_call" and _of_the_system(called):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(watch)
        action()
        sys.setprofile(None)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        assert os.WEXITSTATUS(status) == 0, "it ended in an error"
        return False
    return True


def _of_the_system(called: Any) -> bool:
    """Whether a built-in function is one of files or of the operating system, and more than one of names."""
    if called.__name__ in ("fspath", "_path_splitroot_ex", "_path_normpath"):
        return False  # Python 3.13 takes names of files apart with these, several times for each file
    return "_io" in type(getattr(called, "__self__", None)).__module__ or called.__module__ in (
        "_io",
        "posix",
        "fcntl",
    )


def state(step: int, version: int = 0) -> ServerState:
    """A state in which everything says `step`."""
    return ServerState(
        identity={"task": {"version": version}},
        epoch=1,
        step=step,
        state={"state": {"params": np.full(5000, step, np.float32)}},
        numbers={"c": 0},
        counted=[0],
        record={"points": [{"step": 1 + k, **POINT, "bits_fedogd": 1.0} for k in range(step)], "clients": []},
    )


def is_whole(found: ServerState | None, step: int) -> bool:
    """Whether all of a state is that of `step`, with its history; the newest point of that may be missing."""
    if found is None or found.step != step or not (found.state["state/params"] == step).all():
        return False
    steps = [point["step"] for point in found.record["points"]]
    return steps == list(range(1, len(steps) + 1)) and step - 1 <= len(steps) <= step


def server(folder: Path) -> int:
    """Each round's state: the old one or the new one, with its history, and nothing else in the folder."""
    path, done = folder / "state.npz", 1
    state(1).write(path)
    places = 0
    while True:
        killed = killed_before(places, partial(state(done + 1).write, path))
        found = ServerState.read(path)
        assert is_whole(found, done) or is_whole(found, done + 1), f"place {places}"
        assert found is not None
        places, done = places + 1, found.step
        state(done).write(path)  # the next save brings what is missing
        assert is_whole(ServerState.read(path), done)
        if not killed:
            assert sorted(os.listdir(folder)) == ["state.history", "state.npz", "state.previous.npz"]
            return places


def client(folder: Path) -> int:
    """What a client remembers: the old memory or the new one."""
    file = MemoryFile(folder / "memory.npz")

    def memory(step: int) -> Memory:
        rows = {"heard": np.full((1, 500), step, np.float32)}
        return Memory(rows, rows, step, b"said", np.full(3, step), step)

    done, places = 1, 0
    file.write(memory(1), OWNER, now=True)
    while True:
        killed = killed_before(places, partial(file.write, memory(done + 1), OWNER, now=True))
        found = file.read(memory(0), OWNER)
        assert found.step in (done, done + 1), f"place {places}"
        assert (found.counted["heard"] == found.step).all()
        assert (found.past == found.step).all()
        assert found.position == found.step
        places, done = places + 1, found.step
        if not killed:
            assert os.listdir(folder) == ["memory.npz"]
            return places


def versions(folder: Path) -> int:
    """The versions that can be gone back to: every one that is listed can be read, and nothing else is left."""
    kept = Versions(folder)
    for version in range(KEPT):
        kept.push({"version": version}, state(3, version))
    version, places = KEPT, 0
    while True:
        killed = killed_before(places, partial(kept.push, {"version": version}, state(3, version)))
        for number in kept.kept():
            tables, saved = kept.read(number)
            assert tables == {"version": number}
            assert is_whole(saved, 3)
        places, version = places + 1, max(version, max(kept.kept()) + 1)
        if not killed:
            left = {path.name.split(".")[0] for path in (folder / "versions").iterdir()}
            assert left == {str(number) for number in kept.kept()}, left
            return places


CASES = {"server": server, "client": client, "versions": versions}

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.stdout.write(f"{CASES[sys.argv[1]](Path(sys.argv[2]))}\n")
