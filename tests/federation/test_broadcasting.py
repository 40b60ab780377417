"""Compressed broadcasts, live: everyone ends with the loop's model, and one straggler does not cost the fleet."""

from __future__ import annotations

import numpy as np
import pytest

from ofediq import methods
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import Publish
from ofediq.streams import Stream
from tests.federation.network import FEDERATION, Network
from tests.federation.test_core import CLIENTS, STEPS, coordinator, expected, stream

__all__ = ["stream"]  # a fixture

METHOD = methods.with_broadcast(methods.fedogd(0.1), methods.delta(31, 1))


class Counted(Network):
    """Counts what the server says, and loses what one client is told on `delta` now and then."""

    def __init__(self, *args: object, lossy: str = "", **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]  # the same as above
        self.said: list[Publish] = []
        self.lossy = lossy
        self.lost = 0

    def act(self, actions: list[object]) -> None:  # type: ignore[override]  # any action
        self.said += [one for one in actions if isinstance(one, Publish)]
        super().act(actions)  # type: ignore[arg-type]  # the same

    def _deliver(self, item: tuple[str, Publish]) -> None:
        name, message = item
        if name == self.lossy and message.topic.endswith("/delta") and self.random.random() < 0.3:
            self.lost += 1
            return
        super()._deliver(item)

    def count(self, kind: str) -> int:
        return sum(one.topic.startswith(f"{FEDERATION}/{kind}") for one in self.said)


def test_the_fleet_gets_differences(stream: Stream) -> None:
    network = Counted(coordinator(METHOD), stream)
    network.start()
    network.run()
    assert (network.count("delta"), network.count("whole")) == (STEPS - 1, 0)
    sizes = [len(one.payload) for one in network.said if one.topic.endswith("/delta")]
    assert max(sizes) < 650 * 4 / 3
    for learner in network.learners.values():
        assert learner.finished
        np.testing.assert_array_equal(learner.params, network.learners["c0"].params)


def test_who_missed_a_difference_asks_for_the_whole_model(stream: Stream) -> None:
    server = coordinator(METHOD, deadline=1.0)
    network = Counted(server, stream, lossy="c3")
    network.start()
    network.run()
    assert server.finished
    assert network.lost > 0
    assert 0 < network.count("whole") <= network.lost
    assert network.count("whole/c3") == network.count("whole")
    assert network.count("model") <= 3  # none yet, the first, the final one
    np.testing.assert_array_equal(network.learners["c3"].params, network.learners["c0"].params)
    alone = sum(8 * len(one.payload) for one in network.said if "/whole/" in one.topic)
    differences = sum(8 * len(one.payload) for one in network.said if one.topic.endswith("/delta"))
    frames = 8 * (24 + 4 + 7) * network.count("delta")
    counted = server.monitor.totals()["bits_downlink"]
    assert counted - alone == pytest.approx(differences - frames, rel=0.05)  # and the last one, sent whole
    lost = network.lost * stream.clients
    assert server.monitor.totals()["updates"] >= STEPS * CLIENTS - lost


@pytest.mark.parametrize("restarted", ["client", "server"])
def test_restarts_change_nothing(restarted: str, stream: Stream) -> None:
    network = Counted(coordinator(METHOD), stream)
    network.start()
    network.run(limit=6 * CLIENTS + 5)
    if restarted == "client":
        network.learners["c3"] = Learner(FEDERATION, "c3")
        network.queue = [(to, one) for to, one in network.queue if to != "c3"]
        network.arrive("c3")
    else:
        assert network.saved is not None
        network.coordinator = coordinator(METHOD, saved=network.saved)
        network.queue.clear()
        network.act(list(network.coordinator.connected(network.now)))
        for name in network.learners:
            network.arrive(name)
    network.run()
    server = network.coordinator
    assert server.finished
    assert network.count("whole") == (restarted == "client")
    assert server.monitor.totals()["updates"] == STEPS * CLIENTS
    np.testing.assert_allclose(server.params, expected(METHOD, stream).params, rtol=1e-5, atol=1e-6)
