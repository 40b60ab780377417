"""The page's own files, and the chart script out of the plotly package."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ofediq.errors import extra

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_STYLE_MARK = "<!-- styles that plotly need not insert -->"


@dataclass(frozen=True)
class Asset:
    """A file as it is served, compressed."""

    body: bytes
    media_type: str
    etag: str

    @classmethod
    def of(cls, content: bytes, media_type: str) -> Asset:
        """The asset with this content."""
        return cls(
            gzip.compress(content, mtime=0), media_type, f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        )

    def answer(self, request: Request) -> Response:
        """The file, or that the reader's copy is still the same."""
        headers = {"ETag": self.etag, "Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                self.body, media_type=self.media_type, headers=headers | {"Content-Encoding": "gzip"}
            )
        return Response(gzip.decompress(self.body), media_type=self.media_type, headers=headers)


@cache
def own_files() -> dict[str, Asset]:
    """The page's scripts, styles and icon, by name."""
    return {
        one.name: Asset.of(one.read_bytes(), _MEDIA_TYPES[PurePosixPath(one.name).suffix])
        for one in files("ofediq.dashboard").joinpath("static").iterdir()
        if PurePosixPath(one.name).suffix in _MEDIA_TYPES
    }


@cache
def plotly() -> tuple[Asset, tuple[str, ...]]:
    """The chart script, and the names of the style sheets that it would insert into the page.

    Inserted styles break the Content-Security-Policy. Plotly leaves out those whose name is taken already; the
    charts of this page need none of them beyond what `page.css` has.
    """
    script: str = extra("plotly.offline", "server").get_plotlyjs()
    names = sorted(set(re.findall(r'getElementById\("([0-9a-f]{64})"\)', script)))
    return Asset.of(script.encode(), _MEDIA_TYPES[".js"]), tuple(names)


@cache
def page_html() -> str:
    """The page."""
    taken = "".join(f'<template id="{name}"></template>' for name in plotly()[1])
    return _read("page.html").replace(_STYLE_MARK, taken)


def ask_for_token(*, wrong: bool) -> Response:
    """A page with one field, for readers who came without the token or with a wrong one."""
    said = "That is not the token." if wrong else "This federation asks for its token."
    html = _read("token.html").replace("<!-- said -->", said)
    # Its few rules stand in the page itself, allowed by their digest: no other file is open without the token.
    style = base64.b64encode(hashlib.sha256(_between(html, "<style>", "</style>").encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; frame-ancestors 'none'"
    return HTMLResponse(html, 401, headers={"Content-Security-Policy": policy})


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def _read(name: str) -> str:
    return files("ofediq.dashboard").joinpath("static", name).read_text(encoding="utf-8")
