"""A real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A tab that keeps what went wrong in it and where it asked.

    Without `charts` the chart script, which takes a second to read, is an empty one.
    """

    def __init__(self, browser: Browser, *, charts: bool = True, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.addresses: list[str] = []
        if not charts:
            empty = {"body": "", "content_type": "text/javascript"}
            self.page.route("**/static/plotly.js", lambda route: route.fulfill(**empty))
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.addresses.append(request.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning", "trace"):  # plotly warns by traces
            self.errors.append(text)

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)

    def until(self, selector: str, text: str) -> None:
        """Wait until an element's text is this."""
        self.page.wait_for_function(
            "([selector, text]) => document.querySelector(selector)?.innerText === text",
            arg=[selector, text],
            timeout=40_000,
        )

    def drawn(self) -> None:
        """Wait for the charts."""
        self.page.wait_for_selector("#seconds-chart .main-svg", state="attached", timeout=40_000)
