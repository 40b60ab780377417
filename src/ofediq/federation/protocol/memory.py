"""What a client remembers between rounds, and the file that outlives its process.

At the end of a window the client knows both of its possible memories: the one for an update that counted, and the
one for an update that was lost. It keeps both, and the receipt in the next broadcast says which one holds.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ofediq.errors import CheckpointError, require_integer
from ofediq.federation.protocol.messages import ModelMessage
from ofediq.federation.protocol.task import Task
from ofediq.methods.round import first_memory
from ofediq.storage import Format, leaves

log = logging.getLogger("ofediq.federation")

_FILE = Format("memory of a client", 2)


@dataclass(frozen=True)
class Owner:
    """Whose memory it is: a client of a federation, its model (with features), and the method's own pieces."""

    federation: str
    name: str
    model: Mapping[str, Any]
    method: Mapping[str, Any]

    @property
    def identity(self) -> dict[str, str]:
        """What never changes."""
        return {"federation": self.federation, "name": self.name}

    def remembers(self, method: Mapping[str, Any]) -> bool:
        """Whether what a client of `method` remembers is of use here: its rule is the same, whatever it sends in.

        Where the server keeps what it said, that must be of the same version.
        """
        names = ("dim", "client", "beside", "version")
        return all(self.method.get(name) == method.get(name) for name in names)


@dataclass(frozen=True, eq=False)
class Memory:
    """What a client remembers.

    Attributes:
        lost: if its update of the round `step` did not count, or if it sent none. Leaves are [1, ...].
        counted: if it did.
        step: t of the last window that it closed, 0 before the first.
        said: what it sent then; empty if nothing.
        past: of its own samples, see `Past`.
        position: how many rows of its source it has read.
    """

    lost: Any
    counted: Any
    step: int = 0
    said: bytes = b""
    past: Any = ()
    position: int = 0

    @classmethod
    def first(cls, value: Any, past: Any = ()) -> Memory:
        """Before the first window."""
        return cls(value, value, past=past)

    @property
    def empty(self) -> bool:
        """Whether the method remembers nothing."""
        return not leaves({"lost": self.lost})

    @property
    def undecided(self) -> bool:
        """Whether it matters if the last update counted."""
        one, other = leaves({"": self.lost}), leaves({"": self.counted})
        return any(not np.array_equal(one[path], other[path]) for path in one)

    def told(self, counted: bool) -> Memory:
        """After the receipt, or without one: there is only what holds."""
        holds = self.counted if counted else self.lost
        return replace(self, lost=holds, counted=holds)


class MemoryFile:
    """Keeps a client's memory in a file that is replaced in one step.

    Args:
        path: the file.
        every: write it at the end of every so many rounds: flash wears out. After a restart the client continues
            from what was written last; with 1 nothing is lost.
    """

    def __init__(self, path: Path, *, every: int = 1) -> None:
        self.path, self.every = path, require_integer("memory_every", every, 1)
        self._rounds = 0
        self._failed = False

    def write(self, memory: Memory, owner: Owner, *, now: bool = False) -> None:
        """Keep `memory`, if it is time or must be `now`; a disk that refuses is told once, and no reason to stop."""
        self._rounds += 1
        kept = memory.position or not memory.empty or owner.model.get("pipeline") is not None
        if not kept or (self._rounds % self.every and not now):
            return
        said = np.frombuffer(memory.said, np.uint8)
        tree = {"lost": memory.lost, "counted": memory.counted, "said": said, "past": memory.past}
        meta = {
            "step": memory.step,
            "position": memory.position,
            "model": owner.model,
            "method": owner.method,
        }
        try:
            _FILE.write(self.path, tree, identity=owner.identity, meta=meta)
        except CheckpointError as error:
            if not self._failed:
                log.error("client: %s; it goes on without", error)
            self._failed = True
        else:
            self._failed = False

    def read(self, first: Memory, owner: Owner) -> Memory:
        """What the file holds, in the form of `first`; `first` itself, and a line in the log, if that is lost.

        Its place in a file outlives everything. What it knows of its own samples outlives a change of method; the
        method's memory does where clients go by the same rule. What it said is said again in the same method only.
        """
        if not self.path.exists():
            return first
        try:
            stored = _FILE.read(self.path, identity=owner.identity)
            step, position = int(stored.meta["step"]), int(stored.meta["position"])
            if stored.meta["model"] != owner.model:
                log.info("client %s: the model or its features are new, its past starts clean", owner.name)
                return replace(first, position=position)
            past, method = stored.tree("past", first.past), stored.meta["method"]
            if not owner.remembers(method):
                if not first.empty:
                    log.warning("client %s: the method is new, its memory starts clean", owner.name)
                return replace(first, step=step, past=past, position=position)
            lost, counted = stored.tree("lost", first.lost), stored.tree("counted", first.counted)
            said = stored.array("said").tobytes() if method == owner.method else b""
            return Memory(lost, counted, step, said, past, position)
        except (CheckpointError, KeyError, TypeError, ValueError) as error:
            log.warning("client: its memory is lost, it starts clean: %s", error)
            return first


class Recall:
    """What a client remembers, from round to round and from process to process.

    Attributes:
        memory: None before the first model.
        clean: whether this round began with nothing of what the server may still add up.
    """

    def __init__(self, federation: str, name: str, file: MemoryFile | None = None) -> None:
        self.memory: Memory | None = None
        self.clean = False
        self._federation, self._name, self._file = federation, name, file

    def opened(self, task: Task, number: int, opened: ModelMessage, past: Any) -> Memory:
        """The memory with which a round opens: its receipt tells whether the last update counted."""
        first = Memory.first(first_memory(task.method, opened.down.model, 1), past)
        memory = self.memory
        if memory is None:
            memory = first if self._file is None else self._file.read(first, self._owner(task))
        if memory.step > opened.step:
            if not memory.empty:
                log.warning("client %s: its memory is of another run, it starts clean", self._name)
            memory = first
        before = opened.step if opened.final else opened.step - int(task.method.window_to(opened.step))
        guessed = memory.step < before and memory.undecided
        if memory.step <= before:
            memory = memory.told(memory.step == before and number in (opened.counted or ()))
        self.clean = task.method.client.kept > 0 and (guessed or memory.lost is first.lost)
        if self.clean:
            memory = replace(memory, lost=task.method.client.cleared(memory.lost, first.lost)).told(False)
        self.memory = memory
        return memory

    def changed(self, before: Task | None, after: Task) -> None:
        """The task is another one: what the client's own rule remembers stays, where rule and model are the same."""
        memory, self.memory = self.memory, None
        if before is None or memory is None:
            return
        old, new = self._owner(before), self._owner(after)
        if old.model == new.model and new.remembers(old.method):
            self.memory = replace(memory.told(False), step=0, said=b"")  # of no round of this task

    def closed(self, memory: Memory, task: Task | None = None) -> None:
        """A window is over; with a `task` it is written to the file."""
        self.memory = memory
        if self._file is not None and task is not None:
            self._file.write(memory, self._owner(task))

    def leave(self, task: Task, past: Any, position: int) -> None:
        """The client goes: what it knows is on disk then, with the `past` of its samples as it is now."""
        if self._file is not None and self.memory is not None:
            self._file.write(replace(self.memory, past=past, position=position), self._owner(task), now=True)

    def _owner(self, task: Task) -> Owner:
        plain = json.loads(task.encode())
        kept = ("dim", "client", "compress", "beside", "period")
        version = {"version": plain["version"]} if task.method.client.kept else {}
        method = {name: plain[name] for name in kept} | version
        return Owner(self._federation, self._name, plain["model"] or {}, method)
