"""Ctrl-C between blocks: a run stops where its state is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt(announce: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Inside, the first Ctrl-C only calls `announce`; the function this yields then raises `KeyboardInterrupt`.

    A second Ctrl-C ends the process at once, with what was saved until then. Where somebody else already handles
    Ctrl-C, and outside the main thread, where Python delivers no signals, nothing changes.
    """
    asked = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        announce()

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    before = signal.signal(signal.SIGINT, remember)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
