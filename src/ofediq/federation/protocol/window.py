"""`OpenWindow`: the open round of a client, from the model that opened it to what it says at its end."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ofediq.arrays import Numbers, Vector
from ofediq.codec import Additive, Encoded
from ofediq.errors import told
from ofediq.federation.protocol.messages import LostError, ModelMessage, Publish, read_chain, write_body
from ofediq.federation.protocol.secured import SecureMember
from ofediq.federation.protocol.task import Task
from ofediq.methods import round as rounds
from ofediq.methods.client import Down, Outcome, Window
from ofediq.models import Model
from ofediq.models.base import Experts
from ofediq.randomness import Address

log = logging.getLogger("ofediq.federation")


@dataclass
class OpenWindow:
    """The open round of a client.

    Attributes:
        task: what all agreed on.
        model: that of the task.
        number: the client's.
        opened: the message that opened it.
        window: the method's, a batch of one.
        memory: as it was when the round opened.
        taken: steps done.
        said: what it sent; the same bytes again if the server asks again.
        secure: where updates are added up unread, and it is due.
    """

    task: Task
    model: Model
    number: int
    opened: ModelMessage
    window: Window
    memory: Any
    taken: int = 0
    said: bytes | None = None
    secure: SecureMember | None = None

    @classmethod
    def of(cls, task: Task, model: Model, number: int, opened: ModelMessage, memory: Any) -> OpenWindow:
        """The window that `opened` opens."""
        here = Address(task.seed, opened.step, np.array([number]))
        window = rounds.open_window(task.method, opened.down._replace(address=here), memory, 1)
        return cls(task, model, number, opened, window, memory)

    @property
    def address(self) -> Address:
        """Of its draws, for a batch of one."""
        return Address(self.task.seed, self.opened.step, np.array([self.number]))

    @property
    def down(self) -> Down:
        """What the broadcast told it, and who it is."""
        return self.opened.down._replace(address=self.address)

    @property
    def experts(self) -> Experts:
        """What it predicts with now."""
        return self.task.method.client.experts(self.window, self.down, self.memory)

    @property
    def length(self) -> int:
        """How many samples it takes."""
        return int(self.task.method.window_to(self.opened.step))

    @property
    def hungry(self) -> bool:
        """Whether it still takes samples."""
        return not self.opened.final and self.taken < self.length

    @property
    def due(self) -> bool:
        """Whether the server waits for this client in this round."""
        rule, clients = self.task.method.participation, self.opened.clients
        if not rule.foreseeable or self.number >= clients:
            return False
        drawn = rule.active(self.task.seed, self.opened.step, np.array([self.number]), clients)
        return bool(np.asarray(drawn)[0])

    def take_part(self, federation: str, name: str, payload: bytes | None = None) -> list[Publish]:
        """Greet the cohort of this round, where updates are added up unread and it is this client's turn."""
        piece, step = self.task.method.compress, self.opened.step
        if not self.task.secure or not isinstance(piece, Additive) or not self.due:
            return []
        known = (federation, name, self.number, piece, self.opened.epoch, step)
        self.secure = SecureMember(*known, self.task.least)
        self.secure.payload = payload
        return [self.secure.hello()]

    def read(self, payload: bytes) -> ModelMessage:
        """A broadcast; a difference, or several, as from this round."""
        missed = read_chain(payload)
        if missed is not None:
            return self.caught_up(missed)
        return self.task.read(payload, (self.opened.epoch, self.opened.step, self.opened.clients))

    def caught_up(self, missed: Iterable[bytes]) -> ModelMessage:
        """The last of the rounds after this one, from the differences of all of them; or `LostError`."""
        one = self
        for said in missed:
            opened = one.read(said)
            if opened.step <= one.opened.step:
                continue  # it came in the meantime
            if opened.difference is None or not one.precedes(opened):
                raise LostError("model: a chain of differences from something else")
            model = one.moved(opened)
            opened = replace(opened, down=opened.down._replace(model=model), difference=None)
            one = replace(one, opened=opened)
        return one.opened

    def precedes(self, opened: ModelMessage) -> bool:
        """Whether `opened` is the round right after this one, of the same server."""
        before = opened.step - int(self.task.method.window_to(opened.step))
        return (self.opened.epoch, self.opened.step, self.opened.final) == (opened.epoch, before, False)

    def moved(self, opened: ModelMessage) -> Vector:
        """The model of this round, moved by the difference in `opened`."""
        task, step = self.task, self.opened.step
        copy = np.asarray(self.opened.down.model)
        encoded = opened.difference or Encoded(b"")
        return task.method.broadcast.decode(encoded, True, copy, task.dim, task.seed, step)

    def learn(self, row: Vector | None, label: Numbers, losses: tuple[Any, ...]) -> None:
        """One local step on what was made of a sample; `losses` are those of the experts that answered.

        Without a `row` the label answers no prediction, and there is nothing to learn from it.
        """

        def gradients(at: Any) -> Vector:
            if row is None:
                return np.zeros((1, self.model.dim), np.float32)
            return np.asarray(self.model.client_gradients(at, row, label))

        self.window = rounds.learn(
            self.task.method, self.window, gradients, np.ones(1, bool), self.down, self.memory, losses
        )

    def close(self, name: str) -> tuple[bytes, Any, Any]:
        """Messages of client `name`, none if the draw says no; its memories if they are lost, and if they count.

        Numbers of a hostile broadcast may be such that its method cannot work with them: then there is no message.
        """
        try:
            return self._closed(name)
        except Exception as error:  # whatever a piece raises
            log.warning("client %s: nothing can be sent with this broadcast (%s)", name, told(error))
            return b"", self.memory, self.memory

    def _closed(self, name: str) -> tuple[bytes, Any, Any]:
        method, down, step = self.task.method, self.down, self.opened.step
        if self.number >= self.opened.clients:  # it joined after this round was opened
            return b"", self.memory, self.memory
        with np.errstate(all="ignore"):
            decision = rounds.decide(
                method, self.window, down, self.memory, self.address, self.opened.clients
            )
        if not all(np.isfinite(rows).all() for rows in decision.wanted.values()):
            log.warning("client %s: its update is not finite, it sends none", name)
            return b"", self.memory, self.memory
        sends = bool(decision.sends[0])
        address, messages, decoded = Address(self.task.seed, step, self.number), {}, {}
        for part, rows in decision.wanted.items():
            piece = method.compressor(part)
            decoded[part] = np.zeros_like(rows)
            if sends:
                signal = None if piece.signal is None else float(down.scalars[piece.signal])
                messages[part] = piece.encode(rows[0], address, signal)
                decoded[part] = piece.decode(messages[part], rows.shape[-1], address, signal)[None]
        if not sends and method.client.idle:
            return b"", self.memory, self.memory
        outcome = Outcome(decision.wanted, decoded, decision.sends)
        lost = counted = rounds.settle(method, self.memory, self.window, outcome, down)
        if sends and method.client.receipts:
            nothing = outcome._replace(accepted=np.zeros(1, bool))
            lost = rounds.settle(method, self.memory, self.window, nothing, down)
        return write_body(messages, step) if sends else b"", lost, counted
