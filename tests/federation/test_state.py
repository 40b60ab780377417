"""The server's state on a bad disk."""

from __future__ import annotations

import json
import logging
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from ofediq import methods
from ofediq.errors import CheckpointError
from ofediq.federation import coordinate
from ofediq.federation.protocol.history import history_file
from ofediq.federation.protocol.state import ServerState, previous
from ofediq.storage import leaves
from tests.federation.network import FEDERATION
from tests.federation.test_core import SPEC, coordinator
from tests.federation.test_guard import send, started


def test_a_damaged_state_gives_way_to_the_one_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, path = started(clip=None), tmp_path / "state.npz"
    for _ in range(3):
        send(server, [1.0] * 12)
        server.saved().write(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with caplog.at_level(logging.ERROR):
        found = ServerState.read(path)
    assert found is not None
    assert found.step == 2
    assert "continues from the state before it, step 2" in caplog.text
    again = coordinator(methods.fedogd(1.0), saved=found)
    send(again, [])
    assert again.step == 2
    previous(path).write_bytes(b"")
    with pytest.raises(CheckpointError, match="cannot read checkpoint of the server"):
        ServerState.read(path)
    path.unlink()
    assert ServerState.read(path) is None


def test_a_save_that_does_not_end_leaves_two_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both names of one file would be damaged together."""
    server, path = started(clip=None), tmp_path / "state.npz"
    for _ in range(2):
        send(server, [1.0] * 12)
        server.saved().write(path)
    send(server, [1.0] * 12)
    with monkeypatch.context() as full:
        full.setattr("os.fsync", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(CheckpointError, match="No space left"):
            server.saved().write(path)
    path.write_bytes(b"damaged")
    found = ServerState.read(path)
    assert found is not None
    assert found.step == 1


def test_the_past_is_added_to_and_not_written_again(tmp_path: Path) -> None:
    """A round of a long federation writes as much as a round of a short one."""
    server, path, sizes = started(clip=None), tmp_path / "state.npz", []
    history = history_file(path)
    for step in range(1, 24):
        send(server, [1.0] * 12)
        before = history.read_bytes() if history.exists() else b""
        server.saved().write(path)
        assert history.read_bytes()[: len(before)] == before
        sizes.append(path.stat().st_size)
        assert len(server.monitor.snapshot()["history"]) == step
    assert max(sizes[5:]) - min(sizes[5:]) < 64  # the lengths of numbers
    found = ServerState.read(path)
    assert found is not None
    again = coordinator(methods.fedogd(1.0), saved=found)
    assert again.monitor.export() == {**server.monitor.export(), "clients": again.monitor.export()["clients"]}
    for one, other in zip(again.monitor.rows(), server.monitor.rows(), strict=True):
        assert vars(one) == {**vars(other), "present": False}


@pytest.mark.parametrize("harm", ["gone", "torn", "longer", "nonsense", "renamed", "spacing"])
def test_a_damaged_history_costs_curves_and_nothing_else(tmp_path: Path, harm: str) -> None:
    server, path = started(clip=None), tmp_path / "state.npz"
    for _ in range(6):
        send(server, [1.0] * 12)
        server.saved().write(path)
    history = history_file(path)
    whole = history.read_bytes()
    if harm == "gone":
        history.unlink()
    else:
        history.write_bytes(
            {
                "torn": whole[:-3],
                "longer": whole + whole[-72:],
                "nonsense": b"\x00" * 99,
                "renamed": whole.replace(b'"step"', b'"stop"'),
                "spacing": whole.replace(b'"spacing": 1', b'"spacing": 0'),
            }[harm]
        )
    found = ServerState.read(path)
    assert found is not None
    assert found.step == 6
    assert len(found.record["points"]) == {"torn": 5, "longer": 6}.get(harm, 0)
    again = coordinator(methods.fedogd(1.0), saved=found)
    again.saved().write(path)
    assert ServerState.read(path).record["points"] == found.record["points"]  # type: ignore[union-attr]  # it is there


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("guard/counters", np.array("text")),
        ("guard/secret", np.full(3, np.nan)),
        ("guard/room/update", np.array("text")),
        ("state/params", np.full(650, np.nan, np.float32)),
    ],
)
def test_a_whole_state_of_wrong_types_is_refused_with_one_sentence(place: str, value: Any) -> None:
    server = started(clip=20.0)
    send(server, [1.0] * 12)
    saved = server.saved()
    arrays: dict[str, Any] = leaves(saved.state)
    assert place in arrays
    wrong = replace(saved, state={**arrays, place: value})
    with pytest.raises(CheckpointError, match="cannot continue from the saved state"):
        coordinate(FEDERATION, methods.fedogd(1.0), SPEC, server.rules, seed=5, saved=wrong)


def test_a_record_that_does_not_fit_its_tables_gives_way_to_the_state_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, path = started(clip=None), tmp_path / "state.npz"
    for _ in range(2):
        send(server, [1.0] * 12)
        server.saved().write(path)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    meta = json.loads(parts["meta.json"])
    assert (meta.get("meta") or meta).pop("numbers")
    with zipfile.ZipFile(path, "w") as file:
        for name, content in {**parts, "meta.json": json.dumps(meta).encode()}.items():
            file.writestr(name, content)
    with caplog.at_level(logging.ERROR):
        found = ServerState.read(path)
    assert found is not None
    assert found.step == 1
    assert "continues from the state before it" in caplog.text
