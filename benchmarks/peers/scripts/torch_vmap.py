"""PyTorch without a loop over clients: `torch.func`'s vmap of grad over groups of senders.

Where nothing but the sum of the gradients is needed (everyone sends, unquantised, at every step), one backward pass
over all samples gives it; then that is what runs, because a good programmer would write it so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from benchmarks.peers.scripts import task as shared
from benchmarks.peers.scripts import torch_model as peer
from benchmarks.peers.scripts.task import Flags, Rows, Task

GROUP = 64  # senders at once: more need more memory and are no faster


class Federation:
    """A common model, and all clients side by side."""

    group = GROUP

    def __init__(self, task: Task) -> None:
        self.task = task
        self.model = peer.build(task)
        self.x, self.y = peer.samples(task)
        self.gradients = vmap(grad(self._loss), in_dims=(None, 0, 0))
        self.own_gradients = vmap(grad(self._loss), in_dims=(0, 0, 0))

    def window(self, rows: Rows, senders: Flags) -> list[float]:
        """Every client predicts at every step; the senders learn, group by group."""
        task, chosen = self.task, np.flatnonzero(senders)
        if task.period == 1 and not task.levels and len(chosen) == task.clients:
            return [self._batch(rows[0])]
        errors = [self._errors(row) for row in rows]
        params = {name: value.detach() for name, value in self.model.named_parameters()}
        total = torch.zeros(task.dim)
        for start in range(0, len(chosen), self.group):
            updates = self._updates(params, rows[:, chosen[start : start + self.group]]) / task.rate
            total += (peer.quantize(updates, task.levels, task.blocks) if task.levels else updates).sum(0)
        self._move(total)
        return errors

    def _errors(self, row: Any) -> float:
        with torch.no_grad():
            return float(peer.errors(self.task, self.model(self.x[row]), self.y[row]))

    def _batch(self, row: Any) -> float:
        self.model.zero_grad()
        outputs = self.model(self.x[row])
        peer.loss(self.task, outputs, self.y[row]).backward()
        self._move_by_gradient()
        return float(peer.errors(self.task, outputs.detach(), self.y[row]))

    def _move_by_gradient(self) -> None:
        total = torch.cat([p.grad.reshape(-1) for p in self.model.parameters()])
        flat = torch.cat([p.detach().reshape(-1) for p in self.model.parameters()])
        self._move(total + self.task.clients * self.task.l2 * flat)

    def _updates(self, params: dict[str, Any], rows: Rows) -> Any:
        """Sums of a window's gradients, [senders, D]; each sender's own model moves between the steps."""
        first = self.gradients(params, self.x[rows[0]], self.y[rows[0]])
        total = _flat(first)
        if self.task.period == 1:
            return total
        own = {name: params[name] - self.task.step_size * first[name] for name in params}
        for row in rows[1:]:
            gradients = self.own_gradients(own, self.x[row], self.y[row])
            total = total + _flat(gradients)
            own = {name: own[name] - self.task.step_size * gradients[name] for name in own}
        return total

    def _loss(self, params: dict[str, Any], x: Any, y: Any) -> Any:
        outputs = functional_call(self.model, params, (x[None],))
        penalty = sum((value * value).sum() for value in params.values()) if self.task.l2 else 0.0
        return peer.loss(self.task, outputs, y[None]) + self.task.l2 / 2 * penalty

    @torch.no_grad()
    def _move(self, total: Any) -> None:
        total = total * (-self.task.step_size / self.task.clients)
        start = 0
        for parameter in self.model.parameters():
            parameter += total[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()


def _flat(gradients: dict[str, Any]) -> Any:
    return torch.cat([value.flatten(1) for value in gradients.values()], dim=1)


if __name__ == "__main__":
    given = shared.arguments()
    federation = Federation(given.task)
    shared.run(federation.window, lambda: peer.flat_params(given.task, federation.model), given)
