"""Feed 100,000 damaged frames to the decoders: those of files, and the short live ones of every scheme.

Each must be refused with `WireError` or give a sound message. Three quarters carry a checksum that fits,
as an attacker's would. Any other exception, a crash or memory beyond the receiver's limit ends the run.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from tests.codec.mutations import (
    MAX_DIM,
    Seal,
    frames,
    live_frames,
    live_outcome,
    mutated,
    outcome,
    sealed,
    sealed_live,
)

from benchmarks import fastest

COUNT = int(os.environ.get("OFEDIQ_FUZZ_FRAMES", "100000"))
SEED = int(os.environ.get("OFEDIQ_FUZZ_SEED", "1"))
MEMORY_BYTES = 64 * 2**20  # the whole run may grow the process by this much: 13 kB per coordinate allowed


def main() -> None:
    """Run, and print how often frames were refused, how fast, and how much memory it took."""
    rng = np.random.default_rng(SEED)
    files = [(frame, sealed, outcome) for frame in frames()]
    live = [
        (frame, sealed_live, partial(live_outcome, scheme, dim, signal))
        for scheme, dim, signal, frame in live_frames()
    ]
    for name, originals in (("frames of files", files), ("live frames", live)):
        _attack(name, originals, rng)


def _attack(
    name: str, originals: Sequence[tuple[bytes, Seal, Callable[[bytes], str]]], rng: np.random.Generator
) -> None:
    for frame, _, judge in originals:
        assert judge(frame) == "accepted"
    before, start, seen = _peak_bytes(), time.perf_counter(), Counter[str]()
    for count in range(COUNT // 2):
        frame, seal, judge = originals[count % len(originals)]
        seen[judge(mutated(frame, rng, seal))] += 1
    seconds, grown = time.perf_counter() - start, _peak_bytes() - before
    assert grown < MEMORY_BYTES, f"memory grew by {grown} bytes"
    honest = fastest(lambda: [judge(frame) for frame, _, judge in originals]) / len(originals)
    print(f"{COUNT // 2} {name} (seed {SEED}, dims up to {MAX_DIM}): {dict(sorted(seen.items()))}, no crash")
    print(f"{2 * seconds / COUNT / honest:.2f} times as long as an honest one; memory grew by {grown} bytes")


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
