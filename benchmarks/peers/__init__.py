"""ofediq beside what users would pick instead: the same work, in one run, each peer in an environment of its own.

`python -m benchmarks peers` measures everything, `python -m benchmarks peers flower codecs` those parts, with
`--quick` a little of it in a minute or so; `--table` writes the tables of `benchmarks/README.md` from the last
results again.

This file is read inside the peers' environments too, where nothing but NumPy and the peer is installed.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] = ()) -> int:
    """Run the command with `arguments`, and return its exit code."""
    from benchmarks.peers.command import run  # not at the top: it needs ofediq

    return run(arguments)
