"""The structures of the C source as `ctypes` has them: their fields stand there, and nowhere else."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ofediq.kernels.library import SOURCES

_NUMBERS = {
    f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 32, 64)
} | {"float": ctypes.c_float, "double": ctypes.c_double}
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STRUCTURE = re.compile(r"^struct (\w+) \{(.*?)^\};", re.DOTALL | re.MULTILINE)
_FIELDS = re.compile(r"\s*(?:const\s+)?(?:struct\s+)?(\w+)\s+([^\[\]]+)")


@functools.cache
def structures(*headers: str) -> Mapping[str, Any]:
    """Those in these `headers` that have numbers, pointers and structures before them as fields, by name.

    >>> structures("sizes.h", "grid.h", "layout.h")["model"](count=3).count
    3
    """
    found: dict[str, Any] = {}
    for header in headers:
        text = _COMMENT.sub("", (SOURCES / header).read_text(encoding="utf-8"))
        for name, body in _STRUCTURE.findall(text):
            with suppress(KeyError):  # of what only C knows
                fields = [one for line in body.split(";")[:-1] for one in _fields(line, _NUMBERS | found)]
                found[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return found


def _fields(line: str, kinds: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and types in one line of a declaration; a pointer is an address."""
    found = _FIELDS.fullmatch(line)
    if found is None:
        raise KeyError(line)
    for name in found[2].split(","):
        plain = name.strip().lstrip("*")
        yield plain, ctypes.c_void_p if plain != name.strip() else kinds[found[1]]
