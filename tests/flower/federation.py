"""Run by `test_flower` in an environment that has Flower: its simulation, and a `Swarm` of the same, as JSON.

`python -m tests.flower.federation out.json method ...`; `ofediq+delta` sends differences down, with `+faults` a
client loses its state and one fails.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from ofediq.flower import MethodStrategy, method_mod
from ofediq.methods import Method, at_budget, delta
from ofediq.models import softmax
from ofediq.swarm import Swarm

CLIENTS, ROUNDS, BUDGET, FEATURES, CLASSES = 3, 6, 0.2, 4, 3
FORGETS, FAILS = (1, 3), (2, 4)  # (client, round)
MODEL = softmax(FEATURES, CLASSES)


def sample(number: int, step: int) -> tuple[Any, Any]:
    """What client `number` sees at `step`."""
    x = np.random.default_rng([number, step]).normal(size=(1, FEATURES)).astype(np.float32)
    return x, x[:, :CLASSES].argmax(axis=1)


def watched(message: Message, context: Context, call_next: Any) -> Message:
    """A mod around ours: says what came over the wire, and makes a client forget."""
    told, config = message.content["ofediq"], message.content["config"]
    came = {"task": int("task" in told), "whole": int(bool(message.content.array_records))}
    if config["faults"] and (told["number"], config["server-round"]) == FORGETS:
        context.state.clear()
    reply = call_next(message, context)
    left = len(reply.content.array_records)
    reply.content["came"] = MetricRecord({"num-examples": 1, **came, "arrays-left": left})
    return reply


app = ClientApp(mods=[watched, method_mod])


@app.train()
def train(message: Message, context: Context) -> Message:
    """One step of gradient descent."""
    number, config = message.content["ofediq"]["number"], message.content["config"]
    if config["faults"] and (number, config["server-round"]) == FAILS:
        raise RuntimeError("out of order")
    x, y = sample(number, config["server-round"])
    given = message.content["arrays"]
    params = np.concatenate([array.numpy().ravel() for array in given.values()])
    moved = params - np.asarray(MODEL.client_gradients(params, x, y))[0]
    parts = np.split(moved, [FEATURES * CLASSES])
    arrays = {
        name: Array(part.reshape(one.shape)) for (name, one), part in zip(given.items(), parts, strict=True)
    }
    return Message(RecordDict({"arrays": ArrayRecord(arrays)}), reply_to=message)


def method(name: str) -> Method:
    """By name, with what it sends down."""
    key, *rest = name.split("+")
    chosen = at_budget(key, BUDGET, MODEL.dim, CLIENTS, step_size=1.0, steps=ROUNDS)
    return replace(chosen, broadcast=delta(levels=7)) if "delta" in rest else chosen


def flower(name: str, grid: Any) -> dict[str, Any]:
    """The federation in Flower."""
    strategy = MethodStrategy(method(name), clients=CLIENTS, fraction_evaluate=0.0)
    weights, offsets = np.split(MODEL.initial(0), [FEATURES * CLASSES])
    first = ArrayRecord({"weights": Array(weights.reshape(FEATURES, CLASSES)), "offsets": Array(offsets)})
    config = ConfigRecord({"faults": "faults" in name})
    result = strategy.start(grid, first, ROUNDS, train_config=config)
    params = np.concatenate([array.numpy().ravel() for array in result.arrays.values()])
    return {
        "params": params.tolist(),
        "rounds": [dict(one) for one in result.train_metrics_clientapp.values()],
    }


def swarm(name: str) -> dict[str, Any]:
    """The same without Flower."""
    one, bits = Swarm(method(name), MODEL, CLIENTS), [0.0]
    for step in range(1, ROUNDS + 1):
        for number in range(CLIENTS):
            x, y = sample(number, step)
            one.learn(number, x[0], y[0])
        bits.append(one.bits_wire)
    return {"params": one.params.tolist(), "bits": np.diff(bits).tolist()}


server = ServerApp()


@server.main()
def main(grid: Any, context: Context) -> None:
    """Both, for every method."""
    out, *names = sys.argv[1:]
    found = {name: {"flower": flower(name, grid), "swarm": swarm(name)} for name in names}
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    run_simulation(server, app, CLIENTS, backend_config={"client_resources": {"num_cpus": 1}})
