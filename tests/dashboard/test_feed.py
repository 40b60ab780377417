import asyncio
import json
import random
from typing import Any

import numpy as np
import pytest

from ofediq.dashboard.feed import NewsFeed, Press, columns, events, to_json
from ofediq.federation.protocol.monitor import HISTORY, Monitor
from tests.dashboard.harness import a_round, monitor


class Reader:
    """What the page makes of the messages."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.history = first["history"]
        self.clients = {row["name"]: row for row in first["clients"]}

    def hear(self, message: dict[str, Any]) -> None:
        new, since = message["history"], message["since"]
        names = {*self.history, *new}
        self.history = {name: self.history.get(name, [])[:since] + new.get(name, []) for name in names}
        self.clients |= {row["name"]: row for row in message["clients"]}


def parsed(raw: bytes) -> tuple[str, dict[str, Any]]:
    lines = dict(
        line.split(": ", 1) for line in raw.decode().strip().splitlines() if not line.startswith(":")
    )
    return lines["event"], json.loads(lines["data"])


def test_increments_add_up_to_the_snapshot_also_when_the_history_is_thinned() -> None:
    draw = random.Random(0)
    one = monitor(clients=5)
    feed = NewsFeed(one)
    reader = Reader(feed.everything())
    for step in range(1, 2 * HISTORY + 300):  # thinned twice on the way
        one.record(a_round(step, senders=draw.randrange(5)))
        one.client(f"c{draw.randrange(7)}", 0).sent += 1  # two of them appear later
        if draw.random() < 0.05:
            reader.hear(feed.news())
    reader.hear(feed.news())
    snapshot = one.snapshot()
    assert snapshot["spacing"] == 4
    assert reader.history == columns(snapshot["history"])
    assert reader.clients == {row["name"]: row for row in snapshot["clients"]}


def test_news_hold_what_changed_and_nothing_else() -> None:
    one = monitor(clients=200)
    for step in range(1, 500):
        one.record(a_round(step))
    feed = NewsFeed(one)
    feed.everything()
    one.client("c7", 7).rejected += 1
    one.record(a_round(500))
    news = feed.news()
    assert [row["name"] for row in news["clients"]] == ["c7"]
    assert news["history"]["step"] == [500]
    assert news["since"] == 499


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"loss": float("inf")}, '{"loss":null}'),
        ({"rates": [0.5, float("nan")]}, '{"rates":[0.5,null]}'),
        ({"rate": np.float32(0.5)}, '{"rate":0.5}'),
        ({"rates": np.array([1.0, np.nan])}, '{"rates":[1.0,null]}'),
        ({"path": ValueError("odd")}, '{"path":"odd"}'),
    ],
)
def test_json_that_browsers_read(data: object, text: str) -> None:
    assert to_json(data) == text


def test_everything_comes_first_then_one_update_for_all_that_happened_meanwhile() -> None:
    async def scene() -> list[tuple[str, dict[str, Any]]]:
        one = monitor()
        stream = events(Press(one, interval=0.01), asyncio.Event(), heartbeat=0.05)
        heard = [parsed(await anext(stream))]
        for step in range(1, 6):
            one.record(a_round(step))
        heard += [parsed(await anext(stream)), parsed(await anext(stream))]
        return heard

    (first, everything), (second, news), (third, _) = asyncio.run(scene())
    assert (first, second, third) == ("snapshot", "update", "alive")
    assert everything["history"] == {}
    assert news["history"]["step"] == [1, 2, 3, 4, 5]


def test_updates_keep_their_distance() -> None:
    async def scene() -> None:
        one = monitor()
        stream = events(Press(one, interval=3600), asyncio.Event())
        await anext(stream)
        one.touch()
        assert parsed(await anext(stream))[0] == "update"
        one.touch()
        await asyncio.wait_for(anext(stream), 0.05)  # not before the hour is over

    with pytest.raises(TimeoutError):
        asyncio.run(scene())


def test_the_end_of_the_server_ends_the_stream() -> None:
    async def scene() -> int:
        closing = asyncio.Event()
        stream = events(Press(Monitor("f", "regression", {})), closing)
        await anext(stream)
        asyncio.get_running_loop().call_later(0.01, closing.set)
        return len([message async for message in stream])

    assert asyncio.run(scene()) == 0


def test_an_update_is_written_out_once_for_all_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def counted(data: Any) -> str:
        written.append(data)
        return to_json(data)

    async def scene() -> list[list[tuple[str, dict[str, Any]]]]:
        one, closing = monitor(), asyncio.Event()
        press = Press(one, interval=0.0)
        streams = [events(press, closing, heartbeat=0.5) for _ in range(50)]
        heard = [[parsed(await anext(stream))] for stream in streams]
        monkeypatch.setattr("ofediq.dashboard.feed.to_json", counted)
        for step in range(1, 4):
            one.record(a_round(step))
            for told, stream in zip(heard, streams, strict=True):
                told.append(parsed(await anext(stream)))
        return heard

    for told in asyncio.run(scene()):
        assert [news["history"]["step"] for _, news in told[1:]] == [[1], [2], [3]]
    assert len(written) == 3


def test_a_reader_who_comes_late_or_sleeps_long_misses_nothing() -> None:
    async def scene() -> tuple[dict[str, Any], list[Reader]]:
        one, closing = monitor(), asyncio.Event()
        press = Press(one, interval=0.0)
        # One hears all, one sleeps, one comes late.
        streams = [events(press, closing, heartbeat=0.5) for _ in range(3)]
        readers = [Reader(parsed(await anext(stream))[1]) for stream in streams[:2]]
        for step in range(1, 31):
            one.record(a_round(step))
            if step == 20:
                readers.append(Reader(parsed(await anext(streams[2]))[1]))
            for number in (0, 2)[: 1 + (step > 20)]:
                readers[number].hear(parsed(await anext(streams[number]))[1])
        readers[2].hear(parsed(await anext(streams[2]))[1])  # it was told of step 20 twice
        kind, whole = parsed(await anext(streams[1]))
        assert kind == "snapshot"
        readers[1] = Reader(whole)
        return one.snapshot(), readers

    snapshot, readers = asyncio.run(scene())
    assert all(reader.history == columns(snapshot["history"]) for reader in readers)
