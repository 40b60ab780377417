"""The task's model and quantiser as one writes them in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.peers.scripts.task import Task, Vector


def build(task: Task) -> Any:
    """A module with the task's initial parameters."""
    if task.model == "cnn":
        first, second, classes = task.sizes
        module = nn.Sequential(
            nn.Unflatten(1, (1, 28)) if task.x.ndim == 3 else nn.Identity(),
            nn.Conv2d(1, first, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(25 * second, classes),
        )
    else:
        layers: list[Any] = [nn.Flatten()]
        for inputs, outputs in zip(task.sizes[:-1], task.sizes[1:], strict=True):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        module = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), _arranged(task, task.initial), strict=True):
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(value)))
    return module


def flat_params(task: Task, module: Any) -> Vector:
    """The module's parameters in the task's flat order."""
    pieces: list[Vector] = []
    for value in (parameter.detach().numpy() for parameter in module.parameters()):
        if value.ndim == 4:
            value = value.transpose(2, 3, 1, 0)
        elif value.ndim == 2 and task.model == "cnn":
            value = value.T.reshape(-1, 5, 5, value.shape[0]).transpose(1, 2, 0, 3)
        elif value.ndim == 2:
            value = value.T
        pieces.append(value.reshape(-1))
    return np.concatenate(pieces)


def _arranged(task: Task, flat: Vector) -> list[Vector]:
    """Weights and biases as PyTorch keeps them: filters [o, c, 3, 3], matrices [o, i], channels before rows."""
    values: list[Vector] = []
    for weights, bias in task.layers(flat):
        if weights.ndim == 4:
            weights = weights.transpose(3, 2, 0, 1)
        elif task.model == "cnn":
            outputs = weights.shape[1]
            weights = weights.reshape(5, 5, -1, outputs).transpose(2, 0, 1, 3).reshape(-1, outputs).T
        else:
            weights = weights.T
        values += [weights, bias]
    return values


def loss(task: Task, outputs: Any, ys: Any) -> Any:
    """Sum of the losses, without the penalty."""
    if task.task == "regression":
        return functional.mse_loss(outputs[:, 0], ys, reduction="sum")
    return functional.cross_entropy(outputs, ys, reduction="sum")


def errors(task: Task, outputs: Any, ys: Any) -> Any:
    """Sum of the mistakes, or of the squared errors."""
    if task.task == "regression":
        return ((outputs[:, 0] - ys) ** 2).sum()
    return (outputs.argmax(1) != ys).sum()


def samples(task: Task) -> tuple[Any, Any]:
    """All samples and targets as tensors."""
    return torch.from_numpy(task.x), torch.from_numpy(
        task.y.astype(np.int64) if task.task == "classification" else task.y
    )


def quantize(updates: Any, levels: int, blocks: int) -> Any:
    """The (s, b)-stochastic quantiser on rows of [n, D]; blocks of ceil(D / b) coordinates, the last ones shorter."""
    n, dim = updates.shape
    size = -(-dim // blocks)
    cut = functional.pad(updates, (0, blocks * size - dim)).view(n, blocks, size)
    norms = cut.norm(dim=2, keepdim=True)
    scaled = cut.abs() * (levels / norms.clamp_min(1e-30))
    steps = torch.floor(scaled + torch.rand_like(scaled))
    return (norms * cut.sign() * steps / levels).view(n, -1)[:, :dim]
