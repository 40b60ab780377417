"""A window before the first one: whether the pieces of an announced task work together at all."""

from __future__ import annotations

import numpy as np

from ofediq.errors import WireError, require, told
from ofediq.federation.protocol.messages import ModelMessage
from ofediq.federation.protocol.task import Task
from ofediq.federation.protocol.window import OpenWindow
from ofediq.methods import round as rounds
from ofediq.methods.client import Down, Outcome
from ofediq.models import Model
from ofediq.randomness import Address


def rehearse(task: Task, model: Model) -> None:
    """Go through a window with gradients of ones, and send everything; `WireError` if that cannot be done.

    Each piece may be sound by itself and ask for a number that no broadcast of this task holds. A client that found
    out in its first round would end there, with whatever exception that piece raises.
    """
    try:
        with np.errstate(all="ignore"):
            _rehearse(task, model)
    except Exception as error:  # pieces of strangers' choice: whatever they raise, the task is refused
        raise WireError(f"task: its pieces do not work together ({told(error)})") from None


def _rehearse(task: Task, model: Model) -> None:
    method, rule = task.method, task.method.server
    zeros = np.zeros(task.dim, np.float32)
    down = Down(zeros, dict.fromkeys(rule.vectors, zeros), dict.fromkeys(rule.scalars, np.float32(0.01)))
    memory = rounds.first_memory(method, zeros, 1)
    one = OpenWindow.of(task, model, 0, ModelMessage(1, method.window(0), 2, down), memory)
    ones = np.ones((1, task.dim), np.float32)
    losses = tuple(np.zeros(1, np.float32) for _ in one.experts)
    one.window = rounds.learn(method, one.window, lambda at: ones, np.ones(1, bool), one.down, memory, losses)
    decision = rounds.decide(method, one.window, one.down, memory, one.address, 2)
    address, decoded = Address(task.seed, one.opened.step, 0), {}
    for part, rows in decision.wanted.items():
        require(
            bool(np.isfinite(rows).all()),
            part,
            "must be finite where all gradients are 1",
            float(abs(rows).max()),
        )
        piece = method.compressor(part)
        signal = None if piece.signal is None else float(down.scalars[piece.signal])
        encoded = piece.encode(rows[0], address, signal)
        decoded[part] = piece.decode(encoded, rows.shape[-1], address, signal)[None]
    rounds.settle(method, memory, one.window, Outcome(decision.wanted, decoded, np.ones(1, bool)), one.down)
