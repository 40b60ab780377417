"""One environment per peer, made by name from the default registry when it is first needed, and kept in `.bench/`."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).parents[2] / ".bench"
TORCH = "torch==2.13.0"
"""Pinned, and installed before whatever depends on it: pip would take the newest, with gigabytes for GPUs."""

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "torch": (TORCH, "numpy"),
    "flower": (TORCH, "flwr[simulation]"),
    "fedjax": ("fedjax", "jax<0.6"),  # FedJAX calls jax.tree_map, which later versions of JAX no longer have
    "pfl": (TORCH, "pfl"),
    "hivemind": (TORCH, "hivemind", "numpy<2.4"),  # it converts arrays of one element to numbers
    "ofediq-flower": (
        "flwr[simulation]",
        "numpy",
        "constriction",
        "msgspec",
        "typer",
        "rich",
    ),  # ours, from src
}
SHOWN = ("torch", "numpy", "flwr", "ray", "fedjax", "jax", "jaxlib", "pfl", "hivemind")
LIMIT = 1200.0  # seconds for one package


class InstallError(Exception):
    """The environment could not be made; the message says why, in a line."""


@dataclass(frozen=True)
class Environment:
    """A Python with a peer in it."""

    python: Path

    def versions(self) -> dict[str, str]:
        """Of the packages that matter."""
        listed = subprocess.run(
            [self.python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"],
            capture_output=True,
            text=True,
            check=True,
        )
        return {one["name"]: one["version"] for one in json.loads(listed.stdout) if one["name"] in SHOWN}


def environment(name: str, home: Path = HOME) -> Environment:
    """The environment called `name`, made if it is not there or was made for other requirements."""
    folder = home / name
    if made(name, home) is None:
        print(f"installing {', '.join(REQUIREMENTS[name])} into {folder.name}", flush=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        for requirement in REQUIREMENTS[name]:
            _run([str(_python(folder)), "-m", "pip", "install", "--disable-pip-version-check", requirement])
        (folder / ".made").write_text("\n".join(REQUIREMENTS[name]))
    return Environment(_python(folder))


def made(name: str, home: Path = HOME) -> Path | None:
    """The Python of an environment that is there already, else None."""
    mark = home / name / ".made"
    done = mark.exists() and mark.read_text() == "\n".join(REQUIREMENTS[name])
    return _python(home / name) if done else None


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise InstallError(f"{command[-1]}: not installed after {LIMIT:.0f} s") from None
    if done.returncode:
        raise InstallError(f"{command[-1]}: {reason(done.stderr)}")


def reason(log: str) -> str:
    r"""The line of a log that says what went wrong: the last that names an error, else the last.

    >>> reason("Collecting peer\nERROR: No matching distribution found for peer\n")
    'No matching distribution found for peer'
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["no message"]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines)[-1].removeprefix("ERROR: ")[:200]
