"""Methods nobody thought of: drawn from the registry and from pieces, and run in every way that must agree.

A case follows from its seed alone. `python -m benchmarks fuzz_methods` tries many, `test_compositions` a few.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ofediq import methods
from ofediq.errors import InputError
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.monitor import Monitor
from ofediq.federation.protocol.rules import Rules
from ofediq.federation.protocol.task import ModelSpec
from ofediq.methods import Method, Terms
from ofediq.methods.budgets.steered import Steered
from ofediq.methods.registry import entries, entry
from ofediq.models import Model
from ofediq.simulation import InterruptedRunError, Result, reference, simulate
from ofediq.streams import Dataset, Stream
from tests.federation.network import FEDERATION, Network

RUN_SEED = 11
Draw = np.random.Generator


@dataclass(frozen=True, eq=False)
class Case:
    """A method, and what it runs on."""

    seed: int
    text: str
    method: Method
    spec: ModelSpec
    stream: Stream

    @property
    def model(self) -> Model:
        """The model that `spec` describes."""
        return self.spec.build()

    def __str__(self) -> str:
        model, clients, steps = self.spec, self.stream.clients, self.stream.steps
        return f"case {self.seed}: {self.text}; {model.name}{list(model.shape)}, K={clients}, T={steps}"


def drawn(seed: int) -> Case:
    """The case of this seed."""
    rng = np.random.default_rng(seed)
    clients, steps = int(rng.choice([1, 2, 3, 7, 12])), int(rng.integers(1, 14))
    spec = _spec(rng)
    dim = spec.build().dim
    while True:
        try:
            text, method = (_named if rng.random() < 0.7 else _composed)(rng, dim, clients, steps)
            method, changes = _changed(method, rng, dim)
            break
        except InputError:  # not every draw makes sense
            continue
    return Case(seed, f"{text}{changes}", method, spec, _stream(rng, spec, clients, steps))


def _spec(rng: Draw) -> ModelSpec:
    features = int(rng.choice([1, 2, 5, 9]))
    kind = rng.choice(["linear", "softmax", "mlp"], p=[0.5, 0.4, 0.1])
    if kind == "softmax":
        return ModelSpec("softmax", (features,), "classification", classes=int(rng.integers(2, 5)))
    return ModelSpec(str(kind), (features,), "regression", hidden=(3,))


def _stream(rng: Draw, spec: ModelSpec, clients: int, steps: int) -> Stream:
    count = clients * steps
    x = rng.normal(size=(count, *spec.shape)).astype(np.float32)
    if rng.random() < 0.2:
        x[rng.random(x.shape) < 0.5] = 0
    if spec.task == "classification":
        y: npt.NDArray[Any] = rng.integers(0, spec.classes or 2, count).astype(np.int32)
    else:
        y = rng.normal(size=count).astype(np.float32)
    order = rng.permutation(count).astype(np.int32).reshape(steps, clients)
    order[rng.random(order.shape) < rng.choice([0.0, 0.3, 0.8])] = -1
    if spec.task == "classification":
        return Stream(Dataset("drawn", x, y, "classification", spec.classes), order)
    return Stream(Dataset("drawn", x, y, "regression"), order)


def _named(rng: Draw, dim: int, clients: int, steps: int) -> tuple[str, Method]:
    """A method of the registry at a random budget, with some of its parameters drawn."""
    name = str(rng.choice([key for key, one in entries().items() if not one.model]))
    some: dict[str, Callable[[], Any]] = {
        "period": lambda: int(rng.integers(1, 5)),
        "rate": lambda: float(rng.uniform(0.1, 1)),
        "levels": lambda: int(rng.choice([1, 3, 7, 40])),
        "blocks": lambda: int(rng.integers(1, dim + 1)),
        "keep": lambda: int(rng.integers(1, dim + 1)),
        "norm_bits": lambda: int(rng.choice([16, 32])),
        "coding": lambda: str(rng.choice(["packed", "entropy"])),
    }
    known = {one.name for one in entry(name).parameters}
    given = {key: value() for key, value in some.items() if key in known and rng.random() < 0.4}
    budget = float(10 ** rng.uniform(-3, 0))
    terms = Terms(budget, dim, clients, steps)
    method = entry(name).make(given, terms, step_size=0.03, preset="paper")
    return f"{name}({given}) at {budget:.4f}", method


def _composed(rng: Draw, dim: int, clients: int, steps: int) -> tuple[str, Method]:
    """Pieces, put together as they come."""
    who = [
        methods.everyone(),
        methods.bernoulli(float(rng.uniform(0.1, 1))),
        methods.fixed_size(float(rng.uniform(0.1, 1))),
        methods.in_turns(int(rng.integers(1, 4))),
    ]
    blocks, levels = int(rng.integers(1, dim + 1)), int(rng.choice([1, 3, 40]))
    how = [
        methods.identity(),
        methods.quantize(levels, blocks, "entropy"),
        methods.quantize(levels, blocks, norm_bits=16),
        methods.rotate(int(rng.integers(1, 5))),
        methods.rotate(2, "nearest"),
        methods.keep_largest(int(rng.integers(1, dim + 1)), methods.quantize(levels, 1)),
        methods.signs(),
    ]
    local = [methods.hold(), methods.local_ogd(float(rng.uniform(0.001, 0.1)))]
    server = [methods.descend(0.03), methods.coin(), methods.adaptive()]
    options: tuple[Sequence[Any], ...] = (local, server, who, how)
    client, rule, participation, compress = (one[int(rng.integers(len(one)))] for one in options)
    period = int(rng.integers(1, 5))
    chosen = methods.method(client, rule, participation, compress, period=period)
    return f"method({client}, {rule}, {participation}, {compress}, {period})", chosen


def _changed(method: Method, rng: Draw, dim: int) -> tuple[Method, str]:
    """Another way down, another server or combination, now and then."""
    said = ""
    if rng.random() < 0.2:
        refresh = int(rng.integers(2, 5)) if rng.random() < 0.5 else None
        broadcast = methods.delta(31, int(rng.integers(1, dim + 1)), refresh=refresh)
        method, said = methods.with_broadcast(method, broadcast), f"; {broadcast}"
    if rng.random() < 0.15:
        rule = methods.server_rule(str(rng.choice(["coin", "adaptive"])), 0.03)
        method, said = methods.with_server(method, rule), f"{said}; {rule}"
    if rng.random() < 0.1:
        combine = methods.combine_rule(str(rng.choice(["coordinate_median", "trimmed_mean(share=0.2)"])))
        method, said = methods.with_combine(method, combine), f"{said}; {combine}"
    return method, said


# What must agree ---------------------------------------------------------------------------------------------------


def live(case: Case) -> Coordinator:
    """The protocol without a network, to the end of the last whole window."""
    ends = case.method.ends(case.stream.steps)
    roster = tuple(f"c{number}" for number in range(case.stream.clients))
    rules = Rules(roster=roster, rounds=len(ends), min_clients=len(roster), clip=None)
    monitor = Monitor(FEDERATION, case.spec.task, {})
    server = Coordinator(FEDERATION, case.method, case.spec, monitor, rules, seed=RUN_SEED)
    network = Network(server, case.stream)
    network.start()
    network.run()
    return server


def assert_live_agrees(case: Case) -> None:
    """A live federation comes to the oracle's model, with its bits."""
    if not len(case.method.ends(case.stream.steps)) or case.method.topology != "federated":
        return
    if getattr(case.method.compress, "noise", 0):
        return  # noise that protects somebody is drawn where nobody can repeat it
    wanted, server = reference(case.method, case.stream, case.model, seed=RUN_SEED), live(case)
    totals = server.monitor.totals()
    assert server.finished, "the live run does not end"
    if server.monitor.rollbacks or totals["rejected"].keys() == {"beyond its share"}:
        return  # a live server protects its members from divergence, and from those who spend the common budget
    assert totals["rejected"] == {}, totals["rejected"]
    assert (totals["updates"], totals["bits_wire"]) == (wanted.senders.sum(), wanted.bits_wire.sum())
    close("live model", server.params, wanted.params, 1e-5)


