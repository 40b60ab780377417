"""Methods drawn at random, from the registry and from pieces: engine, oracle and live protocol must agree on each.

    python -m benchmarks fuzz_methods

Every case follows from its number: models, clients, steps, who is absent, budgets, parameters, another way down,
another server, a robust combination. The live protocol is compared on all of them, the engine (chunks and a resumed
run included) on every eighth, because compiling takes seconds. Nothing may disagree.
"""

from __future__ import annotations

import os
import time

from tests.methods.compositions import assert_engine_agrees, assert_live_agrees, failures

COUNT = int(os.environ.get("OFEDIQ_FUZZ_METHODS", "2000"))
FIRST = int(os.environ.get("OFEDIQ_FUZZ_SEED", "1000"))


def main() -> None:
    """Run, and print how many cases agree; those that do not, with their numbers, end it with an error."""
    seeds, found = range(FIRST, FIRST + COUNT), []
    for name, check, some in (
        ("live protocol", assert_live_agrees, seeds),
        ("engine", assert_engine_agrees, seeds[::8]),
    ):
        started = time.perf_counter()
        apart = failures(some, check)
        seconds = time.perf_counter() - started
        print(f"{name}: {len(some) - len(apart)} of {len(some)} cases agree with the loop, {seconds:.0f} s")
        for case, why in apart:
            print(f"  {case}\n    {why}")
        found += apart
    if found:
        raise SystemExit(f"{len(found)} cases disagree")
