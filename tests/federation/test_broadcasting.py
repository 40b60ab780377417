"""Compressed broadcasts, live: everyone ends with the loop's model, and one straggler does not cost the fleet."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from ofediq import methods
from ofediq.codec import Encoded
from ofediq.errors import WireError
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.messages import LostError, ModelMessage, Publish, read_chain, write_chain
from ofediq.methods.client import Down
from ofediq.streams import Stream
from tests.federation.network import FEDERATION, Network
from tests.federation.test_core import CLIENTS, STEPS, coordinator, expected, stream

__all__ = ["stream"]  # a fixture

METHOD = methods.with_broadcast(methods.fedogd(0.1), methods.delta(31, 1))


class Counted(Network):
    """Counts what the server says, and loses what one client is told on `d` now and then."""

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
        if name == self.lossy and message.topic.endswith("/d") and self.random.random() < 0.3:
            self.lost += 1
            return
        super()._deliver(item)

    def count(self, kind: str) -> int:
        return sum(one.topic.startswith(f"{FEDERATION}/{kind}") for one in self.said)


def test_the_fleet_gets_differences(stream: Stream) -> None:
    network = Counted(coordinator(METHOD), stream)
    network.start()
    network.run()
    assert (network.count("d"), network.count("whole")) == (STEPS - 1, 0)
    sizes = [len(one.payload) for one in network.said if one.topic.endswith("/d")]
    assert max(sizes) < 650 * 4 / 3
    for learner in network.learners.values():
        assert learner.finished
        np.testing.assert_array_equal(learner.params, network.learners["c0"].params)


def test_who_missed_differences_gets_these_where_they_are_shorter_than_the_model(stream: Stream) -> None:
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
    sizes = [len(one.payload) for one in network.said if "/whole/" in one.topic]
    assert max(sizes) < 650 * 4 / 3  # what it missed, and no model
    alone = sum(8 * len(one.payload) for one in network.said if "/whole/" in one.topic)
    differences = sum(8 * len(one.payload) for one in network.said if one.topic.endswith("/d"))
    frames = 8 * 9 * network.count("d")
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


def test_a_difference_from_something_else_is_lost_and_one_of_before_is_ignored() -> None:
    down = Down(np.zeros(3, np.float32), {}, {"z": np.float32(2)})
    said = ModelMessage(7, 70_000, 20, down).encode(Encoded(b"move", 5))
    assert len(said) == 9 + 4 + 1 + 4
    read = partial(ModelMessage.decode, dim=3, scalars=("z",))
    found = read(said, near=(7, 69_999, 21))
    assert (found.epoch, found.step, found.clients, found.difference) == (7, 70_000, 20, Encoded(b"move", 5))
    assert float(found.down.scalars["z"]) == 2
    others = [(8, 69_999, 20), (7, 69_999 + 2**16, 20), (7, 69_999, 20 + 2**16)]
    for near in others:
        with pytest.raises(LostError, match="something else"):
            read(said, near=near)
    for place in range(5, len(said)):
        with pytest.raises(LostError):
            read(said[:place] + bytes([said[place] ^ 1]) + said[place + 1 :], near=(7, 69_999, 20))
    assert read(said, near=(7, 70_001, 20)).step == 70_000  # over: nothing of it is read
    with pytest.raises(WireError, match="nothing to add it to"):
        read(said)


def test_receipts_follow_a_difference() -> None:
    down = Down(np.zeros(3, np.float32), {"shift": np.ones(3, np.float32)}, {})
    said = ModelMessage(7, 2, 20, down, counted=(3, 4)).encode(Encoded(b"move"))
    found = ModelMessage.decode(said, 3, ("shift",), (), receipts=True, near=(7, 1, 20))
    assert (found.counted, found.difference) == ((3, 4), Encoded(b"move"))
    np.testing.assert_array_equal(found.down.vectors["shift"], np.ones(3))


def test_a_chain_is_never_longer_than_the_model(stream: Stream) -> None:
    server = coordinator(METHOD)
    network = Counted(server, stream)
    network.start()
    network.run(limit=20 * CLIENTS)
    found = [server.keeper.broadcasts.since(step) for step in range(server.step + 1)]
    assert found[0] is None
    assert found[-1] is not None
    lengths = [len(one) for one in found if one is not None]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] <= 4 * 650 + 5 * len(lengths)


def test_a_chain_that_is_cut_off_or_from_something_else_is_refused() -> None:
    assert read_chain(ModelMessage(7, 1, 20, Down(np.zeros(3, np.float32), {}, {})).encode()) is None
    whole = write_chain([b"one", b"three"])
    assert read_chain(whole) == [b"one", b"three"]
    for end in range(2, len(whole)):
        if end != 1 + 4 + len(b"one"):  # there a chain may end
            with pytest.raises(WireError):
                read_chain(whole[:end])


def test_who_asked_in_vain_asks_for_the_whole_model(stream: Stream) -> None:
    """A chain that does not fit is not asked for twice, and nothing of it is used."""
    network = Counted(coordinator(METHOD), stream)
    network.start()
    network.run(limit=6 * CLIENTS + 5)
    learner = network.learners["c3"]
    before = learner.params.copy()
    foreign = ModelMessage(999, learner.step + 1, CLIENTS, Down(np.zeros(0, np.float32), {}, {}))
    chain = write_chain([foreign.encode(Encoded(b"move"))])
    first, second = (learner.receive("whole", chain)[0].payload for _ in range(2))
    assert b'"epoch"' in first
    assert b'"step"' in first
    assert b'"step"' not in second
    np.testing.assert_array_equal(learner.params, before)
