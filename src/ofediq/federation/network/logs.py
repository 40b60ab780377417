"""The log of server and clients: lines for people, or JSON for a collector."""

from __future__ import annotations

import json
import logging
import sys
import time

from ofediq.errors import require_choice

FORMATS = ("text", "json")


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One JSON object per line."""
        content = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message, fields."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        fields = getattr(record, "fields", {}).items()
        shown = [
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in fields
        ]
        line = " ".join([clock, f"{record.levelname.lower():7}", record.getMessage(), *shown])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up(form: str = "text", level: str = "info") -> None:
    """Send ofediq's log to standard error, as `text` or `json`, from `level` upwards."""
    require_choice("log_format", form, FORMATS)
    require_choice("log_level", level, ("debug", "info", "warning", "error"))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    root = logging.getLogger("ofediq")
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False
