"""Ctrl-C and SIGTERM between blocks: a run stops where its state is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def deferred_interrupt(announce: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Inside, the first Ctrl-C only calls `announce`; the function this yields then raises `KeyboardInterrupt`.

    SIGTERM, the wish of a scheduler or container that the run ends, is treated alike. A second signal ends the
    process at once, with what was saved until then. A signal that somebody else already handles is left to them, and
    outside the main thread, where Python delivers none, nothing changes.
    """
    asked = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        for one in before:
            signal.signal(one, signal.SIG_DFL)
        announce()

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM) if _is_free(one)}
    for one in before:
        signal.signal(one, remember)
    try:
        yield check
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _is_free(number: signal.Signals) -> bool:
    """Whether nobody handles a signal but Python or the system; Ctrl-C that is ignored stays so."""
    handler = signal.getsignal(number)
    return handler is signal.default_int_handler or (number == signal.SIGTERM and handler == signal.SIG_DFL)
