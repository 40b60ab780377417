"""Feed damaged tasks to live clients: those of every named method, with one or two values replaced by a hostile one.

Each must be refused in one sentence, or followed: then the client gets a number and a model, and learns. Any other
exception, a second of CPU or memory beyond a limit ends the run. `OFEDIQ_FUZZ_TASKS` says how many.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from ofediq import methods
from ofediq.errors import InputError
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.limits import Limits
from ofediq.federation.protocol.messages import ModelMessage, write_json
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.methods.client import Down
from ofediq.methods.registry import entries
from ofediq.streams.features import NumberTarget, Pipeline, Readings

COUNT = int(os.environ.get("OFEDIQ_FUZZ_TASKS", "20000"))
SEED = int(os.environ.get("OFEDIQ_FUZZ_SEED", "1"))
SECONDS, MEMORY_BYTES, ADDRESSES = 1.0, 256 * 2**20, 8 * 2**30
LIMITS = Limits(dim=10**4, clients=1000, period=1000, payload=2**20, lags=100)

DIGITS = ModelSpec("softmax", (4,), "classification", 3, features=("a", "b", "c", "d"))
LAYERS = ModelSpec("mlp", (2, 2), "regression", hidden=(3,))
RAW = ModelSpec("auto", (2,), "regression", pipeline=Pipeline(Readings(("a", "b")), NumberTarget()))

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63, 2**64,
    -(2**63), 10**18, 10**309, -(10**400), 0.0, -0.0, 0.5, 1.5, -1.5, 1e-45, 1e-300, 5e-324, 1e38, 1e39, 1.7e308,
    "", "x", "\x00", "é", "0", "1e400", "nan", "softmax", "dense 10", "dense 99999999", "conv 9999 9999", "x" * 5000,
    [], [1], [2**64], ["x"], [[[[]]]], [0] * 5000, [1e300], {}, {"piece": "identity"}, {"piece": []},
    {"piece": "bernoulli"}, {"piece": "bernoulli", "rate": 10**400}, {"x": 1},
)  # fmt: skip

SCALARS = (0.01, 0.01, 0.01, 0.0, -1.0, 1.0, 1e-45, 1e-30, 1e30, 3e38, np.inf)


def tasks() -> list[dict[str, Any]]:
    """The announcements of every named method that runs live, each with one of three models."""
    found = []
    for count, name in enumerate(sorted(entries())):
        model = (DIGITS, LAYERS, RAW)[count % 3]
        terms = methods.Terms(0.1, model.build().dim, 8, 100)
        try:
            found.append(json.loads(Task.of(methods.make(name, terms), model, seed=count).encode()))
        except InputError:  # not one that runs live, or not at this budget
            continue
    return found


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything inside."""
    inside = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in inside:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def damaged(content: dict[str, Any], rng: np.random.Generator) -> bytes:
    """A task with one or two places replaced, left out or repeated."""
    copy = json.loads(json.dumps(content))
    for _ in range(int(rng.integers(1, 3))):
        known = [path for path in places(copy) if path != ("protocol",)]
        *path, last = known[int(rng.integers(len(known)))]
        inner = copy
        for key in path:
            inner = inner[key]
        way = rng.random()
        if way < 0.1:
            del inner[last]
        elif way < 0.15 and isinstance(inner, dict):
            inner[f"{last}x"] = inner[last]
        elif way < 0.25:
            inner[last] = [inner[last]] * int(rng.choice([1, 2, 300]))
        elif way < 0.35 and isinstance(inner[last], (int, float)):
            inner[last] = inner[last] * 10 ** int(rng.integers(0, 12)) + int(rng.integers(-1, 2))
        else:
            inner[last] = deepcopy(HOSTILE[int(rng.integers(len(HOSTILE)))])
    return json.dumps(copy).encode()


def tried(payload: bytes, scalar: float = 0.01) -> str:
    """What a client makes of a task: it refuses it, or it follows and learns, or it refuses what comes after it.

    Every number beside the model is `scalar`.
    """
    one = Learner("fuzz", "c0", limits=LIMITS)
    try:
        one.receive("task", payload)
    except InputError as error:
        return _sentence(error, "refused")
    task = one.task
    assert task is not None
    rule = task.method.server
    vectors = {name: np.zeros(task.dim, np.float32) for name in rule.vectors}
    down = Down(np.zeros(task.dim, np.float32), vectors, dict.fromkeys(rule.scalars, np.float32(scalar)))
    receipts = () if task.method.client.receipts else None
    try:
        one.receive("welcome", write_json(number=0))
        one.receive("model", ModelMessage(1, task.method.window(0), 8, down, False, receipts).encode())
        shape = () if task.model is None else task.model.shape
        for _ in range(min(task.method.window(0), 3)):
            with np.errstate(all="ignore"):
                one.learn(np.ones(shape, np.float32), 1)
    except InputError as error:
        return _sentence(error, "refused later")
    return "followed"


def _sentence(error: InputError, outcome: str) -> str:
    if "\n" in str(error) or len(str(error)) > 1000:
        raise AssertionError(f"not one sentence: {str(error)[:300]}")
    return outcome


def main() -> None:
    """Run, and print what became of them."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    rng, originals, seen = np.random.default_rng(SEED), tasks(), Counter[str]()
    for content in originals:
        assert tried(json.dumps(content).encode()) == "followed", content["method"]
    before, slowest = _peak_bytes(), 0.0
    for count in range(COUNT):
        payload, start = damaged(originals[count % len(originals)], rng), time.process_time()
        try:
            seen[tried(payload, float(rng.choice(SCALARS)))] += 1
        except BaseException:
            print(payload.decode()[:3000])
            raise
        spent = time.process_time() - start
        slowest = max(slowest, spent)
        assert spent < SECONDS, f"{spent:.1f} s of CPU for {payload.decode()[:3000]}"
    grown = _peak_bytes() - before
    assert grown < MEMORY_BYTES, f"memory grew by {grown} bytes"
    print(f"{COUNT} damaged tasks of {len(originals)} methods (seed {SEED}): {dict(sorted(seen.items()))}")
    print(f"at most {slowest:.2f} s of CPU for one; memory grew by {grown / 2**20:.0f} MB")


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
