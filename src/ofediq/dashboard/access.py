"""Who may look at the page, and what a browser may load from it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ofediq.dashboard.assets import ask_for_token
from ofediq.errors import InputError
from ofediq.federation.network.hosts import is_loopback

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_GUESS = 0.25  # seconds that a wrong token costs, one after the other
_COOKIE = "ofediq_"


class TokenGate:
    """Middleware in front of every route: the token or, without one, the name that the page was asked for by.

    A page without a token is for this machine only. Its server listens on loopback, but a browser can be led there
    from any web site whose name is made to point at 127.0.0.1; so the `Host` header has to name loopback too.

    Args:
        app: what is guarded.
        token: what a reader has to know; None for a page on loopback.
        log: where refusals go.
        open_paths: paths that anyone may ask for.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, log: logging.Logger, open_paths: frozenset[str] = frozenset()
    ) -> None:
        self._app, self._log, self._open = app, log, open_paths
        self._key = None if token is None else Token(token)
        self._brake = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the request through; every answer gets the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope)
        answer = None if scope["path"] in self._open else self._answer(request)
        if self._key is not None and self._key.guessed(request):
            async with self._brake:  # one wrong guess at a time, however many ask
                await asyncio.sleep(_GUESS)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> Response | None:
        """What is said instead of the route's answer; None if the reader may pass."""
        if self._key is None:
            return None if is_loopback(_host(request)) else self._misdirected(request)
        offered = request.query_params.get("token")
        if offered is not None and self._key.opens(offered):
            return self._key.admit(request)
        if self._key.known(request):
            return None
        self._log.warning("page: refused %s to %s", request.scope["path"], _peer(request))
        wants_page = request.scope["path"] == "/" and "text/html" in request.headers.get("accept", "")
        refusal = ask_for_token(wrong=offered is not None) if wants_page else _token_missing()
        refusal.headers["WWW-Authenticate"] = 'Bearer realm="ofediq"'
        return refusal

    def _misdirected(self, request: Request) -> Response:
        self._log.warning("page: refused the host name %r to %s", _host(request), _peer(request))
        return PlainTextResponse(
            "Without a token this page answers to the names of this machine's loopback only.\n", 421
        )


class Token:
    """A token, compared in constant time, and the cookie that stands for it.

    The cookie holds a digest: browsers show a cookie to every port of a host, and the token should not travel there.
    Its name depends on the token too, so that two federations on one machine do not overwrite each other's.
    """

    def __init__(self, token: str) -> None:
        if not token or not token.isprintable() or not token.isascii() or " " in token:
            raise InputError("`token` must be a word of printable ASCII characters, got another")
        self._token = token
        self._cookie = f"{_COOKIE}{self._digest('name')[:8]}"
        self._value = self._digest("value")

    def opens(self, offered: str) -> bool:
        """Whether this is the token."""
        return _same(offered, self._token)

    def known(self, request: Request) -> bool:
        """Whether the request brings the cookie, or the token in its `Authorization` header."""
        scheme, _, offered = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.opens(offered.strip()):
            return True
        return _same(request.cookies.get(self._cookie, ""), self._value)

    def guessed(self, request: Request) -> bool:
        """Whether the request offers a token or a cookie of ours, and none is right; cookies follow from tokens."""
        offered = request.query_params.get("token")
        cookies = any(name.startswith(_COOKIE) for name in request.cookies)
        some = offered is not None or "authorization" in request.headers or cookies
        return some and not (self.known(request) or (offered is not None and self.opens(offered)))

    def admit(self, request: Request) -> Response:
        """Set the cookie and lead to the same address without the token, which then stays out of the history."""
        # Relative, so that it also holds behind a proxy that serves the page under another path.
        answer = RedirectResponse("./" + request.scope["path"].rpartition("/")[2], 303)
        answer.set_cookie(
            self._cookie,
            self._value,
            httponly=True,
            samesite="lax",
            secure=request.scope["scheme"] == "https",
        )
        return answer

    def _digest(self, purpose: str) -> str:
        return hmac.new(self._token.encode(), f"ofediq page {purpose}".encode(), hashlib.sha256).hexdigest()


def _host(request: Request) -> str:
    """The `Host` header without its port."""
    name, _, port = request.headers.get("host", "").rpartition(":")
    return name if name and port.isdigit() else request.headers.get("host", "")


def _same(offered: str, right: str) -> bool:
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), right.encode())


def _peer(request: Request) -> str:
    return "unknown" if request.client is None else request.client.host


def _token_missing() -> Response:
    return PlainTextResponse("This page asks for its token: ?token=... or Authorization: Bearer ...\n", 401)
