"""`page`: the live page of a federation, its data and its metrics, behind addresses."""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from typing import Any, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from ofediq.dashboard.access import Token, TokenGate
from ofediq.dashboard.assets import Assets, page_html
from ofediq.dashboard.feed import Press, events, to_json
from ofediq.dashboard.metrics import CONTENT_TYPE, exposition
from ofediq.errors import InputError, require_integer
from ofediq.federation.protocol.monitor import Monitor
from ofediq.theory import Plan
from ofediq.theory import plan as make_plan
from ofediq.theory.planner import Method

_OPEN = frozenset({"/health"})  # to load balancers and service managers


def page(monitor: Monitor, *, token: str | None = None, log: logging.Logger | None = None) -> Starlette:
    """The web application of one federation. It only reads.

    | address | answer |
    |---|---|
    | `/` | the page |
    | `/events` | what the page shows, as server-sent events |
    | `/snapshot.json` | everything, once |
    | `/metrics` | Prometheus text |
    | `/health` | 200, or 503 with the problems |
    | `/plan.json?budget=0.01` | parameters that fit a budget, also with `method=paper` or `measured` |

    Args:
        monitor: the record of the federation. It is read in the event loop that the application runs in, which has
            to be the one that writes it.
        token: what readers have to know, everywhere but at `/health`; None for a page on loopback.
        log: where refused requests are noted; `ofediq.dashboard` by default.

    >>> app = page(Monitor("greenhouse", "classification", {"dim": 650}))
    >>> sorted(route.path for route in app.routes)[:3]
    ['/', '/events', '/health']
    """
    log = log or logging.getLogger("ofediq.dashboard")
    views = _Views(monitor, None if token is None else Token(token))
    app = Starlette(
        routes=[
            Route("/", views.home),
            Route("/events", views.events),
            Route("/snapshot.json", views.snapshot),
            Route("/metrics", views.metrics),
            Route("/health", views.health),
            Route("/plan.json", views.plan),
            Mount("/static", Assets()),
        ],
        middleware=[
            Middleware(TokenGate, token=token, log=log, open_paths=_OPEN),
            Middleware(GZipMiddleware, compresslevel=6),  # events are left as they are
        ],
    )
    app.state.closing = views.closing
    app.state.has_token = token is not None
    return app


class _Views:
    """What each address answers."""

    def __init__(self, monitor: Monitor, key: Token | None) -> None:
        self._monitor, self._key, self._press = monitor, key, Press(monitor)
        self.closing = asyncio.Event()

    async def home(self, request: Request) -> Response:
        # In a thread: reading plotly takes a moment the first time.
        return HTMLResponse(await run_in_threadpool(page_html))

    async def events(self, request: Request) -> Response:
        headers = {"X-Accel-Buffering": "no"}  # nginx would hold the events back
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=headers)
        news = events(self._press, self.closing)
        return StreamingResponse(news, media_type="text/event-stream", headers=headers)

    async def snapshot(self, request: Request) -> Response:
        return _json(self._monitor.snapshot())

    async def metrics(self, request: Request) -> Response:
        return Response(exposition(self._monitor), headers={"Content-Type": CONTENT_TYPE})

    async def health(self, request: Request) -> Response:
        monitor = self._monitor
        # Sentences may name paths and hosts; who has no token gets to know what kind of thing is wrong.
        tell = self._key is None or self._key.known(request)
        problems = [sentence if tell else kind for kind, sentence in monitor.problems.items()]
        status = {
            "healthy": not problems,
            "state": monitor.state,
            "step": monitor.step,
            "problems": problems,
            "drift_alarms": monitor.alarms,
            "last_drift": monitor.drift[-1] if monitor.drift else None,
        }
        return _json(status, 503 if problems else 200)

    async def plan(self, request: Request) -> Response:
        asked = request.query_params
        try:
            found = await run_in_threadpool(
                plan_for, self._monitor, asked.get("budget"), asked.get("method", "exact")
            )
        except InputError as error:
            return _json({"error": str(error)}, 400)
        return _json(found)


def _json(data: object, status: int = 200) -> Response:
    return Response(to_json(data), status, media_type="application/json")


def plan_for(monitor: Monitor, budget: str | None, method: str = "exact") -> dict[str, Any]:
    """The plan for a budget given as text, as it comes in an address.

    `dim` is taken from the federation's parameters, the number of clients from those registered.

    >>> monitor = Monitor("greenhouse", "classification", {"dim": 34826})
    >>> for number in range(1000):
    ...     _ = monitor.client(f"c{number}", number)
    >>> best = plan_for(monitor, "0.1", "paper")
    >>> best["levels"], best["blocks"], round(best["rate"], 4)
    (17, 1134, 0.5151)
    """
    if budget is None:
        raise InputError("`budget` must be given, in (0, 1]")
    dim = require_integer("dim", monitor.parameters.get("dim"), 1)
    clients = max(1, len(monitor.rows()))
    return _plan(budget, dim, clients, method).to_dict()


@lru_cache(maxsize=512)
def _plan(budget: str, dim: int, clients: int, method: str) -> Plan:
    # `plan` checks both: a budget that is no number, a method that is none of its own.
    return make_plan(cast(float, budget), dim, clients, method=cast(Method, method))
