"""The picture of the page in the docs: a real federation of 20 processes on this machine, shortly before its end.

Run as `python -m tests.dashboard.picture`. It needs chromium, and Pillow, which comes with matplotlib.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from PIL import Image

from tests.dashboard.browser import Tab, chromium
from tests.federation.mosquitto import free_port

TARGET = Path("docs/figures/page.png")
ROUNDS, OPENED_AT, TAKEN_AT = 400, 300, 370


def main() -> None:
    """Start a federation, wait, take the picture."""
    port = free_port()
    options = "--clients 20 --budget 0.01 --interval 0.1"
    command = [sys.executable, "-m", "ofediq", "up", *options.split()]
    federation = subprocess.Popen([*command, "--rounds", str(ROUNDS), "--port", str(port)])
    try:
        with chromium() as browser:
            tab = Tab(browser, viewport={"width": 1280, "height": 1290}, device_scale_factor=1.5)
            _wait(port, OPENED_AT)  # a browser takes time that the rounds would need
            tab.page.goto(f"http://127.0.0.1:{port}/")
            tab.drawn()
            _wait(port, TAKEN_AT)
            tab.page.wait_for_timeout(1200)  # curves are drawn once a second
            end = tab.page.locator(".details").bounding_box()
            assert end is not None
            height = end["y"] + end["height"] + 10  # before the next card begins
            _write(
                tab.page.screenshot(clip={"x": 0, "y": 0, "width": 1280, "height": height}, full_page=True)
            )
    finally:
        federation.terminate()
        federation.wait(30)


def _wait(port: int, step: int) -> None:
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                if json.load(answer)["step"] >= step:
                    return
        except OSError:
            pass  # not up yet
        time.sleep(1)


def _write(picture: bytes) -> None:
    """With a palette, a third of the size; its colours are picked where they differ, not where they abound."""
    with Image.open(io.BytesIO(picture)) as image:
        small = image.convert("RGB").quantize(
            256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
        small.save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
