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
ROUNDS, TAKEN_AT = 500, 470


def main() -> None:
    """Start a federation, wait, take the picture."""
    port = free_port()
    command = [sys.executable, "-m", "ofediq", "up", "--clients", "20", "--budget", "0.01"]
    federation = subprocess.Popen([*command, "--rounds", str(ROUNDS), "--port", str(port)])
    try:
        with chromium() as browser:
            tab = Tab(browser, viewport={"width": 1280, "height": 1290}, device_scale_factor=1.25)
            while _rounds(port) < 1:
                time.sleep(0.5)
            tab.page.goto(f"http://127.0.0.1:{port}/")
            tab.drawn()
            while _rounds(port) < TAKEN_AT:
                time.sleep(0.2)
            tab.page.wait_for_timeout(1200)  # curves are drawn once a second
            end = tab.page.locator(".details").bounding_box()
            assert end is not None
            height = end["y"] + end["height"] + 24
            _write(
                tab.page.screenshot(clip={"x": 0, "y": 0, "width": 1280, "height": height}, full_page=True)
            )
    finally:
        federation.terminate()
        federation.wait(30)


def _rounds(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/snapshot.json", timeout=5) as answer:
            return int(json.load(answer)["totals"]["rounds"])
    except OSError:
        return 0  # not up yet


def _write(picture: bytes) -> None:
    """Better packed than a browser does it."""
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
