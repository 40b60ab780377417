"""The server's state on a bad disk."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ofediq import methods
from ofediq.errors import CheckpointError
from ofediq.federation.protocol.history import history_file
from ofediq.federation.protocol.state import ServerState, previous
from tests.federation.test_core import coordinator
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
