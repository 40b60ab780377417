"""`Rollout`: a running federation gets another model or method, on some clients first if asked, and back.

What makes a version are the tables [model], [features] and [method] of federation.toml. The server looks at the file
once a second. What runs is in the state's folder, and so are the versions before it with their models:

    running.json        the tables of the running version, and those that were withdrawn
    versions/N.json, .npz    tables and state of version N, when another took its place
    rollout             what the operator asks for: promote or rollback
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ofediq.errors import CheckpointError, OFedIQError
from ofediq.federation.config import FederationConfig
from ofediq.federation.network.server import STATE_FILE
from ofediq.federation.protocol.canary import Canary, chosen
from ofediq.federation.protocol.coordinator import Action, Coordinator
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.state import ServerState
from ofediq.federation.protocol.task import differences
from ofediq.federation.setup import assemble
from ofediq.storage import leaves, save_bytes

log = logging.getLogger("ofediq.federation")

RUNNING_FILE = "running.json"
REQUEST_FILE = "rollout"
KEPT = 10
"""Versions before the running one that are kept."""

_EVERY = 1.0  # seconds between two looks at the file

Tables = dict[str, Any]
Change = tuple[Coordinator, list[Action]]


class Versions:
    """The running version, and those before it, in the folder of a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def running(self) -> tuple[Tables | None, Tables | None]:
        """The tables of what runs, and those that were withdrawn."""
        try:
            content = json.loads((self.folder / RUNNING_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None, None
        return content["running"], content["withdrawn"]

    def write(self, running: Tables, withdrawn: Tables | None = None) -> None:
        """Say what runs."""
        self._save(RUNNING_FILE, {"running": running, "withdrawn": withdrawn})

    def push(self, tables: Tables, saved: ServerState) -> None:
        """Keep a version that another takes the place of."""
        number = int(saved.identity["task"]["version"])
        path = self.folder / f"versions/{number}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        saved.write(path)
        self._save(f"versions/{number}.json", tables)  # last: it is listed by this file
        there = {
            int(one.name.split(".")[0]) for one in path.parent.glob("[0-9]*")
        }  # also what a killed one left
        for old in there.difference(self.kept()[-KEPT:]):
            self.drop(old)

    def kept(self) -> list[int]:
        """The numbers of the versions before this one that can be gone back to."""
        return sorted(int(path.stem) for path in (self.folder / "versions").glob("*.json"))

    def read(self, number: int) -> tuple[Tables, ServerState]:
        """Tables and state of an earlier version."""
        path = self.folder / f"versions/{number}.npz"
        tables: Tables = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        saved = ServerState.read(path)
        assert saved is not None
        return tables, saved

    def drop(self, number: int) -> None:
        """Forget an earlier version."""
        for ending in ("json", "npz", "previous.npz", "history"):
            (self.folder / f"versions/{number}.{ending}").unlink(missing_ok=True)

    def ask(self, what: str) -> None:
        """Ask the server to `promote` or to `rollback`; it takes it up within a second, or when it starts."""
        self._write(REQUEST_FILE, what.encode())

    def asked(self) -> str | None:
        """What the operator asked for, once."""
        path = self.folder / REQUEST_FILE
        try:
            word = path.read_text(encoding="utf-8").strip()
            path.unlink()
        except (OSError, ValueError):
            return None
        return word

    def _save(self, name: str, content: Any) -> None:
        self._write(name, json.dumps(content).encode())

    def _write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            save_bytes(path, content)
        except OSError as error:
            raise CheckpointError(f"cannot write {path}: {error.strerror or error}") from None


class Rollout:
    """Watches federation.toml and carries out what it and the operator ask for."""

    def __init__(self, path: Path, config: FederationConfig) -> None:
        self.path, self.config = path, config
        self.versions = Versions(config.folder)
        self._looked_at = -float("inf")
        self._seen: Any = None  # of the file, when it was last read
        self._refused = ""
        self._running: Tables = config.versioned
        self._withdrawn: Tables | None = None
        self._tried: Tables = {}  # what a canary is for

    def start(self) -> Coordinator:
        """The coordinator of what runs: that of the file, where nothing ran before, or it changed with no canary."""
        wanted = self.config.versioned
        running, self._withdrawn = self.versions.running()
        saved = ServerState.read(self.config.folder / STATE_FILE)
        if running is None or saved is None:
            coordinator = assemble(self.config)
            with suppress(CheckpointError):  # who saves the state says so
                self._runs(wanted)
            return coordinator
        self._running = running
        stays = running == wanted or wanted == self._withdrawn or self.config.rules.canary > 0
        before = assemble(self.config.as_version(running))
        if stays:
            return before
        return self._replaced(before, wanted, self._continued(before, self.config))

    def __call__(self, coordinator: Coordinator, now: float) -> Change | None:
        """Look at the file and at what the operator asks for; the coordinator that takes over, and what it says."""
        if now < self._looked_at + _EVERY:
            return None
        self._looked_at = now
        try:
            return self._look(coordinator, now)
        except OFedIQError as error:
            if str(error) != self._refused:
                log.error("server: goes on as before: %s", error)
            self._refused = str(error)
            return None

    def _look(self, coordinator: Coordinator, now: float) -> Change | None:
        asked = self.versions.asked()
        canary = coordinator.canary
        if asked == "rollback":
            return self._withdraw(coordinator, now) if canary is not None else self._back(coordinator, now)
        if canary is not None:
            coordinator.monitor.trial = canary.sentence()
            verdict = "promote" if asked == "promote" else canary.verdict()
            if verdict == "promote":
                return self._promoted(coordinator, now)
            if verdict == "withdraw" or not self._wants(self._tried):
                return self._withdraw(coordinator, now)
            return None
        self._read()
        wanted = self.config.versioned
        settled = wanted == self._running or (wanted == self._withdrawn and asked != "promote")
        if settled or coordinator.finished:
            return None
        share = 0.0 if asked == "promote" or self.config.rules.secure else self.config.rules.canary
        if share > 0 and len(coordinator.members) > 1:
            return coordinator, self._send_ahead(coordinator, share, now)
        fresh = self._replaced(coordinator, wanted, self._continued(coordinator, self.config))
        return self._taken_over(coordinator, fresh, now)

    # The file ---------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read the file again if it changed; what cannot be used is said once."""
        try:
            stat = self.path.stat()
        except OSError:
            return
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen == self._seen:
            return
        self._seen = seen
        read = FederationConfig.read(self.path)
        same = replace(read, name=self.config.name, folder=self.config.folder)
        if (read.name, read.folder) != (self.config.name, self.config.folder):
            log.error("server: another name or folder in %s needs a restart", self.path)
        self.config = same

    def _wants(self, tables: Tables) -> bool:
        self._read()
        return self.config.versioned == tables

    # Versions ---------------------------------------------------------------------------------------------------

    def _continued(self, before: Coordinator, config: FederationConfig) -> ServerState:
        """The state of `before` for the version of `config`: with its model, or, if that is another, a new one."""
        saved = before.saved()
        fresh = assemble(config, saved=None, monitor=Monitor(before.federation, before.monitor.task, {}))
        if fresh.monitor.task != before.monitor.task:
            raise OFedIQError("a running federation cannot go from classification to regression or back")
        return saved if fresh.task.model == before.task.model else _with_model(saved, fresh.saved())

    def _replaced(self, before: Coordinator, tables: Tables, saved: ServerState) -> Coordinator:
        """The coordinator of another version, which goes on from `saved`; the one before it is kept."""
        fresh = assemble(self.config.as_version(tables), saved=saved, monitor=before.monitor)
        if fresh.task.model != before.task.model:
            changed = differences(*(json.loads(one.task.encode()) for one in (before, fresh)))
            log.info(
                "server: task version %d has another model: %s", fresh.task.version, "; ".join(changed)[:600]
            )
        self.versions.push(self._running, before.saved())
        self._runs(tables)
        return fresh

    def _runs(self, tables: Tables, withdrawn: Tables | None = None) -> None:
        self._running, self._withdrawn = tables, withdrawn
        self.versions.write(tables, withdrawn)

    def _taken_over(self, before: Coordinator, fresh: Coordinator, now: float) -> Change:
        """`fresh` in place of `before`: everyone who is there is told once."""
        canary, before.canary = before.canary, None
        apart = set() if canary is None else canary.coordinator.members.present
        fresh.members.present = before.members.present & set(fresh.members.numbers)
        for name in fresh.members.present:
            fresh.monitor.client(name, fresh.members.numbers[name]).present = True
        log.info("server: task version %d runs", fresh.task.version)
        fresh.monitor.trial = None
        return fresh, [*fresh.connected(now), *fresh.welcome(apart, now)]

    def _send_ahead(self, coordinator: Coordinator, share: float, now: float) -> list[Action]:
        """Start a canary."""
        self._tried = self.config.versioned
        rules, saved = self.config.rules, self._continued(coordinator, self.config)
        monitor = Monitor(coordinator.federation, coordinator.monitor.task, {})
        alone = replace(
            self.config,
            rules=replace(rules, roster=(), open=True, min_clients=1, start_clients=None, rounds=None),
        )
        guard = assemble(alone, saved=None, monitor=monitor).saved().below("guard")
        state = {**_under(saved, "state"), **{f"guard/{path}": array for path, array in guard.items()}}
        saved = replace(saved, numbers={}, counted=(), state=state, record=monitor.export())
        ahead = assemble(alone, saved=saved, monitor=monitor)
        trusted = [name for name in coordinator.members.numbers if coordinator.tally.trusts(name)]
        canary = Canary(
            ahead,
            chosen(trusted, share, ahead.task.version),
            coordinator.monitor,
            rules.samples,
            rules.margin,
        )
        log.info("server: task %s", canary.sentence())
        coordinator.monitor.trial = canary.sentence()
        return coordinator.send_ahead(canary, now)

    def _promoted(self, coordinator: Coordinator, now: float) -> Change:
        """All get what some have, with the model that they came to."""
        canary = coordinator.canary
        assert canary is not None
        log.info("server: promoted: %s", canary.sentence())
        saved = _with_model(coordinator.saved(), canary.coordinator.saved())
        return self._taken_over(coordinator, self._replaced(coordinator, self._tried, saved), now)

    def _withdraw(self, coordinator: Coordinator, now: float) -> Change:
        """Those who were ahead come back; the file's version is not tried again until the file changes."""
        canary = coordinator.canary
        assert canary is not None
        log.warning("server: withdrawn: %s", canary.sentence())
        self._runs(self._running, self._tried)
        coordinator.monitor.trial = None
        return coordinator, coordinator.recall(now)

    def _back(self, coordinator: Coordinator, now: float) -> Change | None:
        """The version before this one, with its model."""
        kept = self.versions.kept()
        if not kept:
            log.error("server: there is no earlier version to go back to")
            return None
        tables, earlier = self.versions.read(kept[-1])
        saved = _with_model(coordinator.saved(), earlier)
        fresh = assemble(self.config.as_version(tables), saved=saved, monitor=coordinator.monitor)
        self._read()
        self._runs(tables, self.config.versioned)
        self.versions.drop(kept[-1])
        log.warning("server: back to version %d, as version %d", kept[-1], fresh.task.version)
        return self._taken_over(coordinator, fresh, now)


def _with_model(saved: ServerState, other: ServerState) -> ServerState:
    """`saved` with task and model of `other`, as the next version."""
    version = int(saved.identity["task"]["version"]) + 1
    identity = {**other.identity, "task": {**other.identity["task"], "version": version}}
    state = {**_under(other, "state"), **_under(saved, "guard")}
    epoch = max(saved.epoch, other.epoch, time.time_ns())
    return replace(saved, identity=identity, state=state, counted=(), epoch=epoch)


def _under(saved: ServerState, name: str) -> dict[str, Any]:
    return {path: array for path, array in leaves(saved.state).items() if path.startswith(f"{name}/")}
