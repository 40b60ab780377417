"""The live page of a federation.

feed      what the page is told: once everything, then increments, as server-sent events
metrics   the same numbers for Prometheus
planning  a budget in, parameters out, for this federation
access    who may look, and what browsers may load
assets    the page's own files, and the chart script
app       all of it behind addresses
serving   a web server inside the caller's event loop
"""

from ofediq.errors import extra

try:
    from ofediq.dashboard.app import page
    from ofediq.dashboard.serving import serve_page
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    if missing in ("starlette", "uvicorn"):
        extra(missing, "server")  # says what to install
    raise

__all__ = ["page", "serve_page"]
