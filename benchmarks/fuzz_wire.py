"""Feed 100,000 damaged frames to the decoder. It must refuse each with `WireError` or return a sound message.

Three quarters of the frames carry a checksum that fits, as an attacker's would. Accepted messages are dequantised
and encoded again. Any other exception, a crash or memory beyond the receiver's limit ends the run.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter

import numpy as np
from tests.codec.mutations import MAX_DIM, frames, mutated, outcome

from benchmarks import fastest

COUNT = int(os.environ.get("OFEDIQ_FUZZ_FRAMES", "100000"))
SEED = int(os.environ.get("OFEDIQ_FUZZ_SEED", "1"))
MEMORY_BYTES = 64 * 2**20  # the whole run may grow the process by this much: 13 kB per coordinate allowed


def main() -> None:
    """Run, and print how often frames were refused, how fast, and how much memory it took."""
    originals, rng = frames(), np.random.default_rng(SEED)
    for original in originals:
        assert outcome(original) == "accepted"
    before, start = _peak_bytes(), time.perf_counter()
    seen = Counter(outcome(mutated(originals[count % len(originals)], rng)) for count in range(COUNT))
    seconds, grown = time.perf_counter() - start, _peak_bytes() - before
    assert grown < MEMORY_BYTES, f"memory grew by {grown} bytes"
    honest = fastest(lambda: [outcome(original) for original in originals]) / len(originals)
    print(f"{COUNT} frames (seed {SEED}, dims up to {MAX_DIM}): {dict(sorted(seen.items()))}, no crash")
    print(
        f"{seconds / COUNT / honest:.2f} times as long per frame as an honest one; memory grew by {grown} bytes"
    )


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
