"""`torch_vmap` as somebody tunes it who knows the machine: channels last, small groups, malloc that keeps its pages.

PyTorch's convolutions on a CPU are faster with the channels last, groups of clients that fit into the caches are
faster than one large batch, and fresh pages for every temporary cost about as much as the arithmetic on them.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import torch

from benchmarks.peers.scripts import task as shared
from benchmarks.peers.scripts import torch_model as peer
from benchmarks.peers.scripts import torch_vmap
from benchmarks.peers.scripts.task import Task

GROUP = 16  # senders at once
BATCH = 100  # samples in one pass
TRIM, MAP = -1, -3  # numbers of mallopt's settings
WHOLE = 2**31 - 1


def keep_pages() -> None:
    """Let glibc hold on to memory that is given back; elsewhere nothing happens."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        for setting in (TRIM, MAP):
            library.mallopt(setting, WHOLE)


class Federation(torch_vmap.Federation):
    """The same clients, in smaller groups."""

    group = GROUP

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.model = self.model.to(memory_format=torch.channels_last)

    def _errors(self, row: Any) -> float:
        with torch.no_grad():
            parts = [row[start : start + BATCH] for start in range(0, len(row), BATCH)]
            return sum(
                float(peer.errors(self.task, self.model(self.x[part]), self.y[part])) for part in parts
            )

    def _batch(self, row: Any) -> float:
        self.model.zero_grad()
        wrong = 0.0
        for start in range(0, len(row), BATCH):
            part = row[start : start + BATCH]
            outputs = self.model(self.x[part])
            peer.loss(self.task, outputs, self.y[part]).backward()
            wrong += float(peer.errors(self.task, outputs.detach(), self.y[part]))
        self._move_by_gradient()
        return wrong


if __name__ == "__main__":
    keep_pages()
    given = shared.arguments()
    federation = Federation(given.task)
    shared.run(federation.window, lambda: peer.flat_params(given.task, federation.model), given)
