"""`ofediq doctor`: what is installed here, and what ofediq makes of it."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from ofediq import __version__
from ofediq.cli.answers import JsonOption, answer
from ofediq.errors import MissingExtraError

_PACKAGES = ("numpy", "constriction", "typer", "rich", "jax", "jaxlib", "optax", "scikit-learn", "matplotlib")
_TOOLS = ("dev", "docs")  # extras of those who work on ofediq
_REQUIREMENT = re.compile(r"""(?P<name>[\w.-]+)(\[(?P<extras>[^]]*)])?.*extra == ['"](?P<extra>\w+)['"]""")


def doctor(as_json: JsonOption = False) -> None:
    """Show versions, extras, compiled kernels and data folders: what a bug report needs.

    The first time it may take some seconds: it compiles the kernels if
    that can be done here.

    Examples:
      ofediq doctor
      ofediq doctor --json | jq .extras
    """
    answer(examine(), as_json, _show)


def examine() -> dict[str, Any]:
    """Everything that the command shows, JSON-ready."""
    return {
        "version": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "packages": {name: installed(name) for name in _PACKAGES},
        "extras": {name: missing(name) for name in extras() if name not in _TOOLS},
        "devices": _or_reason(_devices),
        "kernels": _or_reason(_kernels),
        "data": os.environ.get("OFEDIQ_DATA"),
        "cache": _or_reason(_cache),
    }


def installed(name: str) -> str | None:
    """The version of a distribution, None if it is not installed.

    >>> installed("numpy") is None, installed("no-such-thing") is None
    (False, True)
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def extras() -> dict[str, list[str]]:
    """What each extra of ofediq asks for, by its own metadata; extras of extras are named as `ofediq[...]`.

    >>> "jax" in extras()["sim"]
    True
    """
    found: dict[str, list[str]] = {}
    try:
        lines = requires("ofediq") or []
    except PackageNotFoundError:  # a source tree that was never installed
        return found
    for match in filter(None, map(_REQUIREMENT.match, lines)):
        names = [match["name"]]
        if match["name"] == "ofediq":
            names = [f"ofediq[{one.strip()}]" for one in match["extras"].split(",")]
        found.setdefault(match["extra"], []).extend(names)
    return found


def missing(extra: str) -> list[str]:
    """The distributions that an extra still needs.

    >>> missing("sim")
    []
    """
    lacking: list[str] = []
    for name in extras()[extra]:
        if name.startswith("ofediq["):
            lacking += missing(name.removeprefix("ofediq[").rstrip("]"))
        elif installed(name) is None:
            lacking.append(name)
    return lacking


def _devices() -> list[str]:
    from ofediq.errors import extra

    return [str(device) for device in extra("jax", "sim").devices()]


def _kernels() -> str:
    from ofediq.errors import extra

    extra("jax", "sim")
    from ofediq.simulation import native_status

    return native_status()


def _cache() -> str:
    from ofediq.storage import cache_directory

    return str(cache_directory())


def _or_reason(look: Callable[[], Any]) -> Any:
    """What was found, or the sentence that says what is missing."""
    try:
        return look()
    except MissingExtraError as error:
        return str(error)


def _data_folder(path: str | None) -> str:
    if not path:
        return "$OFEDIQ_DATA is not set"
    return f"$OFEDIQ_DATA is {path}" + ("" if os.path.isdir(path) else ", which is not a folder")


def _show(found: dict[str, Any]) -> None:
    from ofediq.cli import render

    devices = found["devices"]
    facts = {
        "python": f"{found['python']}, {found['executable']}",
        "system": f"{found['system']}, {found['cores']} cores",
        "packages": ", ".join(f"{name} {number}" for name, number in found["packages"].items() if number),
        "devices": devices if isinstance(devices, str) else ", ".join(devices),
        "kernels": found["kernels"],
        "data": _data_folder(found["data"]),
        "cache": found["cache"],
    }
    extras_found = {
        name: "complete" if not lacking else f"missing {', '.join(lacking)}"
        for name, lacking in found["extras"].items()
    }
    render.show(render.heading(f"ofediq {found['version']}"), render.facts(facts))
    render.show(render.heading("Extras"), render.facts(extras_found))
