"""The page's own files, and the chart script out of the plotly package."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import os
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ofediq.errors import extra

_STYLE_MARK = "<!-- styles that plotly need not insert -->"
mimetypes.add_type("text/javascript", ".js")  # some systems say application/javascript, which has no charset


class Assets(StaticFiles):
    """The page's scripts, styles and icon, with plotly's script among them as plotly.js."""

    def __init__(self) -> None:
        super().__init__(packages=[("ofediq.dashboard", "static")])

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Where a file is; without it, nothing."""
        if path == "plotly.js":
            return str(_plotly()), _plotly().stat()
        return super().lookup_path(path)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, or that the reader's copy is still the same."""
        answer = await super().get_response(path, scope)
        answer.headers["Cache-Control"] = (
            "private, no-cache"  # ask each time: a new version has the same names
        )
        return answer


def _plotly() -> Path:
    """The chart script."""
    return Path(str(extra("plotly", "server").__file__)).parent / "package_data" / "plotly.min.js"


@cache
def page_html() -> str:
    """The page.

    Plotly would insert style sheets, which breaks the Content-Security-Policy. It leaves out those whose name is
    taken already; the charts of this page need none of them beyond what `page.css` has.
    """
    names = sorted(
        set(re.findall(r'getElementById\("([0-9a-f]{64})"\)', _plotly().read_text(encoding="utf-8")))
    )
    taken = "".join(f'<template id="{name}"></template>' for name in names)
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
    return files("ofediq.dashboard").joinpath("pages", name).read_text(encoding="utf-8")
