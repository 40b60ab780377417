"""Run every benchmark but `peers`, or those that are named: `python -m benchmarks [name ...]`.

`python -m benchmarks peers ...` installs other programs and has arguments of its own.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks import peers

_NO_BENCHMARKS = (
    "__main__",
    "crowd",
    "peers",
    "fresh",
    "newcomers",
    "outside",
    "recuts",
    "unseen",
    "wires",
)  # what others are made of


def main(names: list[str]) -> int:
    """Run the `main` of each named module; without names, of every module in this folder."""
    if names[:1] == ["peers"]:
        return peers.main(names[1:])
    known = sorted(
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if module.name not in _NO_BENCHMARKS
    )
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or known:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
        print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
