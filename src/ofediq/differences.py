"""Where two descriptions differ: of a run, a task, a saved state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def differing(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ, and both values there; `...` where one of them has none.

    >>> list(differing({"seed": 0, "rule": {"rate": 1}}, {"seed": 0, "rule": {}}))
    [('rule.rate', 1, Ellipsis)]
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*other, *one]):
            yield from differing(one.get(key, ...), other.get(key, ...), f"{path}.{key}" if path else key)
    elif one != other:
        yield path, one, other


def short_text(value: Any) -> str:
    """A value in a sentence about a difference."""
    text = "missing" if value is ... else str(value)
    return text if len(text) <= 80 else f"{text[:50]} ... {text[-25:]}"