def assert_engine_agrees(case: Case) -> None:
    """The engine comes to the oracle's model, whatever its chunks, and resumed in the middle."""
    method = _still(case.method)
    fast = simulate(method, case.stream, case.model, seed=RUN_SEED)
    if method.topology == "federated":
        _same_run(method, fast, reference(method, case.stream, case.model, seed=RUN_SEED))
    smaller: Any = replace(cast(Any, case.model), chunk=2)
    chunked = simulate(method, case.stream, smaller, seed=RUN_SEED)
    np.testing.assert_array_equal(chunked.senders, fast.senders)
    close("model in chunks", chunked.params, fast.params, 2e-4)
    resumed = _resumed(method, case)
    for field in ("params", "loss", "error", "senders", "bits_wire", "bits_downlink"):
        np.testing.assert_array_equal(
            getattr(resumed, field), getattr(fast, field), err_msg=f"resumed {field}"
        )


def _resumed(method: Method, case: Case) -> Result:
    """The run, interrupted as soon as it can be, and continued."""

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        how: dict[str, Any] = {
            "seed": RUN_SEED,
            "checkpoint": Path(folder) / "run.npz",
            "checkpoint_every": 1,
        }
        try:
            return simulate(method, case.stream, case.model, progress=interrupt, **how)
        except InterruptedRunError:
            return simulate(method, case.stream, case.model, resume=True, **how)


def _still(method: Method) -> Method:
    """The engine steers by ideal code lengths, the oracle by real bytes: a signal that stands still."""
    if isinstance(method.server, Steered):
        return replace(method, server=replace(method.server, budget=methods.Still(0.3)))
    return method


def _same_run(method: Method, fast: Result, slow: Result) -> None:
    np.testing.assert_array_equal(fast.senders, slow.senders)
    close("model", fast.params, slow.params, 2e-4)
    close("loss", fast.loss, slow.loss, 2e-4)
    rtol = 0.1 if method.compress.coding == "entropy" else 0.0
    slack = 64.0 * slow.senders.sum() if rtol else 0.0  # an ideal length, and whole bytes
    np.testing.assert_allclose(fast.bits_wire.sum(), slow.bits_wire.sum(), rtol=rtol, atol=slack)


def close(what: str, found: Any, wanted: Any, rtol: float) -> None:
    """Equal up to rounding, in units of the largest number."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * scale, err_msg=what)


def failures(seeds: Sequence[int], check: Callable[[Case], None]) -> list[tuple[Case, str]]:
    """The cases that do not agree, each with the first lines of why."""
    found = []
    for seed in seeds:
        case = drawn(seed)
        try:
            check(case)
        except Exception as error:  # whatever it is, it is a finding
            found.append((case, f"{type(error).__name__}: {str(error).strip()[:400]}"))
    return found
