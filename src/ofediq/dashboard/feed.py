"""What the page is told: once everything, then only what is new, as server-sent events."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from ofediq.federation.protocol.monitor import Monitor

INTERVAL = 0.25
"""Seconds between two updates, at least."""

HEARTBEAT = 5.0
"""Seconds of silence after which a sign of life is sent."""

RETRY = 1000
"""Milliseconds that a browser waits before it connects again."""

_KEPT = 8  # updates for readers who are a little late

News = dict[str, Any]


class NewsFeed:
    """What one reader knows already, and so what is news to it.

    The history travels as columns, which are half as long as points, and only its new end; clients travel when
    something about them changed.

    >>> monitor = Monitor("greenhouse", "classification", {"dim": 650})
    >>> monitor.client("c0", 0).sent = 3
    >>> feed = NewsFeed(monitor)
    >>> feed.everything()["clients"][0]["sent"]
    3
    >>> feed.news()["clients"]
    []
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._rows: dict[str, News] = {}
        self._spacing = 1
        self._points = 0

    def everything(self) -> News:
        """The whole snapshot."""
        return self._tell(self._monitor.snapshot(), known=0)

    def news(self) -> News:
        """The snapshot with the clients that changed and the points that came since the last call.

        When the history was thinned in between, it is told from its beginning: `since` says which point is first.
        """
        now = self._monitor.snapshot()
        known = self._points if now["spacing"] == self._spacing else 0
        before = self._rows
        message = self._tell(now, known)
        message["clients"] = [row for row in message["clients"] if before.get(row["name"]) != row]
        return message

    def _tell(self, snapshot: News, known: int) -> News:
        points = snapshot["history"]
        known = min(known, len(points))
        self._rows = {row["name"]: row for row in snapshot["clients"]}
        self._points, self._spacing = len(points), snapshot["spacing"]
        return snapshot | {"history": columns(points[known:]), "since": known}


def columns(points: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Points with the same names, as one list per name.

    >>> columns([{"step": 1, "senders": 2}, {"step": 2, "senders": 0}])
    {'step': [1, 2], 'senders': [2, 0]}
    """
    return {name: [point[name] for point in points] for name in (points[0] if points else ())}


class Press:
    """What all readers of a page are told, written out once for all of them.

    >>> press = Press(Monitor("greenhouse", "classification", {}), interval=0.0)
    >>> edition = press.edition
    >>> press.since(edition), len(press.everything()) > 100
    ([], True)
    >>> press.monitor.touch()
    >>> [one[:13] for one in press.since(edition)], press.edition - edition
    ([b'event: update'], 1)
    """

    def __init__(self, monitor: Monitor, *, interval: float = INTERVAL) -> None:
        self.monitor, self.interval = monitor, interval
        self.edition = 0
        self._feed = NewsFeed(monitor)
        self._feed.everything()
        self.version = monitor.version
        self._printed = -math.inf
        self._issues: deque[bytes] = deque(maxlen=_KEPT)  # the newest last
        self._whole = (-1, b"")  # with the version that it is of

    def everything(self) -> bytes:
        """The event for a new reader; who has it may hear all later updates, also those it knows in part."""
        if self._whole[0] != self.monitor.version:
            self._whole = self.monitor.version, event("snapshot", NewsFeed(self.monitor).everything())
        return self._whole[1]

    def since(self, edition: int) -> list[bytes]:
        """The events after `edition`; everything, to a reader who is too slow for them."""
        now = time.monotonic()
        if self.monitor.version != self.version and now >= self._printed + self.interval:
            self.version, self._printed, self.edition = self.monitor.version, now, self.edition + 1
            self._issues.append(event("update", self._feed.news()))
        missed = self.edition - edition
        return (
            [self.everything()]
            if missed > len(self._issues)
            else list(self._issues)[len(self._issues) - missed :]
        )


async def events(
    press: Press, closing: asyncio.Event, *, heartbeat: float = HEARTBEAT
) -> AsyncIterator[bytes]:
    """Server-sent events for one reader, until `closing` is set.

    `snapshot` first, then `update` whenever something changed, at most one per `interval` seconds; `alive` after
    `heartbeat` seconds without news, behind a comment that keeps middlemen from hanging up.
    """
    edition, seen = press.edition, press.monitor.version
    yield f"retry: {RETRY}\n".encode() + press.everything()
    while not closing.is_set():
        if await _news(press.monitor, seen, closing, heartbeat):
            told = press.since(edition)
            if press.edition > edition:
                edition, seen = press.edition, press.version
            for news in told:
                yield news
        elif not closing.is_set():
            yield b": heartbeat\n" + event("alive", {"now": time.time()})
        await _pause(closing, press.interval)


def event(name: str, data: News) -> bytes:
    r"""One server-sent event.

    >>> event("alive", {"now": 1.5})
    b'event: alive\ndata: {"now":1.5}\n\n'
    """
    return f"event: {name}\ndata: {to_json(data)}\n\n".encode()


def to_json(data: Any) -> str:
    """Compact JSON that every browser reads: numbers that are not finite become null, unknown things their text.

    >>> to_json({"loss": float("nan"), "rate": 0.1})
    '{"loss":null,"rate":0.1}'
    """
    return msgspec.json.encode(data, enc_hook=_plain).decode()


def _plain(value: Any) -> Any:
    """A NumPy number or array as Python's; anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


async def _news(monitor: Monitor, seen: int, closing: asyncio.Event, patience: float) -> bool:
    """Wait for something newer than `seen`; False when patience or the server ends first."""
    waits = [asyncio.ensure_future(monitor.changed(seen)), asyncio.ensure_future(closing.wait())]
    try:
        done, _ = await asyncio.wait(waits, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return waits[0] in done and not closing.is_set()


async def _pause(closing: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(closing.wait(), seconds)
    except TimeoutError:
        return
