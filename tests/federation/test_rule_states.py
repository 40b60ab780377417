"""Whatever a server rule keeps comes back from disk, or a sentence says why it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq import methods
from ofediq.errors import CheckpointError
from ofediq.federation.protocol.state import ServerState
from ofediq.methods import Method, ServerRule
from ofediq.methods.robust.guard import CLIP
from ofediq.streams import Stream
from tests.federation.network import Network
from tests.federation.test_core import CLIENTS, METHODS, coordinator, stream

__all__ = ["stream"]  # a fixture


@dataclass(frozen=True)
class Heavy(ServerRule):
    """Descent with momentum, whose state is a dict with a tuple and None in it."""

    name: str = "heavy"

    def start(self, params: Any) -> Any:
        return params

    def init(self, params: Any) -> dict[str, Any]:
        return {"velocity": (np.zeros_like(params), None), "steps": np.int32(0)}

    def apply(self, params: Any, total: Any, clients: int, state: Any) -> tuple[Any, Any]:
        velocity = np.float32(0.9) * state["velocity"][0] + total / np.float32(clients)
        return params - np.float32(0.05) * velocity, {
            "velocity": (velocity, None),
            "steps": state["steps"] + 1,
        }


TERMS = methods.Terms(0.1, 650, CLIENTS)
HOSTILE = "flip(share=0.3, size=2)"


@pytest.mark.parametrize(
    ("method", "clip"),
    [
        (methods.with_server(METHODS["packed"], Heavy()), None),
        (methods.attacked(methods.make("laq", TERMS, step_size=0.1), HOSTILE), CLIP),
        (methods.attacked(methods.make("diana", TERMS, step_size=0.3), HOSTILE), CLIP),
    ],
    ids=["momentum", "what members said", "some of what members said"],
)
def test_any_state_of_a_server_comes_back_from_disk(
    method: Method, clip: float | None, stream: Stream, tmp_path: Path
) -> None:
    whole = coordinator(method, clip=clip)
    network = Network(whole, stream)
    network.start()
    network.run()
    network = Network(coordinator(method, clip=clip), stream)
    network.start()
    network.run(limit=CLIENTS * 6 + 7)
    assert network.saved is not None
    network.saved.write(tmp_path / "state.npz")
    second = coordinator(method, saved=ServerState.read(tmp_path / "state.npz"), clip=clip)
    network.coordinator = second
    network.queue.clear()
    network.act(second.connected(network.now))
    for name in network.learners:
        network.arrive(name)
    network.run()
    assert second.finished
    np.testing.assert_array_equal(second.params, whole.params)


@dataclass(frozen=True)
class Odd(Heavy):
    """The same, with something in its state that no file can hold."""

    def init(self, params: Any) -> dict[str, Any]:
        return {**super().init(params), "odd": object()}

    def apply(self, params: Any, total: Any, clients: int, state: Any) -> tuple[Any, Any]:
        moved, after = super().apply(params, total, clients, state)
        return moved, {**after, "odd": state["odd"]}


def test_a_state_that_cannot_be_written_does_not_stop_the_rounds(stream: Stream, tmp_path: Path) -> None:
    server = coordinator(methods.with_server(METHODS["packed"], Odd()))
    network = Network(server, stream)
    network.start()
    network.run()
    assert server.finished
    assert network.saved is not None
    with pytest.raises(
        CheckpointError, match=r"^cannot write checkpoint .*/odd is a object, which is no array"
    ):
        network.saved.write(tmp_path / "state.npz")
    assert not list(tmp_path.iterdir())
