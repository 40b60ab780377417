"""A hostile server, or a broker that speaks in its name: clients refuse, and wait for better."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from ofediq import methods
from ofediq.errors import InputError
from ofediq.federation.protocol.learner import STALE, Learner
from ofediq.federation.protocol.messages import ModelMessage, write_json
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.methods.client import Down
from ofediq.streams.features import NumberTarget, Pipeline, Readings
from tests.federation.network import FEDERATION
from tests.federation.test_core import SPEC

TASK = Task.of(methods.fedogd(0.1), SPEC, seed=0)


def model(epoch: int = 1, step: int = 1, clients: int = 3) -> bytes:
    return ModelMessage(epoch, step, clients, Down(np.zeros(650, np.float32), {}, {})).encode()


def ready() -> Learner:
    one = Learner(FEDERATION, "c0")
    one.receive("task", TASK.encode())
    one.receive("welcome", write_json(number=0))
    return one


def changed(**values: Any) -> bytes:
    return json.dumps({**json.loads(TASK.encode()), **values}).encode()


@pytest.mark.parametrize(
    ("kind", "payload", "sentence"),
    [
        ("task", changed(dim=2**40), "dim of 1,099,511,627,776 is more than this client's limit"),
        ("task", changed(period=10**12), "period of 1,000,000,000,000 is more than this client's limit"),
        ("task", changed(seed=float("inf")), "not JSON"),
        ("task", TASK.encode().replace(b'"seed":0', b'"seed":1e999'), "not JSON"),
        ("model", model(clients=2**32 - 1), "clients of 4,294,967,295 is more than this client's limit"),
    ],
)
def test_what_is_beyond_the_limits_gets_a_sentence_and_the_next_message_is_taken(
    kind: str, payload: bytes, sentence: str
) -> None:
    one = ready()
    with pytest.raises(InputError, match=sentence):
        one.receive(kind, payload)
    one.receive("model", model())
    assert one.ready
    assert one.learn(np.ones((8, 8), np.float32), 3)[1]


WINDOWS = Task.of(methods.make("ofedduplex", methods.Terms(0.05, 650, 10, 100), step_size=0.1), SPEC, seed=0)
RAW = Task.of(
    methods.fedogd(0.1),
    ModelSpec("auto", (2,), "regression", pipeline=Pipeline(Readings(("a", "b")), NumberTarget())),
    seed=0,
)


def damaged(task: Task, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A task's content with another value at the end of a path."""
    content: dict[str, Any] = json.loads(task.encode())
    inner = content
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return content


@pytest.mark.parametrize(
    ("task", "path", "value", "sentence"),
    [
        (WINDOWS, ("windows", "steps"), 2**24, "must be at most 4,194,304 of the longest"),
        (WINDOWS, ("windows", "steps"), 10**12, "must be an integer from 1 to 1073741824"),
        (RAW, ("model", "pipeline", "target", "lags"), 10**12, "lags of 1,000,000,000,000 is more than"),
    ],
)
def test_a_task_that_would_take_for_ever_is_refused_at_once(
    task: Task, path: tuple[str, ...], value: int, sentence: str
) -> None:
    content = damaged(task, path, value)
    if path == ("windows", "steps"):
        content["windows"]["longest"] = 1.0
    begun = time.process_time()
    with pytest.raises(InputError, match=sentence):
        Learner(FEDERATION, "c0").receive("task", json.dumps(content).encode())
    assert time.process_time() - begun < 5


LAZY = Task.of(methods.make("laq", methods.Terms(0.05, 650, 10, 100), step_size=0.1), SPEC, seed=0)


@pytest.mark.parametrize(
    ("task", "path", "value", "sentence"),
    [
        (TASK, ("client", "step_size"), 10**309, "`step_size` of ogd must be of type float, got 1000"),
        (TASK, ("participation",), [0] * 20000, "must be an object with a `piece`, got .{,130}"),
        (RAW, ("model", "pipeline", "target"), "x" * 20000, "not understood .{,430};"),
        (LAZY, ("scalars",), [], "its pieces do not work together .KeyError: 'trigger'."),
    ],
    ids=["huge", "list", "text", "pieces"],
)
def test_a_task_that_cannot_be_followed_is_refused_in_one_sentence(
    task: Task, path: tuple[str, ...], value: Any, sentence: str
) -> None:
    """An integer beyond all floats, lists where a number belongs, pieces that ask for what no broadcast holds."""
    one = Learner(FEDERATION, "c0")
    with pytest.raises(InputError, match=sentence) as refusal:
        one.receive("task", json.dumps(damaged(task, path, value)).encode())
    assert len(str(refusal.value)) < 600
    one.receive("task", task.encode())
    assert one.task == task


def test_a_broadcast_whose_numbers_no_method_can_use_costs_one_round() -> None:
    """The number of a kernel that does not exist: the client says nothing in that round, and goes on."""
    method = methods.make("emkofl", methods.Terms(0.2, 650, 3, 100), step_size=0.1)
    one = Learner(FEDERATION, "c0")
    one.receive("task", Task.of(method, SPEC, seed=0).encode())
    one.receive("welcome", write_json(number=0))
    for step, number in ((1, 10.0**6), (2, -1.0), (3, 0.0)):
        scalars = {"kernel": np.float32(0), "next": np.float32(number)}
        opened = ModelMessage(1, step, 1, Down(np.zeros(650, np.float32), {}, scalars))
        one.receive("model", opened.encode())
        one.learn(np.ones((8, 8), np.float32), 3)
    assert one.step == 3


def test_an_epoch_from_the_far_future_is_outlived() -> None:
    one = ready()
    one.receive("model", model(epoch=2**64 - 1, step=2**60))
    for step in range(1, STALE):
        one.receive("model", model(step=step))
        assert one.step == 2**60
    one.receive("model", model(step=STALE))
    assert one.step == STALE
    assert one.learn(np.ones((8, 8), np.float32), 3)[1]


def test_an_update_that_is_not_finite_is_not_sent_and_the_client_goes_on() -> None:
    one = ready()
    huge = ModelMessage(1, 1, 3, Down(np.full(650, 3e38, np.float32), {}, {})).encode()
    one.receive("model", huge)
    with np.errstate(all="ignore"):
        one.learn(np.full((8, 8), 3e38, np.float32), 3)
    one.receive("model", model(step=2))
    assert one.learn(np.ones((8, 8), np.float32), 3)[1]


def test_beyond_its_horizon_ofedgrid_goes_on_with_a_finite_grid() -> None:
    """T passes, nobody sends, everybody sends too much: z stays a number that a client can use."""
    budget, rng = methods.ofedgrid(2000.0, steps=20).server.budget, np.random.default_rng(0)  # type: ignore[attr-defined]  # of Steered
    signal = budget.init(650, 10)
    for step in range(1, 200):
        total = rng.standard_normal(650).astype(np.float32) * np.float32(10.0 ** rng.integers(-20, 20))
        bits = float(rng.choice([0.0, 1e3, 1e7]))
        senders = 0 if bits == 0 else 5
        signal = budget.next(signal, total=total, bits=bits, senders=senders, clients=10, step=step)
        assert np.isfinite(signal.step)
        assert np.isfinite(signal.value) or signal.value > 0
        assert float(signal.step) > 0
