"""A loop over the clients in PyTorch, one backward pass for each: what most papers of the field ship."""

from __future__ import annotations

import copy
from typing import Any

import torch

from benchmarks.peers.scripts import task as shared
from benchmarks.peers.scripts import torch_model as peer
from benchmarks.peers.scripts.task import Flags, Rows, Task


class Federation:
    """A common model, and the clients that take turns."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.model = peer.build(task)
        self.x, self.y = peer.samples(task)

    def window(self, rows: Rows, senders: Flags) -> list[float]:
        """Every client predicts at every step; the senders learn, and what they send is averaged."""
        task = self.task
        total = torch.zeros(task.dim)
        errors = [0.0] * len(rows)
        for client in range(task.clients):
            local = copy.deepcopy(self.model) if senders[client] and task.period > 1 else self.model
            update = torch.zeros(task.dim)
            for step, row in enumerate(rows[:, client]):
                x, y = self.x[row : row + 1], self.y[row : row + 1]
                outputs = None
                if senders[client]:
                    gradient, outputs = self._gradient(local, x, y)
                    update += gradient
                    self._descend(local)
                if outputs is None or step > 0:  # a window's first step is taken at the common model
                    with torch.no_grad():
                        outputs = self.model(x)
                errors[step] += float(peer.errors(task, outputs, y))
            if senders[client]:
                total += self._sent(update / task.rate)
        self._move(total)
        return errors

    def _gradient(self, model: Any, x: Any, y: Any) -> tuple[Any, Any]:
        model.zero_grad()
        outputs = model(x)
        peer.loss(self.task, outputs, y).backward()
        gradient = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
        if self.task.l2:
            gradient += self.task.l2 * torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        return gradient, outputs.detach()

    @torch.no_grad()
    def _descend(self, local: Any) -> None:
        if local is not self.model:
            for parameter in local.parameters():
                decayed = parameter.grad + self.task.l2 * parameter
                parameter -= self.task.step_size * decayed

    def _sent(self, update: Any) -> Any:
        if not self.task.levels:
            return update
        return peer.quantize(update[None], self.task.levels, self.task.blocks)[0]

    @torch.no_grad()
    def _move(self, total: Any) -> None:
        total *= -self.task.step_size / self.task.clients
        start = 0
        for parameter in self.model.parameters():
            parameter += total[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()


if __name__ == "__main__":
    given = shared.arguments()
    federation = Federation(given.task)
    shared.run(federation.window, lambda: peer.flat_params(given.task, federation.model), given)
