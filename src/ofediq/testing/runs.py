"""Contracts of whole runs on a small stream: as the plain loop, and the same after an interruption."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np

from ofediq.simulation import InterruptedRunError, reference, simulate
from ofediq.testing.case import Case
from ofediq.testing.compare import SkipError, demand

# Rounding errors may be blown up on the way: Adam divides by the size of a sum that may cancel. Measured on the
# methods of the catalogue: 4e-4 of the distance moved, 2e-4 of a loss.
_MODEL, _LOSS = 1e-2, 2e-3
_CURVES = ("loss", "error", "senders", "bits_formula", "bits_wire", "bits_downlink")


def engine_equals_reference(case: Case) -> str:
    """The fast engine and the plain loop, which sends real bytes, learn the same."""
    if case.method.topology != "federated":
        raise SkipError(f"the plain loop runs federated methods, not a {case.method.topology} reference.")
    fast, slow = case.run, reference(case.running, case.stream, case.model, case.seed)
    demand(
        bool((fast.senders == slow.senders).all()),
        f"at step {_first(fast.senders != slow.senders)} the engine and the plain loop have different senders.",
    )
    apart = np.abs(fast.loss - slow.loss) > _LOSS * np.abs(slow.loss).max()
    demand(
        not apart.any(), f"from step {_first(apart)} on the engine's losses are not those of the plain loop."
    )
    start = np.asarray(case.method.server.start(case.model.initial(case.seed)))
    distance = float(np.linalg.norm(fast.params - slow.params))
    moved = float(np.linalg.norm(slow.params - start))
    demand(
        distance <= _MODEL * moved,
        f"the engine's model is {distance:.3g} away from the plain loop's after {moved:.3g}.",
    )
    bits = float(fast.bits_wire.sum()), float(slow.bits_wire.sum())
    slack = 0.1 if case.method.compress.coding == "entropy" else 1e-6
    demand(
        abs(bits[0] - bits[1]) <= slack * bits[1],
        f"the engine counts {bits[0]:,.0f} bits where the plain loop sends {bits[1]:,.0f}.",
    )
    return f"{case.stream.clients} clients, {case.stream.steps} steps, {int(slow.senders.sum())} messages."


def absent_clients_count_for_nothing(case: Case) -> str:
    """Clients without a sample neither suffer a loss nor send, and a window without any leaves the model alone."""
    present, run = case.stream.present, case.run
    counts = present.sum(1)
    if present.all():
        raise SkipError("in this stream nobody is absent.")
    demand(bool((run.loss[counts == 0] == 0).all()), "a step without samples has a loss.")
    ends, period = case.running.ends(case.stream.steps), case.running.window(0)
    seen = np.array([present[begin:end].any(0).sum() for begin, end in pairwise([0, *ends])])
    sent = run.senders[ends - 1]
    if case.method.topology == "federated":
        demand(bool((sent <= seen).all()), "more clients send in a window than had a sample in it.")
    if seen[0] == 0 and len(ends) > 1 and case.method.topology != "central":
        start = case.method.server.start(case.model.initial(case.seed))
        x, y, there = case.stream.step(period)
        expected = np.asarray(case.model.evaluate(start, x, y)[0])[there].sum()
        demand(
            bool(np.isclose(run.loss[period], expected, rtol=1e-3)),
            "the model moves in a window without samples.",
        )
    return f"{int((~present).sum())} of {present.size} samples missing."


def resumed_equals_uninterrupted(case: Case) -> str:
    """A run that stops and goes on from its checkpoint ends bit for bit as one that never stopped."""
    arguments = (case.running, case.stream, case.model, case.seed)
    whole, seen = case.run, []

    def stop(done: int, total: int) -> None:
        seen.append(done)
        raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.npz"
        with suppress(InterruptedRunError):
            simulate(*arguments, progress=stop, checkpoint=file)
        if seen[0] >= case.stream.steps:
            raise SkipError(f"the stream of {case.stream.steps} steps is one block: it needs more than 64.")
        resumed = simulate(*arguments, checkpoint=file, resume=True)
    same = all(np.array_equal(getattr(whole, name), getattr(resumed, name)) for name in _CURVES)
    demand(same, f"a run that stopped at step {seen[0]} goes on differently.")
    demand(np.array_equal(whole.params, resumed.params), "a resumed run ends at another model.")
    return f"stopped after step {seen[0]} of {case.stream.steps}."


def _first(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    return int(np.argmax(mask)) + 1
