"""The server's state on a bad disk."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ofediq import methods
from ofediq.errors import CheckpointError
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
