"""A Flower client in PyTorch, one step of learning per round, as Flower's tutorials write it.

In a module of its own, so that Ray's workers import it once and keep model and samples between the clients.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.client import NumPyClient
from flwr.common import Context

from benchmarks.peers.scripts import torch_model as peer
from benchmarks.peers.scripts.task import Task, load

WORK = "OFEDIQ_BENCHMARK_WORK"  # the variable that names the task's file


@cache
def state() -> tuple[Task, Any, Any, Any]:
    """Task, module and samples of this process."""
    task = load(Path(os.environ[WORK]))
    return task, peer.build(task), *peer.samples(task)


class Client(NumPyClient):
    """One client: predicts with the common model, and learns if it is among the round's senders."""

    def __init__(self, number: int) -> None:
        self.number = number

    def fit(self, parameters: list[Any], config: dict[str, Any]) -> tuple[list[Any], int, dict[str, Any]]:
        """The new parameters, or with a quantiser what is sent of the gradient; nothing if it is silent."""
        task, module, x, y = state()
        set_parameters(module, parameters)
        step = int(config["step"])
        row = task.order[step, self.number]
        sample, target = x[row : row + 1], y[row : row + 1]
        if not task.senders[step, self.number]:
            with torch.no_grad():
                return [], 1, {"error": float(peer.errors(task, module(sample), target))}
        optimizer = torch.optim.SGD(module.parameters(), lr=task.step_size, weight_decay=task.l2)
        optimizer.zero_grad()
        outputs = module(sample)
        peer.loss(task, outputs, target).backward()
        error = float(peer.errors(task, outputs.detach(), target))
        if not task.levels:
            optimizer.step()
            return get_parameters(module), 1, {"error": error}
        flat = torch.cat([(p.grad + task.l2 * p.detach()).reshape(-1) for p in module.parameters()])
        sent = peer.quantize(flat[None] / task.rate, task.levels, task.blocks)[0]
        return [sent.numpy()], 1, {"error": error}


def get_parameters(module: Any) -> list[Any]:
    """As arrays."""
    return [value.detach().numpy().copy() for value in module.parameters()]


def set_parameters(module: Any, values: list[Any]) -> None:
    """From arrays."""
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), values, strict=True):
            parameter.copy_(torch.from_numpy(np.array(value)))


def client_fn(context: Context) -> Any:
    """The client of a node."""
    return Client(int(context.node_config["partition-id"])).to_client()
